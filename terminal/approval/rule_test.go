package approval

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

const good = `# mine
[[rule]]
prefix = ["git", ["status", "log"]]
decision = "allow"
why = "it only looks"
match = ["git status --short", "cd x && /usr/bin/git log -5"]
not_match = ["git push", "git log --output=x", "git status; make"]

[[rule]]
prefix = ["bash"]
decision = "allow"
not_match = ["bash -c 'touch x'", "curl x | bash"]

[[rule]]
prefix = ["git", "push"]
decision = "forbid"
match = ["git -C x push", "sudo git push"]
not_match = ["git log --grep push"]
`

func TestLoad(t *testing.T) {
	rules, err := Load("rules.toml", []byte(good), User)
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) != 3 || rules[0].Line != 2 || rules[1].Line != 9 || rules[2].Line != 14 || rules[2].File != "rules.toml" {
		t.Errorf("%+v", rules)
	}
	if rules[0].Exact || !rules[1].Exact {
		t.Error("only the shell's rule must be exact")
	}
}

func TestLoadRefuses(t *testing.T) {
	rule := func(more string) string { return "\n[[rule]]\nprefix = [\"a\"]\n" + more }
	for name, c := range map[string]struct {
		text   string
		origin Origin
		kind   fault.Kind
		says   string
	}{
		"unknown key":        {rule("decision = \"ask\"\nprefx = 1\n"), User, fault.Invalid, "f.toml:5:1"},
		"unknown table":      {"[rules]\n", User, fault.Invalid, "f.toml:1"},
		"no TOML":            {"[[rule]\n", User, fault.Invalid, "f.toml:1"},
		"no decision":        {rule(""), User, fault.Invalid, "f.toml:2"},
		"no prefix":          {"[[rule]]\ndecision = \"ask\"\n", User, fault.Invalid, "f.toml:1"},
		"empty word":         {"[[rule]]\nprefix = [[]]\ndecision = \"ask\"\n", User, fault.Invalid, "Word 1"},
		"a number":           {"[[rule]]\nprefix = [1]\ndecision = \"ask\"\n", User, fault.Invalid, "Word 1"},
		"example":            {rule("decision = \"ask\"\nmatch = [\"b\"]\n"), User, fault.Invalid, `its example "b"`},
		"counter-example":    {rule("decision = \"ask\"\nnot_match = [\"x; a\"]\n"), User, fault.Invalid, `"x; a"`},
		"workspace allows":   {rule("decision = \"allow\"\n"), Workspace, fault.Forbidden, "may only ask or forbid"},
		"second is the bad":  {rule("decision = \"ask\"\n") + rule("decision = \"x\"\n"), User, fault.Invalid, "f.toml:6"},
		"shell's long match": {"[[rule]]\nprefix = [\"bash\"]\ndecision = \"allow\"\nmatch = [\"bash -c x\"]\n", User, fault.Invalid, "does not match"},
	} {
		_, err := Load("f.toml", []byte(c.text), c.origin)
		if fault.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load("f.toml", []byte(rule("decision = \"forbid\"\n")), Workspace); err != nil {
		t.Errorf("a workspace may tighten: %v", err)
	}
}

func TestMatching(t *testing.T) {
	for _, c := range []struct{ rule, script, want string }{
		{"npm,test", "npm test", "allow+retry"},
		{"npm,test", "npm test -- --watch", "allow+retry"},
		{"npm,test", "npm install", "ask"},
		{"npm,test", "npm --prefix x test", "ask"},
		{"npm,test", "npm test $X", "ask"},
		{"npm,test", "npm test *", "ask"},
		{"npm,test", "npm test 2>&1 | tail -5", "allow+retry"},
		{"npm,test", "npm test > out", "ask"},
		{"npm,test", "./npm test", "ask"},
		{"npm,test", "/usr/bin/npm test", "allow+retry"},
		{"npm,test", "X=1 npm test", "ask"},
		{"npm,test", "NO_COLOR=1 npm test", "allow+retry"},
		{"npm,test", "timeout 60 npm test", "allow+retry"},
		{"npm,test", "bash -lc 'npm test'", "allow+retry"},
		{"npm,test", "sudo npm test", "ask"},
		{"npm,test", "npm test; npm() { touch x; }; npm test", "ask"},
		{"sort,-o,out", "sort -o out x", "allow+retry"},
		{"sort,-o,out", "sort -o out --compress-program=x y", "ask"},
		{"sort", "sort -o out x", "ask"},
		{"go,test", "go test -run 'A|B' ./...", "allow+retry"},
		{"go,test", "go test -exec x ./...", "ask"},
		{"git,commit", "git commit -m 'x y'", "allow+retry"},
		{"git,push", "git push origin main", "allow+retry"},
		{"git,push", "git push ext::sh", "ask"},
		{"=bash,-c,touch x", "bash -c 'touch x'", "allow+retry"},
		{"=bash,-c,touch x", "bash -c 'touch x' <<< \"$(touch y)\"", "ask"},
		{"=bash,-c,touch x", "bash -c 'touch x; touch y'", "ask"},
		{"=python3,a.py", "python3 a.py", "allow+retry"},
		{"=python3,a.py", "python3 a.py b", "ask"},
		{"python3", "echo x | python3", "ask"},
		{"rm", "rm -rf x", "ask"},
		{"=rm,-rf,x", "rm -rf x", "allow+retry"},
		{"!rm", "rm x", "forbid"},
		{"!rm", "echo rm x", "allow+retry"},
		{"!rm", "$X x", "ask"},
		{"!git,push", "git log --grep push", "allow+retry"},
		{"!git,push", "git $X", "ask"},
		{"!git,push", "git commit -m push", "ask"},
		{"!/opt/x", "/opt/x a", "forbid"},
	} {
		got := outcome(Decide(callOf(t, c.script, command.Bash), Policy{Ask: UnlessTrusted}, []Rule{ruleOf(c.rule)}, nil))
		if got != c.want {
			t.Errorf("%s on %q: %s, want %s", c.rule, c.script, got, c.want)
		}
	}
}

func TestTheStrictestRuleWins(t *testing.T) {
	rules := []Rule{ruleOf("npm,test"), {Verdict: Asked, Prefix: [][]string{{"npm"}}, Why: "npm is slow"}}
	if got := outcome(Decide(callOf(t, "npm test", command.Bash), Policy{}, rules, nil)); got != "ask" {
		t.Error(got)
	}
	rules = append(rules, ruleOf("!npm"))
	if got := outcome(Decide(callOf(t, "npm test", command.Bash), Policy{}, rules, nil)); got != "forbid" {
		t.Error(got)
	}
	if got := outcome(Decide(callOf(t, "$X test", command.Bash), Policy{Ask: Never}, rules, nil)); got != "forbid" {
		t.Errorf("a command that may be the forbidden one, where nobody may be asked: %s", got)
	}
}

func TestRulesExpire(t *testing.T) {
	r := ruleOf("npm,test")
	r.Expires = clock.Add(time.Hour)
	call := callOf(t, "npm test", command.Bash)
	if got := outcome(Decide(call, Policy{Ask: UnlessTrusted}, []Rule{r}, nil)); got != "allow+retry" {
		t.Error(got)
	}
	for _, now := range []time.Time{{}, clock.Add(time.Hour)} {
		call.Now = now
		if got := outcome(Decide(call, Policy{Ask: UnlessTrusted}, []Rule{r}, nil)); got != "ask" {
			t.Errorf("at %v: %s", now, got)
		}
	}
}

func TestExplain(t *testing.T) {
	rules, err := Load("/home/u/rules.toml", []byte(good), User)
	if err != nil {
		t.Fatal(err)
	}
	call := callOf(t, "cd x && git status && rm -rf y; git push", command.Bash)
	e := Explain(call, Policy{}, rules, nil)
	if e.Decision != "forbid" || len(e.Parts) != 4 || e.Parts[3].File != "/home/u/rules.toml" || e.Parts[3].Line != 14 || e.Parts[3].Decision != "forbid" || e.Parts[2].Decision != "ask" {
		t.Errorf("%+v", e)
	}
	if text := e.String(); !strings.Contains(text, "/home/u/rules.toml:14") || !strings.Contains(text, "git push") {
		t.Error(text)
	}
	data, err := json.Marshal(e)
	if err != nil || !strings.Contains(string(data), `"argv":["git","push"]`) || !strings.Contains(string(data), `"sandbox":"sandbox"`) {
		t.Errorf("%s %v", data, err)
	}
}
