package scripted

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// turns are outputs of the past: one string a turn, whose calls are parted by "|".
func ask(t *testing.T, script, user string, turns ...string) providertest.Answer {
	t.Helper()
	p := New(Options{Scripts: fstest.MapFS{"s.json": {Data: []byte(script)}}})
	r := llm.Request{Model: "s", Items: []openai.Item{openai.UserText(user)}, Tools: []openai.Tool{providertest.Shell}, Shell: "shell"}
	for n, outputs := range turns {
		var answers []openai.Item
		for k, output := range strings.Split(outputs, "|") {
			id := string(rune('a'+n)) + string(rune('a'+k))
			r.Items = append(r.Items, openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, CallID: id, Name: "shell", Arguments: "{}"}))
			answers = append(answers, openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, CallID: id, Output: openai.OutputText(output)}))
		}
		r.Items = append(r.Items, answers...)
	}
	return providertest.Collect(t, t.Context(), p, r)
}

const rules = `{"rules": [
	{"when": {"user": "^deploy (?P<what>.+)$"}, "reasoning": "Hm.", "text": "I deploy {{what}}.", "calls": [{"commands": ["./deploy {{ what }} {{1}} {{none}}"]}, {"commands": ["date"]}]},
	{"when": {"user": "deploy", "turn": 2, "failed": true}, "calls": [{"commands": ["./undo"]}]},
	{"when": {"output": "version (\\d+)"}, "text": "It is {{1}} now."},
	{"when": {"turn": 3}, "text": "third"},
	{"when": {"failed": false, "user": "quiet"}, "text": "well"},
	{"when": {"user": "arguments (.*)"}, "calls": [{"name": "f", "arguments": {"a": "{{1}}"}}]},
	{"text": "what?"}]}`

func TestRules(t *testing.T) {
	bad, good := `{"stdout":"x\n","stderr":"","exit_code":1}`, `{"stdout":"x\n","stderr":"version 7","exit_code":0}`
	for _, tt := range []struct {
		name, user string
		turns      []string
		text, call string // of the first call
	}{
		{"by the user's text", "deploy web", nil, "I deploy web.", `{"commands":["./deploy 'web' 'web' {{none}}"]}`},
		{"quoted for the shell", "deploy $(rm -rf /)'`x`", nil, "I deploy $(rm -rf /)'`x`.", `{"commands":["./deploy '$(rm -rf /)'\\''` + "`x`" + `' '$(rm -rf /)'\\''` + "`x`" + `' {{none}}"]}`},
		{"by failure and turn", "deploy web", []string{good + "|" + bad}, "", `{"commands":["./undo"]}`},
		{"by output", "deploy web", []string{good}, "It is 7 now.", ""},
		{"by the turn", "deploy web", []string{bad, "nothing"}, "third", ""},
		{"by the last output alone", "deploy web", []string{good, "nothing"}, "third", ""},
		{"by success", "be quiet", []string{"all is well"}, "well", ""},
		{"success is none before a call", "be quiet", nil, "what?", ""},
		{"escaped for JSON", `arguments "x\y"`, nil, "", `{"a":"\"x\\y\""}`},
		{"a user's rule waits for the user", "arguments x", []string{"nothing"}, "what?", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, rules, tt.user, tt.turns...)
			if a.Err != nil || a.Text() != tt.text {
				t.Errorf("text %q, %v; want %q", a.Text(), a.Err, tt.text)
			}
			call := ""
			if c := a.Calls(); len(c) > 0 {
				call = strings.ReplaceAll(c[0].Arguments, `": "`, `":"`)
			}
			if call != tt.call {
				t.Errorf("call %s, want %s", call, tt.call)
			}
		})
	}
}

func TestNoRuleFits(t *testing.T) {
	a := ask(t, `{"rules":[{"when":{"user":"^a$"},"text":"b"}]}`, "c")
	if a.Text() != label+"no rule fits what came last: c" {
		t.Errorf("%q, %v", a.Text(), a.Err)
	}
}

func TestRulesThatCannotBeFollowed(t *testing.T) {
	for script, want := range map[string]string{
		`{"rules":[{"when":{"user":"("},"text":"a"}]}`:                                     "rule 1: when.user: error parsing regexp",
		`{"rules":[{"text":"a"},{"when":{"output":"["},"text":"a"}]}`:                      "rule 2: when.output",
		`{"rules":[{"calls":[{"commands":["ls"]}]}]}`:                                      "it would never end",
		`{"rules":[{"when":{"turn":-1},"text":"a"}]}`:                                      "counts from 1",
		`{"rules":[{"text":"a"}],"turns":[{"text":"b"}]}`:                                  "not both",
		`{"rules":[{"when":{"user":"x"},"calls":[{}]}]}`:                                   "commands or arguments",
		`{"rules":[{"when":{"usr":"x"},"text":"a"}]}`:                                      "not of a known form",
		`{"rules":[{"when":{"user":"x"},"text":"a","calls":[{"commands":"not a list"}]}]}`: "not of a known form",
	} {
		a := ask(t, script, "x")
		if a.Err == nil || !strings.Contains(a.Err.Error(), want) {
			t.Errorf("%s: %v, want %q", script, a.Err, want)
		}
	}
}

// The built-in example, and what is listed.
func TestBuiltInRules(t *testing.T) {
	p := New(Options{Scripts: fstest.MapFS{"mine.json": {Data: []byte(`{}`)}, "notes.txt": {}}})
	r := llm.Request{Model: "rules", Items: []openai.Item{openai.UserText("look at a b")}, Tools: []openai.Tool{providertest.Shell}, Shell: "shell"}
	a := providertest.Collect(t, t.Context(), p, r)
	if len(a.Calls()) != 1 || a.Calls()[0].Arguments != `{"commands":["ls -d -- 'a b'"]}` {
		t.Fatalf("%+v, %v", a.Calls(), a.Err)
	}
	r.Items = append(append(r.Items, a.Items...), openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput,
		CallID: a.Calls()[0].CallID, Output: openai.OutputText(`{"stdout":"a b\n","stderr":"","exit_code":0}`)}))
	if b := providertest.Collect(t, t.Context(), p, r); b.Text() != "scripted model: there is a b." {
		t.Errorf("%q, %v", b.Text(), b.Err)
	}
	models, err := p.Models(t.Context())
	if err != nil || len(models) != 2 || models[0].ID != Name || models[1].ID != "mine" {
		t.Errorf("%+v, %v", models, err)
	}
	if err := p.Check(llm.Request{Model: "absent"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
}
