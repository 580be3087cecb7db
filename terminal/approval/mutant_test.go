package approval

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

var mutantTime = flag.Duration("mutants", 4*time.Second, "how long to mutate commands")

// TestMutants changes commands that write a marker in ways that keep, or almost keep, their meaning, and runs for
// real what is allowed although only reading programs are. No marker may appear.
func TestMutants(t *testing.T) {
	shells := map[command.Dialect]string{}
	for dialect, name := range map[command.Dialect]string{command.Bash: "bash", command.POSIX: "dash"} {
		if path, err := exec.LookPath(name); err == nil {
			shells[dialect] = path
		}
	}
	if len(shells) == 0 {
		require.Feature(t, "shell", errors.New("no bash and no dash here"))
	}
	var rules []Rule
	for name := range strings.FieldsSeq("ls cat echo head grep rg find sed sort env xargs timeout nice bash sh git,log git,status tar printf test cd") {
		rules = append(rules, ruleOf(name))
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "x"), []byte("touch marker\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	all := bases(t)
	ctx, cancel := context.WithTimeout(context.Background(), *mutantTime)
	defer cancel()
	tried, ran := 0, 0
	for ctx.Err() == nil {
		script := all[random.IntN(len(all))]
		for range 1 + random.IntN(4) {
			script = mutate(random, script)
		}
		dialect := command.Dialect(random.IntN(2))
		s, err := command.Parse(script, dialect)
		if err != nil || shells[dialect] == "" {
			continue
		}
		tried++
		call := Call{Script: s, Cwd: folder, Now: clock}
		if _, ok := Decide(call, Policy{Ask: UnlessTrusted}, rules, nil).(Allow); !ok || ctx.Err() != nil {
			continue
		}
		ran++
		run, stop := context.WithTimeout(context.Background(), 10*time.Second)
		cmd := exec.CommandContext(run, shells[dialect], "-c", script)
		cmd.Dir, cmd.Env = folder, []string{"PATH=/usr/bin:/bin", "HOME=" + folder}
		cmd.WaitDelay = time.Second
		out, _ := cmd.CombinedOutput()
		late := errors.Is(run.Err(), context.DeadlineExceeded)
		stop()
		entries, err := os.ReadDir(folder)
		if err != nil || len(entries) != 1 {
			t.Fatalf("seed %d: %q ran in dialect %d and left %v (%v)\n%s\n%s", seed, script, dialect, entries, err, out, Explain(call, Policy{Ask: UnlessTrusted}, rules, nil))
		}
		if late {
			t.Errorf("seed %d: %q did not end", seed, script)
		}
	}
	t.Logf("%d mutants, %d allowed and run, no marker", tried, ran)
	if tried < 100 {
		t.Errorf("only %d mutants were tried", tried)
	}
}

// bases are the short attacks and some readers.
func bases(tb testing.TB) []string {
	var out []string
	for _, a := range attacks(tb) {
		if len(a.script) < 400 && !a.forbid {
			out = append(out, a.script)
		}
	}
	return append(out, "ls x; touch marker", "echo hi && touch marker", "cat x | sh", "grep a x || touch marker", "sed -n p x; sed -n 'w marker' x", "sort x -o marker",
		"find . -exec touch marker ';'", "env -S 'touch marker'", "xargs touch < x", "bash -c 'touch marker'", "echo $(touch marker)", "echo `touch marker`", "cat <<E\n$(touch marker)\nE",
		"[ -f x ] && touch marker", "for i in a; do touch marker; done", "cat x", "echo hi", "ls -la", "sed -n 1,2p x", "head -1 x", "printf '%s' a", "grep touch x | sort -u")
}

// mutate applies one change.
func mutate(r *rand.Rand, s string) string {
	at := func() int { return r.IntN(len(s) + 1) }
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	word := func(change func(string) string) string {
		fields := strings.SplitAfter(s, " ")
		n := r.IntN(len(fields))
		bare := strings.TrimSuffix(fields[n], " ")
		fields[n] = change(bare) + fields[n][len(bare):]
		return strings.Join(fields, "")
	}
	insert := func(text string) string { i := at(); return s[:i] + text + s[i:] }
	switch r.IntN(12) {
	case 0:
		return word(func(w string) string { q := pick("'", `"`, "$'", `$"`, ""); return q + w + strings.TrimPrefix(q, "$") })
	case 1:
		return word(func(w string) string {
			if w == "" {
				return w
			}
			i := r.IntN(len(w))
			return w[:i] + pick(`\`, `''`, `""`, "\\\n", "$@", "$x", "${x}", "$*", "``", "$()") + w[i:]
		})
	case 2:
		return pick("env ", "env A=b ", "timeout 9 ", "nice ", "command ", "time ", "! ", "bash -c ", "sh -c ", "xargs ", "X=1 ", "LC_ALL=C ", "{ ", "( ", "eval ", "if ", "cd . && ") + s + pick("", "", ";}", ")", "; fi", " < x")
	case 3:
		return insert(pick("\n", ";", "&", "|", "&&", "||", "|&", ";;", "\r\n", "\r"))
	case 4:
		return insert(pick("\u00a0", "\u2028", "\u3000", "\u200b", "\u202e", "é", "\xa0", "\x85", "\xff", "\x01", "\v", "\f", "＄（", "；"))
	case 5:
		return strings.ReplaceAll(s, " ", pick("$IFS", "${IFS}", "${IFS%x}", "\t", "  ", "\\\n", "{,}", " \\\n "))
	case 6:
		return insert(pick("'", `"`, "`", "\\", "#", "$", "(", ")", "{", "}", "<", ">", "*", "?", "[", "]", "~", "=", "!", " "))
	case 7:
		return insert(pick("$(touch marker)", "`touch marker`", "<(touch marker)", ">marker", "2>marker", ">|marker", "&>marker", "<>marker", "${x:=$(touch marker)}", "${x@P}", "$((a[$(touch marker)]))",
			";touch marker;", "\ntouch marker\n", " -o marker ", " -exec touch marker ; ", "${x:-`touch marker`}"))
	case 8:
		return pick("bash -c ", "sh -c ", "eval ", "echo ") + "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	case 9:
		return "echo x" + pick(";", "\n", " && ", " | ", " & ", "\n\n", " #\n", "\\\n", " 'a\nb'\n") + s
	case 10:
		if len(s) > 1 {
			i := r.IntN(len(s))
			return s[:i] + s[i+1:]
		}
		return s
	default:
		return "cat <<" + pick("E", "'E'", "\\E", "\"E\"", "-E") + "\n" + s + "\n" + pick("E", "\tE", " E", "E ", "") + "\n" + pick("", s)
	}
}
