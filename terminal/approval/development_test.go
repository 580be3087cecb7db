package approval

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/terminal/command"
)

// development is what projects write down for people to run: command and source.
func development(tb testing.TB) (out [][2]string) {
	tb.Helper()
	data, err := os.ReadFile("testdata/development.txt")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(columns) != 3 || columns[0] == "" || columns[2] != "MIT" && columns[2] != "BSD" && columns[2] != "Apache-2.0" {
			tb.Fatalf("command, source and licence are needed: %q", line)
		}
		out = append(out, [2]string{columns[0], columns[1]})
	}
	return out
}

// starters are the rules that a user may begin with.
func starters(tb testing.TB) (out []Rule) {
	tb.Helper()
	files, err := filepath.Glob("../../docs/rules/*.toml")
	if err != nil || len(files) < 5 {
		tb.Fatalf("%d files of rules, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		rules, err := Load(file, data, User) // which holds each to its own examples
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, rules...)
	}
	return out
}

// TestDevelopmentAsksLittle holds R6, as far as it holds: see decision 0023. More questions than today's are a defect.
func TestDevelopmentAsksLittle(t *testing.T) {
	commands := development(t)
	if len(commands) != 300 {
		t.Fatalf("%d commands", len(commands))
	}
	for _, c := range []struct {
		name   string
		policy Policy
		rules  []Rule
		most   int
	}{
		{"the default profile", Policy{Ask: OnRequest}, nil, 5},
		{"untrusted without a rule", Policy{Ask: UnlessTrusted}, nil, 242},
		{"untrusted with the rules of docs/rules", Policy{Ask: UnlessTrusted}, starters(t), 182},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			for _, line := range commands {
				switch d := Decide(callOf(t, line[0], command.Bash), c.policy, c.rules, nil).(type) {
				case Question:
					asked++
					t.Logf("asks: %s (%s)", line[0], strings.Join(d.Reasons, " "))
				case Forbid:
					t.Errorf("%q of %s is refused: %s", line[0], line[1], d.Why)
				}
			}
			if asked > c.most {
				t.Errorf("%d of %d ask, %d may", asked, len(commands), c.most)
			}
			t.Logf("%d ask", asked)
		})
	}
}

// TestStarterRulesOpenNothing: the table of attacks holds with the rules that we give away, too.
func TestStarterRulesOpenNothing(t *testing.T) {
	more := starters(t)
	for _, a := range attacks(t) {
		for _, dialect := range []command.Dialect{command.Bash, command.POSIX, command.Zsh} {
			s, err := command.Parse(a.script, dialect)
			if err != nil {
				continue // refused
			}
			call := Call{Script: s, Argv: []string{"/bin/bash", "-c", a.script}, Cwd: "/work/project", Now: clock}
			if _, runs := Decide(call, Policy{Ask: UnlessTrusted}, append(more, a.rules...), nil).(Allow); runs {
				t.Errorf("%s in dialect %d runs: %q", a.id, dialect, a.script)
			}
		}
	}
}

// replay runs commands in their order, in one session, with a person who approves whatever is asked, for as long as is
// offered. The model proposes a rule as the tools' prefix_rule lets it: program and verb. It counts the questions.
func replay(tb testing.TB, commands [][2]string, rules []Rule, proposes bool) (asked, always int) {
	tb.Helper()
	var grants Grants
	for i, line := range commands {
		call := callOf(tb, line[0], command.Bash)
		q, ok := Decide(call, Policy{Ask: UnlessTrusted}, rules, grants).(Question)
		if !ok {
			continue
		}
		asked++
		if proposes {
			for _, part := range q.Parts {
				if len(part.Argv) < 2 {
					continue
				}
				with := call
				with.Prefix = part.Argv[:2]
				other, ok := Decide(with, Policy{Ask: UnlessTrusted}, rules, grants).(Question)
				if ok && slices.ContainsFunc(other.Proposed, func(r Rule) bool { return !r.Exact }) {
					q = other
					break
				}
			}
		}
		g := Grant{ID: strconv.Itoa(i), Scope: Session, Digest: q.Digest, Issued: call.Now, Expires: call.Now.Add(time.Hour)}
		if slices.Contains(q.Scopes, Always) {
			g.Scope, g.Rules = Always, q.Proposed
			always++
		}
		grants = grants.With(g)
		if _, again := Decide(call, Policy{Ask: UnlessTrusted}, rules, grants).(Question); again {
			tb.Errorf("what was approved is asked again: %s", line[0])
		}
	}
	return asked, always
}

// TestDevelopmentReplayed holds what R6 says of a session: what was approved is not asked again. How many questions that
// leaves is in decision 0023; more than today's are a defect.
func TestDevelopmentReplayed(t *testing.T) {
	commands := development(t)
	for _, c := range []struct {
		name     string
		proposes bool
		rules    []Rule
		most     int
	}{
		{"each approved as it is", false, starters(t), 178},
		{"each approved with the rule that the model proposes", true, starters(t), 120},
		{"the same without the rules of docs/rules", true, nil, 138},
	} {
		asked, always := replay(t, commands, c.rules, c.proposes)
		if asked > c.most {
			t.Errorf("%s: %d of %d ask, %d may", c.name, asked, len(commands), c.most)
		}
		t.Logf("%s: %d ask, and %d are answered for always", c.name, asked, always)
	}
}
