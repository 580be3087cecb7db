package approval

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

var clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// attack is one line of the table.
type attack struct {
	id     string
	rules  []Rule
	script string
	forbid bool
}

func attacks(tb testing.TB) (out []attack) {
	tb.Helper()
	data, err := os.ReadFile("testdata/attacks.txt")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		fields := strings.SplitN(line, "  ", 3)
		if len(fields) != 3 {
			tb.Fatalf("three columns are needed: %q", line)
		}
		a := attack{id: fields[0], script: fields[2]}
		for spec := range strings.SplitSeq(fields[1], "|") {
			a.rules = append(a.rules, ruleOf(spec))
		}
		a.forbid = a.rules[0].Verdict == Forbidden
		for n := range []int{500, 1500, 3000} {
			count := []int{500, 1500, 3000}[n]
			a.script = strings.ReplaceAll(a.script, `\nop`+strconv.Itoa(count), strings.Repeat("true; ", count))
		}
		a.script = strings.NewReplacer(`\s300`, strings.Repeat(" ", 300), `\n`, "\n", `\t`, "\t", "MARKER", "marker", "MARK", "touch marker").Replace(a.script)
		out = append(out, a)
	}
	return out
}

// ruleOf reads "git,push" as a rule that allows, "!git,push" as one that forbids, "=git,push" as one that is exact.
func ruleOf(spec string) Rule {
	var r Rule
	if rest, ok := strings.CutPrefix(spec, "!"); ok {
		r.Verdict, spec = Forbidden, rest
	}
	if rest, ok := strings.CutPrefix(spec, "="); ok {
		r.Exact, spec = true, rest
	}
	for word := range strings.SplitSeq(spec, ",") {
		r.Prefix = append(r.Prefix, []string{word})
	}
	if err := r.prove(); err != nil {
		panic(err)
	}
	return r
}

func callOf(tb testing.TB, script string, dialect command.Dialect) Call {
	tb.Helper()
	s, err := command.Parse(script, dialect)
	if err != nil {
		tb.Fatal(err)
	}
	return Call{Script: s, Argv: []string{"/bin/bash", "-c", script}, Cwd: "/work/project", Now: clock}
}

func TestAttacks(t *testing.T) {
	seen := map[string]int{}
	for _, a := range attacks(t) {
		seen[a.id]++
		for _, dialect := range []command.Dialect{command.Bash, command.POSIX, command.Zsh, command.Korn} {
			s, err := command.Parse(a.script, dialect)
			if err != nil {
				if fault.KindOf(err) != fault.TooLarge || len(a.script) < 10000 {
					t.Errorf("%s %.80q: %v", a.id, a.script, err)
				}
				continue // refused, not judged more mildly
			}
			call := Call{Script: s, Cwd: "/work/project", Now: clock}
			for _, ask := range []Ask{UnlessTrusted, OnRequest, Never} {
				switch Decide(call, Policy{Ask: ask}, a.rules, nil).(type) {
				case Forbid:
				case Question:
					if a.forbid && dialect == command.Bash && s.Err == nil {
						t.Errorf("%s %.80q asks, and a rule forbids it", a.id, a.script)
					}
				case Allow:
					if a.forbid || ask == UnlessTrusted {
						t.Errorf("%s %.80q runs in dialect %d under %v:\n%s", a.id, a.script, dialect, ask, Explain(call, Policy{Ask: ask}, a.rules, nil))
					}
				}
			}
		}
	}
	for n := 1; n <= 25; n++ {
		if id := "S" + strconv.Itoa(n); seen[id] == 0 {
			t.Errorf("no case for %s", id)
		}
	}
}
