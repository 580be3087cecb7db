package approval

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

// outcome names a decision in a word.
func outcome(d Decision) string {
	switch d := d.(type) {
	case Allow:
		word := "allow"
		if d.Bypass {
			word += "+bypass"
		}
		if d.Retry {
			word += "+retry"
		}
		return word
	case Question:
		if d.Outside {
			return "ask+outside"
		}
		return "ask"
	}
	return "forbid"
}

// TestDecisionTable holds every cell of policy × command × confinement, as docs/decisions/0017 has it.
func TestDecisionTable(t *testing.T) {
	rules := []Rule{ruleOf("npm,test"), ruleOf("!git,push"), {Verdict: Asked, Prefix: [][]string{{"make"}, {"deploy"}}}}
	commands := []struct {
		name, script string
		escalate     bool
	}{{"safe", "git status", false}, {"unknown", "go build ./...", false}, {"removal", "rm -rf x", false},
		{"allow", "npm test", false}, {"ask", "make deploy", false}, {"forbid", "git push", false}, {"may be forbidden", "git $X", false},
		{"escalate", "go build ./...", true}, {"escalate allow", "npm test", true}, {"escalate ask", "make deploy", true}, {"escalate forbid", "git push", true}}
	short := map[string]string{"allow": "run", "allow+retry": "run+", "allow+bypass": "run", "ask": "ask", "ask+outside": "out", "forbid": "no"}
	//                          safe unknown removal allow ask forbid maybe | escalation: unknown allow ask forbid
	want := map[string]string{
		"never sandbox":       "run  run  run run  no  no no  no  no  no  no",
		"on-request sandbox":  "run  run  ask run  ask no ask out out out no",
		"on-failure sandbox":  "run+ run+ ask run+ ask no ask out out out no",
		"untrusted sandbox":   "run+ ask  ask run+ ask no ask out out out no",
		"never external":      "run  run  run run  no  no no  no  no  no  no",
		"on-request external": "run  run  ask run  ask no ask run run ask no",
		"on-failure external": "run  run  ask run  ask no ask run run ask no",
		"untrusted external":  "run  ask  ask run  ask no ask ask run ask no",
		"never none":          "run  run  run run  no  no no  no  no  no  no",
		"on-request none":     "run  run  run run  run no no  run run run no",
		"on-failure none":     "run  run  run run  ask no ask run run ask no",
		"untrusted none":      "run  ask  ask run  ask no ask ask run ask no",
	}
	cells := 0
	for _, ask := range []Ask{Never, OnRequest, OnFailure, UnlessTrusted} {
		for _, around := range []Confinement{Confined, External, Unconfined} {
			row := ask.String() + " " + around.String()
			cell := strings.Fields(want[row])
			for n, c := range commands {
				cells++
				call := callOf(t, c.script, command.Bash)
				call.Escalate, call.Confinement = c.escalate, around
				d := Decide(call, Policy{Ask: ask}, rules, nil)
				if got := short[outcome(d)]; got != cell[n] {
					t.Errorf("%s, %s: %s, want %s", row, c.name, got, cell[n])
				}
				if a, ok := d.(Allow); ok && a.Bypass != (around != Confined) {
					t.Errorf("%s, %s: bypass %v", row, c.name, a.Bypass)
				}
				// The explanation says the same, and of no part more than of the whole.
				e := Explain(call, Policy{Ask: ask}, rules, nil)
				if (e.Decision == "ask") != (cell[n] == "ask" || cell[n] == "out") || (e.Decision == "forbid") != (cell[n] == "no") {
					t.Errorf("%s, %s: explained as %s", row, c.name, e.Decision)
				}
				if e.Decision == "allow" && slices.ContainsFunc(e.Parts, func(p ExplainedPart) bool { return p.Decision != "allow" }) {
					t.Errorf("%s, %s: allowed, and a part is not: %+v", row, c.name, e.Parts)
				}
			}
		}
	}
	if cells != 4*3*11 {
		t.Errorf("%d cells", cells)
	}
}

// TestWhoIsOfferedTheRetry holds the last column: what follows when our sandbox denied a command something.
func TestWhoIsOfferedTheRetry(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		around Confinement
		want   bool
	}{
		{Policy{Ask: Never}, Confined, false}, {Policy{Ask: OnRequest}, Confined, false}, {Policy{Ask: OnFailure}, Confined, true}, {Policy{Ask: UnlessTrusted}, Confined, true},
		{Policy{Ask: OnFailure}, External, false}, {Policy{Ask: UnlessTrusted}, Unconfined, false},
		{Policy{Ask: OnFailure, Locked: true}, Confined, false}, {Policy{Ask: OnFailure, Granular: &Granular{}}, Confined, false},
		{Policy{Ask: OnFailure, Granular: &Granular{Escalation: true}}, Confined, true},
	} {
		if got := Retries(Call{Confinement: c.around}, c.policy); got != c.want {
			t.Errorf("%+v in %v: %v", c.policy, c.around, got)
		}
	}
}

func TestGranularAndLocked(t *testing.T) {
	for _, c := range []struct {
		policy   Policy
		script   string
		escalate bool
		want     string
	}{
		{Policy{Granular: &Granular{}}, "rm -rf x", false, "forbid"},
		{Policy{Granular: &Granular{Removal: true}}, "rm -rf x", false, "ask"},
		{Policy{Granular: &Granular{Removal: true}}, "ls", true, "forbid"},
		{Policy{Granular: &Granular{Escalation: true}}, "ls", true, "ask+outside"},
		{Policy{Ask: UnlessTrusted, Granular: &Granular{Escalation: true}}, "go vet", false, "forbid"},
		{Policy{Ask: UnlessTrusted, Granular: &Granular{Untrusted: true}}, "go vet", false, "ask"},
		{Policy{Ask: UnlessTrusted, Granular: &Granular{Untrusted: true}}, "ls", false, "allow"},
		{Policy{Locked: true}, "ls", true, "forbid"},
		{Policy{Locked: true, Ask: OnFailure}, "ls", false, "allow"},
		{Policy{}, "ls", false, "allow"},
	} {
		call := callOf(t, c.script, command.Bash)
		call.Escalate = c.escalate
		if got := outcome(Decide(call, c.policy, nil, nil)); got != c.want {
			t.Errorf("%q under %+v: %s, want %s", c.script, c.policy, got, c.want)
		}
	}
}

func TestFoldersAndTheNullDeviceAskNothing(t *testing.T) {
	for script, want := range map[string]string{
		"cd sub && ls > /dev/null 2>&1": "allow+retry", "cd ./a/b; cd ./c; ls": "allow+retry", "cd a; cd ..": "ask", "cd /work/project/x && ls": "allow+retry", "ls 2>/dev/null >&2": "allow+retry",
		"cd .. && ls": "ask", "cd /etc": "ask", "cd ~": "ask", "cd": "ask", "cd -": "ask", "cd \"$X\"": "ask", "cd sub/../..": "ask", "(cd sub); cd ../..": "ask", "cd a; cd ../..": "ask",
		"cd /work/project-2": "ask", "pushd sub": "ask", "ls > out": "ask",
	} {
		if got := outcome(Decide(callOf(t, script, command.Bash), Policy{Ask: UnlessTrusted}, nil, nil)); got != want {
			t.Errorf("%q: %s, want %s", script, got, want)
		}
	}
	call := callOf(t, "cd ../lib && ls", command.Bash)
	call.Workspace = []string{"/work/project", "/work/lib"}
	if got := outcome(Decide(call, Policy{Ask: UnlessTrusted}, nil, nil)); got != "allow+retry" {
		t.Errorf("a second workspace folder: %s", got)
	}
}

func TestDigestCoversEveryField(t *testing.T) {
	base := callOf(t, "go vet", command.Bash)
	base.Env = []Variable{{Name: "A", Value: "b"}}
	base.Profile, base.Permissions = "p", "net"
	policy := Policy{Ask: OnRequest}
	changes := map[string]func(*Call, *Policy){
		"bytes":       func(c *Call, _ *Policy) { c.Script = callOf(t, "go vet ", command.Bash).Script },
		"dialect":     func(c *Call, _ *Policy) { c.Script = callOf(t, "go vet", command.POSIX).Script },
		"no script":   func(c *Call, _ *Policy) { c.Script = nil },
		"argv":        func(c *Call, _ *Policy) { c.Argv = append(slices.Clone(c.Argv), "") },
		"argv split":  func(c *Call, _ *Policy) { c.Argv = []string{"/bin/bash", "-cgo", " vet"} },
		"cwd":         func(c *Call, _ *Policy) { c.Cwd += "/x" },
		"env value":   func(c *Call, _ *Policy) { c.Env = []Variable{{Name: "A", Value: "c"}} },
		"env name":    func(c *Call, _ *Policy) { c.Env = []Variable{{Name: "Ab", Value: ""}} },
		"env unset":   func(c *Call, _ *Policy) { c.Env = []Variable{{Name: "A", Value: "b", Unset: true}} },
		"env more":    func(c *Call, _ *Policy) { c.Env = append(slices.Clone(c.Env), Variable{Name: "B"}) },
		"env none":    func(c *Call, _ *Policy) { c.Env = nil },
		"tty":         func(c *Call, _ *Policy) { c.TTY = true },
		"profile":     func(c *Call, _ *Policy) { c.Profile = "q" },
		"confinement": func(c *Call, _ *Policy) { c.Confinement = External },
		"escalate":    func(c *Call, _ *Policy) { c.Escalate = true },
		"permissions": func(c *Call, _ *Policy) { c.Permissions = "net2" },
		"policy":      func(_ *Call, p *Policy) { p.Ask = OnFailure },
		"locked":      func(_ *Call, p *Policy) { p.Locked = true },
		"granular":    func(_ *Call, p *Policy) { p.Granular = &Granular{} },
		"granular 2":  func(_ *Call, p *Policy) { p.Granular = &Granular{Rules: true} },
	}
	seen := map[Digest]string{DigestOf(base, policy): "nothing"}
	for name, change := range changes {
		c, p := base, policy
		change(&c, &p)
		d := DigestOf(c, p)
		if other, ok := seen[d]; ok {
			t.Errorf("changing %s gives the digest of changing %s", name, other)
		}
		seen[d] = name
	}
	// What is only shown, or only a clock, is no part of what was approved.
	same := base
	same.Justification, same.Prefix, same.Now = "x", []string{"y"}, clock.Add(time.Hour)
	if DigestOf(same, policy) != DigestOf(base, policy) {
		t.Error("the digest changes with words that change nothing")
	}
	// A field that this test does not know must be thought of here and in DigestOf.
	if n := reflect.TypeFor[Call]().NumField(); n != 13 {
		t.Errorf("Call has %d fields; is the new one in the digest?", n)
	}
	if n := reflect.TypeFor[Policy]().NumField(); n != 3 {
		t.Errorf("Policy has %d fields; is the new one in the digest?", n)
	}
}

func TestGrants(t *testing.T) {
	call := callOf(t, "go vet", command.Bash)
	policy := Policy{Ask: UnlessTrusted}
	decide := func(c Call, g Grants) string { return outcome(Decide(c, policy, nil, g)) }
	grant := Grant{ID: "g1", Scope: Session, Digest: DigestOf(call, policy), Issued: clock, Expires: clock.Add(time.Hour)}
	held := Grants(nil).With(grant)
	if got := decide(call, held); got != "allow+retry" {
		t.Errorf("granted: %s", got)
	}
	for name, c := range map[string]func() (Call, Grants){
		"another folder": func() (Call, Grants) { c := call; c.Cwd = "/work/other"; return c, held },
		"more bytes":     func() (Call, Grants) { return callOf(t, "go vet; true", command.Bash), held },
		"later":          func() (Call, Grants) { c := call; c.Now = clock.Add(time.Hour); return c, held },
		"no clock":       func() (Call, Grants) { c := call; c.Now = time.Time{}; return c, held },
		"revoked":        func() (Call, Grants) { return call, held.End("g1", clock) },
		"endless":        func() (Call, Grants) { g := grant; g.Expires = time.Time{}; return call, Grants{g} },
		"for outside":    func() (Call, Grants) { g := grant; g.Outside = true; return call, Grants{g} },
	} {
		c, g := c()
		if got := decide(c, g); got != "ask" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if held[0].Ended != (time.Time{}) {
		t.Error("ending a grant changed the set it was in")
	}
	outside := call
	outside.Escalate = true
	g := Grants{{ID: "g2", Scope: Once, Digest: DigestOf(outside, policy), Outside: true, Expires: clock.Add(time.Hour)}}
	d := Decide(outside, policy, nil, g)
	if a, ok := d.(Allow); !ok || !a.Bypass || a.Grant != "g2" {
		t.Errorf("approved escalation: %+v", d)
	}
	if got := outcome(Decide(outside, Policy{Ask: UnlessTrusted, Locked: true}, nil, g)); got != "forbid" {
		t.Errorf("locked: %s", got)
	}
	if got := outcome(Decide(call, policy, []Rule{ruleOf("!go")}, held)); got != "forbid" {
		t.Errorf("a grant beats a rule that forbids: %s", got)
	}
	always := Grants{{ID: "g3", Scope: Always, Rules: []Rule{{Verdict: Allowed, Prefix: [][]string{{"go"}, {"vet"}}}}, Expires: clock.Add(time.Hour)}}
	if got := decide(callOf(t, "cd x && go vet ./...", command.Bash), always); got != "allow+retry" {
		t.Errorf("always: %s", got)
	}
	if got := decide(callOf(t, "go vet -vettool=./x", command.Bash), always); got != "ask" {
		t.Errorf("always with an option that runs a program: %s", got)
	}
	wide := Grants{{ID: "g4", Scope: Always, Rules: []Rule{{Verdict: Allowed, Prefix: [][]string{{"bash"}}}}, Expires: clock.Add(time.Hour)}}
	if got := decide(callOf(t, "bash -c 'touch x'", command.Bash), wide); got != "ask" {
		t.Errorf("a saved rule for a shell: %s", got)
	}
}

func TestAlwaysShowsOneExactRuleForEachPart(t *testing.T) {
	for _, c := range []struct {
		script string
		prefix []string
		want   string
	}{
		{"go vet ./... && npm test", nil, `[allow exactly "go" "vet" "./..." allow exactly "npm" "test"]`},
		{"cd x && go vet | head -5", nil, `[allow exactly "go" "vet"]`},
		{"timeout 9 go vet", nil, `[allow exactly "go" "vet"]`},
		{"go vet; go vet", nil, `[allow exactly "go" "vet"]`},
		{"rm -rf x", []string{"rm"}, `[allow exactly "rm" "-rf" "x"]`},
		{"python3 a.py", []string{"python3"}, `[allow exactly "python3" "a.py"]`},
		{"go vet ./...", []string{"go", "vet"}, `[allow "go" "vet" …]`},
		{"go vet ./...", []string{"go"}, `[allow exactly "go" "vet" "./..."]`},
		{"go vet -vettool=x", []string{"go", "vet"}, `[allow exactly "go" "vet" "-vettool=x"]`},
		{"sudo ls", nil, `[allow exactly "sudo" "ls"]`},
		{"go vet $X", nil, `[]`},
		{"go vet > out", nil, `[]`},
		{"A=1 go vet", nil, `[]`},
		{"curl x | sh", nil, `[]`},
		{"go vet; eval \"$X\"", nil, `[]`},
	} {
		call := callOf(t, c.script, command.Bash)
		call.Prefix = c.prefix
		q, ok := Decide(call, Policy{Ask: UnlessTrusted}, nil, nil).(Question)
		if got := fmt.Sprint(q.Proposed); !ok || got != c.want {
			t.Errorf("%q proposes %s, want %s", c.script, got, c.want)
		}
		if slices.Contains(q.Scopes, Always) != (c.want != "[]") {
			t.Errorf("%q offers %v", c.script, q.Scopes)
		}
		if len(q.Proposed) > 0 {
			g := Grants{{Scope: Always, Rules: q.Proposed, Expires: clock.Add(time.Hour)}}
			if got := outcome(Decide(call, Policy{Ask: UnlessTrusted}, nil, g)); got != "allow+retry" {
				t.Errorf("%q still gives %s after always", c.script, got)
			}
		}
	}
}

func TestTheEnvironmentCanSpoilAProof(t *testing.T) {
	call := callOf(t, "ls", command.Bash)
	call.Env = []Variable{{Name: "LD_PRELOAD", Value: "./x.so"}}
	if got := outcome(Decide(call, Policy{Ask: UnlessTrusted}, []Rule{ruleOf("ls")}, nil)); got != "ask" {
		t.Errorf("poisoned: %s", got)
	}
	call.Env = []Variable{{Name: "LC_ALL", Value: "C"}}
	if got := outcome(Decide(call, Policy{Ask: UnlessTrusted}, nil, nil)); got != "allow+retry" {
		t.Errorf("harmless: %s", got)
	}
}

func TestParseAsk(t *testing.T) {
	for _, name := range []string{"never", "on-request", "on-failure", "untrusted"} {
		if a, err := ParseAsk(name); err != nil || a.String() != name {
			t.Errorf("%s: %v %v", name, a, err)
		}
	}
	if a, err := ParseAsk("unless-trusted"); a != UnlessTrusted || err != nil {
		t.Error(a, err)
	}
	if _, err := ParseAsk("always"); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
}
