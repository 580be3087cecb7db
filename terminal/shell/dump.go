package shell

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
)

// A dump is an environment on its way out of a shell: an opening mark, NAME=value entries each ended by NUL, a closing
// mark. The marks are random for each capture, so that nothing a start-up file was written to print can be taken for
// one.

// Limits of a dump. The kernel takes no longer entry in an exec, and no much larger environment.
const (
	maxEntry = 128<<10 - 1
	maxDump  = 2 << 20
)

// marks delimit one dump.
type marks struct{ open, close string }

func newMarks() marks { return marks{randomHex(), randomHex()} }

func randomHex() string {
	var b [16]byte
	rand.Read(b[:]) // documented never to fail
	return hex.EncodeToString(b[:])
}

// script prints a dump of its environment. It has neither quotes nor backslashes, so any shell can pass it on in single
// quotes; each mark is given in two halves, so that a variable that happens to hold the script does not hold a mark.
// env is named by path: PATH is not ours here.
func (m marks) script() string {
	half := func(s string) string { return "printf %s%s " + s[:len(s)/2] + " " + s[len(s)/2:] }
	return half(m.open) + " && /usr/bin/env -0 && " + half(m.close)
}

// find returns the variables of the last whole dump in out. Not ok means that there is none.
func (m marks) find(out []byte) (vars []string, ok bool) {
	end := bytes.LastIndex(out, []byte(m.close))
	if end < 0 {
		return nil, false
	}
	begin := bytes.LastIndex(out[:end], []byte(m.open))
	if begin < 0 {
		return nil, false
	}
	body := out[begin+len(m.open) : end]
	if len(body) > maxDump || len(body) == 0 || body[len(body)-1] != 0 {
		return nil, false
	}
	seen := map[string]string{}
	for entry := range strings.SplitSeq(string(body[:len(body)-1]), "\x00") {
		name, value, cut := strings.Cut(entry, "=")
		if cut && len(entry) <= maxEntry && isName(name) && !isFunction(name, value) && !internal(name) {
			seen[name] = value
		}
	}
	vars = make([]string, 0, len(seen))
	for name, value := range seen {
		vars = append(vars, name+"="+value)
	}
	slices.Sort(vars)
	return vars, true
}

// isName says whether a shell could have such a variable. Others exist in environments, and no shell made them.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// internal says whether a variable belongs to the shell or the terminal that the capture ran in, rather than to the
// user: where it stands, how deep, how it prompts and remembers, what its terminal is.
func internal(name string) bool {
	if StartupHook(name) {
		return true
	}
	switch name {
	case "_", "PWD", "OLDPWD", "SHLVL", "IFS", "PPID", "UID", "EUID", "GID", "EGID", "RANDOM", "SECONDS", "LINENO",
		"OPTIND", "OPTARG", "OPTERR", "REPLY", "FUNCNAME", "PIPESTATUS", "DIRSTACK", "GROUPS", "TMOUT", "MAILCHECK",
		"PS0", "PS1", "PS2", "PS3", "PROMPT", "RPROMPT", "RPS1", "SPROMPT", "PROMPT_DIRTRIM", "KEYTIMEOUT",
		"TERM", "TERMCAP", "TERMINFO", "TTY", "COLUMNS", "LINES", "WINDOWID", "GPG_TTY", "SSH_TTY", "STTY",
		"SAVEHIST", "FCEDIT", "IGNOREEOF", "INPUTRC", "HOSTTYPE", "MACHTYPE", "OSTYPE", "VENDOR", "CPUTYPE",
		"VSCODE_RESOLVING_ENVIRONMENT", "HARDSHELL_RESOLVING_ENVIRONMENT":
		return true
	}
	for _, prefix := range []string{"BASH_", "HIST", "COMP_", "ZSH_EXECUTION", "ZSH_EVAL", "ZSH_SUBSHELL", "TERM_", "fish_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
