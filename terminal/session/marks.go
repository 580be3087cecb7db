package session

import (
	"crypto/rand"
	"path"
	"strconv"
	"strings"
)

// marks make an interactive bash tell, by sequences that no terminal shows, when it stands at its prompt, when it begins
// a command, and with which code that ended: OSC 133, as terminals know it, with a word that other programs cannot
// guess. They come from two variables that bash reads from its environment and then keeps to itself, so that what it
// starts does not inherit them. A start-up file that sets those variables itself wins; then the kernel alone is asked.
type marks struct {
	nonce  string
	seen   bool // at least one was printed
	prompt bool // the last one says that the shell is at its prompt
}

func newMarks() *marks { return &marks{nonce: rand.Text()} }

// environment adds the variables, unless the command brings its own.
func (m *marks) environment(env []string) []string {
	for _, entry := range env {
		if strings.HasPrefix(entry, "PROMPT_COMMAND=") || strings.HasPrefix(entry, "PS0=") {
			return env
		}
	}
	return append(append(make([]string, 0, len(env)+2), env...),
		`PROMPT_COMMAND=builtin printf '\033]133;D;%s;aid=`+m.nonce+`\007' "$?"; builtin export -n PROMPT_COMMAND PS0`,
		`PS0=\e]133;C;aid=`+m.nonce+`\a`)
}

// mark is what a sequence says; ok is false for one that is not ours.
func (m *marks) mark(osc string) (kind byte, code int, ok bool) {
	parts := strings.Split(osc, ";")
	if len(parts) < 3 || parts[0] != "133" || parts[len(parts)-1] != "aid="+m.nonce || len(parts[1]) != 1 {
		return 0, 0, false
	}
	if parts[1] == "D" && len(parts) == 4 {
		code, _ = strconv.Atoi(parts[2])
	}
	return parts[1][0], code, true
}

// shellOf says which interactive shell an argv starts, directly or as the only word of another's -c; "" is none.
func shellOf(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	name := strings.TrimPrefix(path.Base(argv[0]), "-")
	switch name {
	case "bash", "zsh", "sh", "dash", "ksh", "fish":
	default:
		return ""
	}
	for i := 1; i < len(argv); i++ {
		arg := argv[i]
		switch {
		case arg == "--rcfile" || arg == "--init-file":
			i++
		case strings.HasPrefix(arg, "--"):
		case strings.HasPrefix(arg, "-") && strings.Contains(arg, "c"):
			if i+2 != len(argv) || strings.ContainsAny(argv[i+1], "|&;<>()$`\\\"'*?[]#~={}!\n") {
				return ""
			}
			return shellOf(strings.Fields(argv[i+1])) // it is replaced by that
		case strings.HasPrefix(arg, "-") && len(arg) > 1:
		default:
			return "" // a script
		}
	}
	return name
}
