package approvals

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// noon is when it is in these tests.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func rules(t testing.TB, text string) []approval.Rule {
	t.Helper()
	list, err := approval.Load("rules.toml", []byte(text), approval.User)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// call is a call of some commands in a container.
func call(commands ...string) Call {
	return Call{Container: "cntr_a", Workdir: "/mnt/data", Commands: commands, Now: noon}
}

func TestWhatAPolicySays(t *testing.T) {
	house := rules(t, `
[[rule]]
prefix = ["git", "push"]
decision = "ask"
[[rule]]
prefix = ["curl"]
decision = "forbid"
why = "Nothing is fetched here."
[[rule]]
prefix = ["make", "all"]
decision = "allow"
`)
	for name, c := range map[string]struct {
		policy Policy
		call   Call
		want   Verdict
		says   string
	}{
		"never runs all":                     {Policy{Ask: approval.Never}, call("rm -rf x", "anything"), Run, ""},
		"a forced removal":                   {Policy{Ask: approval.OnRequest}, call("rm -rf x"), Asks, "removes files"},
		"what is not known, in a container":  {Policy{Ask: approval.OnRequest}, call("./build.sh"), Run, ""},
		"what is not proven":                 {Policy{Ask: approval.UnlessTrusted}, call("./build.sh"), Asks, ""},
		"what only reads":                    {Policy{Ask: approval.UnlessTrusted}, call("ls -la"), Run, ""},
		"a rule that asks":                   {Policy{approval.OnRequest, house}, call("cd x && git push"), Asks, "git push"},
		"the same where nobody may be asked": {Policy{approval.Never, house}, call("git push"), Refuse, "nobody be asked"},
		"a rule that forbids":                {Policy{approval.Never, house}, call("true && curl http://a.test"), Refuse, "Nothing is fetched here."},
		"a rule that allows":                 {Policy{approval.UnlessTrusted, house}, call("make all"), Run, ""},
		"one of several asks":                {Policy{Ask: approval.OnRequest}, call("ls", "rm -rf x"), Asks, "removes files"},
		"one of several is refused":          {Policy{approval.OnRequest, house}, call("rm -rf x", "curl a"), Refuse, notRun},
		"a variable that programs heed":      {Policy{Ask: approval.UnlessTrusted}, with(call("ls"), func(c *Call) { c.Env = map[string]string{"LD_PRELOAD": "x"} }), Asks, "LD_PRELOAD"},
		"in a shell that others used":        {Policy{approval.UnlessTrusted, house}, with(call("make all"), func(c *Call) { c.Shell = true }), Asks, "functions"},
		"the same where it is not asked":     {Policy{Ask: approval.OnRequest}, with(call("ls"), func(c *Call) { c.Shell = true }), Run, ""},
		"what does not parse":                {Policy{Ask: approval.UnlessTrusted}, call("if ("), Asks, ""},
		"no text for a shell":                {Policy{Ask: approval.OnRequest}, call("a\x00b"), Refuse, "not parsed"},
		"the zero policy asks":               {Policy{}, call("rm -rf x"), Asks, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.policy.Judge(c.call)
			if r.Verdict != c.want {
				t.Fatalf("%s, want %s: %+v", r.Verdict, c.want, r)
			}
			said := slices.Clone(r.Why)
			for _, command := range r.Question.Commands {
				said = append(said, command.Reasons...)
			}
			if !strings.Contains(strings.Join(said, "\n"), c.says) {
				t.Errorf("it says %q, and nothing of %q", said, c.says)
			}
			if r.Verdict == Refuse && len(r.Why) != len(c.call.Commands) {
				t.Errorf("%d commands and %d reasons", len(c.call.Commands), len(r.Why))
			}
			if len(r.Question.Commands) != len(c.call.Commands) {
				t.Errorf("the question shows %d of %d commands", len(r.Question.Commands), len(c.call.Commands))
			}
		})
	}
}

func with(c Call, change func(*Call)) Call {
	change(&c)
	return c
}

// What is approved is bound to everything that could change what happens.
func TestTheDigestIsOfAllThatMatters(t *testing.T) {
	policy := Policy{Ask: approval.OnRequest}
	base := policy.Judge(call("rm -rf x"))
	for name, other := range map[string]Ruling{
		"the bytes":       policy.Judge(call("rm -rf  x")),
		"one more":        policy.Judge(call("rm -rf x", "true")),
		"the order":       policy.Judge(call("true", "rm -rf x")),
		"the folder":      policy.Judge(with(call("rm -rf x"), func(c *Call) { c.Dir = "sub" })),
		"a variable":      policy.Judge(with(call("rm -rf x"), func(c *Call) { c.Env = map[string]string{"A": "b"} })),
		"the input":       policy.Judge(with(call("rm -rf x"), func(c *Call) { c.Stdin = "y" })),
		"the container":   policy.Judge(with(call("rm -rf x"), func(c *Call) { c.Container = "cntr_b" })),
		"the network":     policy.Judge(with(call("rm -rf x"), func(c *Call) { c.Network = `{"type":"allowlist"}` })),
		"the policy":      Policy{Ask: approval.UnlessTrusted}.Judge(call("rm -rf x")),
		"nothing of this": policy.Judge(call("rm -rf x")),
	} {
		if same := other.Digest == base.Digest; same != (name == "nothing of this") {
			t.Errorf("%s: the digest is the same: %v", name, same)
		}
	}
	if dot := policy.Judge(with(call("rm -rf x"), func(c *Call) { c.Dir = "/mnt/data" })); dot.Digest != base.Digest {
		t.Error("the folder where it starts anyway makes another digest")
	}
}

// What was granted answers for exactly that, and for nothing that a rule forbids.
func TestAGrantIsForExactlyOneThing(t *testing.T) {
	policy := Policy{approval.OnRequest, rules(t, "[[rule]]\nprefix = [\"shred\"]\ndecision = \"forbid\"\n")}
	granted := func(c Call, digests ...string) Ruling {
		for _, d := range digests {
			c.Granted = append(c.Granted, approval.Digest(d))
		}
		return policy.Judge(c)
	}
	asked := policy.Judge(call("rm -rf x"))
	if len(asked.Parts) != 1 {
		t.Fatalf("parts %q", asked.Parts)
	}
	for name, c := range map[string]struct {
		call Call
		want Verdict
	}{
		"the same":              {call("rm -rf x"), Run},
		"beside what is free":   {call("ls", "rm -rf x"), Run},
		"beside what asks":      {call("rm -rf y", "rm -rf x"), Asks},
		"another":               {call("rm -rf x/"), Asks},
		"in another container":  {with(call("rm -rf x"), func(c *Call) { c.Container = "cntr_b" }), Asks},
		"in a shell":            {with(call("rm -rf x"), func(c *Call) { c.Shell = true }), Asks},
		"with another variable": {with(call("rm -rf x"), func(c *Call) { c.Env = map[string]string{"PATH": "."} }), Asks},
	} {
		if r := granted(c.call, asked.Parts...); r.Verdict != c.want {
			t.Errorf("%s: %s, want %s", name, r.Verdict, c.want)
		}
	}
	forbidden := Policy{Ask: approval.OnRequest}.Judge(call("shred -u x"))
	if r := granted(call("shred -u x"), append(slices.Clone(forbidden.Parts), asked.Parts...)...); r.Verdict != Refuse {
		t.Errorf("a grant outweighs a rule that forbids: %s", r.Verdict)
	}
}
