package terminal

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestArgumentsInEverySpelling(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"command":["ls","-la"]}`, "argv ls|-la"}, {`{"cmd":["ls"]}`, "argv ls"}, {`{"command":"ls -la"}`, "script ls -la"}, {`{"cmd":"ls"}`, "script ls"},
		{`{"cmd":""}`, "script "}, {`{"cmd":"ls","command":"ls"}`, "script ls"},
		{`{"cmd":"ls","command":"rm"}`, "wrong"}, {`{}`, "wrong"}, {`{"cmd":null}`, "wrong"}, {`{"command":[]}`, "wrong"}, {`{"command":[""]}`, "wrong"}, {`{"command":[1]}`, "wrong"},
		{`{"command":{"a":1}}`, "wrong"}, {`{"command":7}`, "wrong"},
	} {
		a, err := readArguments(c.text, execArguments)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		argv, script, freeform, err := a.command()
		got := "argv " + strings.Join(argv, "|")
		if freeform {
			got = "script " + script
		}
		if err != nil {
			got = "wrong"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{`{"session_id":1234}`, "1234"}, {`{"session_id":"1234"}`, "1234"}, {`{"process_id":"web"}`, "web"}, {`{"process_id":7}`, "7"}, {`{"session_id":7,"process_id":"7"}`, "7"}, {`{}`, ""},
		{`{"session_id":7,"process_id":"8"}`, "wrong"}, {`{"session_id":true}`, "wrong"}, {`{"process_id":""}`, "wrong"}, {`{"process_id":"a\nb"}`, "wrong"}, {`{"session_id":[1]}`, "wrong"},
	} {
		a, err := readArguments(c.text, execArguments)
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.named()
		if err != nil {
			got = "wrong"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{{`{"chars":"x"}`, "x"}, {`{"input":"x\n"}`, "x\n"}, {`{"chars":"a","input":"a"}`, "a"}, {`{}`, ""}, {`{"chars":"a","input":"b"}`, "wrong"}} {
		a, err := readArguments(c.text, stdinArguments)
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.typed()
		if err != nil {
			got = "wrong"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}

// TestNumbersAreClampedOrRefused is case 10 of the black-box list, for every number.
func TestNumbersAreClampedOrRefused(t *testing.T) {
	for _, c := range []struct {
		number string
		want   time.Duration
		told   bool
		wrong  bool
	}{
		{"500", 500 * time.Millisecond, false, false}, {"null", time.Second, false, false}, {"1", MinYield, true, false}, {"0", MinYield, true, false},
		{"1e3", time.Second, false, false}, {"10.0", MinYield, true, false}, {"99999999999999999999", MaxYield, true, false}, {"1e400", MaxYield, true, false},
		{"-5", 0, false, true}, {"1.5", 0, false, true}, {`"500"`, 0, false, true}, {"true", 0, false, true}, {"[1]", 0, false, true},
	} {
		d, note, err := bounded("yield_time_ms", json.RawMessage(c.number), time.Second, MinYield, MaxYield)
		if (err != nil) != c.wrong || !c.wrong && d != c.want || (note != "") != c.told {
			t.Errorf("%s: %v, %q, %v", c.number, d, note, err)
		}
	}
	for number, want := range map[string]int{"0": 0, "1": 1, "123456789012": 1<<31 - 1, "null": DefaultMaxTokens} {
		a := toolArguments{MaxTokens: json.RawMessage(number)}
		if n, err := a.tokens(); n != want || err != nil {
			t.Errorf("%s tokens: %d, %v", number, n, err)
		}
	}
}

func TestWhatToWaitFor(t *testing.T) {
	for text, want := range map[string]string{
		`"exit"`: "exit", `{"exit":true}`: "exit", `{"pattern":"^ready$"}`: "^ready$", `{"port":5173}`: "5173", `{"quiet":200,"ceiling_ms":1000}`: "200ms 1s", `null`: "nothing",
		`{}`: "wrong", `{"port":0}`: "wrong", `{"port":70000}`: "wrong", `{"pattern":"("}`: "wrong", `{"until":1}`: "wrong", `{"quiet":-1}`: "wrong", `7`: "wrong", `"quiet"`: "wrong",
	} {
		a := toolArguments{WaitFor: json.RawMessage(text)}
		u, ceiling, err := a.waitFor()
		got := "nothing"
		switch {
		case err != nil:
			got = "wrong"
		case u.Exit:
			got = "exit"
		case u.Pattern != nil:
			got = u.Pattern.String()
		case u.Port != 0:
			got = "5173"
		case u.Quiet != 0:
			got = u.Quiet.String() + " " + ceiling.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestNoArgumentWeakensTheSandbox is S40: every field that could be thought to, and any that is not known, is refused
// by name, on every tool.
func TestNoArgumentWeakensTheSandbox(t *testing.T) {
	fields := []string{"dangerouslyDisableSandbox", "sandbox", "sandbox_policy", "approval_policy", "network", "network_access", "writable_roots", "escalated", "with_escalated_permissions",
		"additional_permissions", "env", "environment", "bypass_sandbox", "run_as", "user", "mode", "trust", "yolo", "Command", "COMMAND"}
	for _, allowed := range [][]string{oneShotArguments, execArguments, stdinArguments} {
		for _, field := range fields {
			text := `{"command":"ls","session_id":1,"` + field + `":true}`
			if slices.Equal(allowed, stdinArguments) {
				text = `{"session_id":1,"` + field + `":true}`
			}
			if _, err := readArguments(text, allowed); err == nil || !strings.Contains(err.Error(), "unknown field") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	for _, value := range []string{`"none"`, `"with_additional_permissions"`, `"danger-full-access"`, `""x`, `7`} {
		a, err := readArguments(`{"cmd":"ls","sandbox_permissions":`+value+`}`, execArguments)
		if err == nil {
			_, err = a.permissions()
		}
		if err == nil {
			t.Errorf("sandbox_permissions %s is taken", value)
		}
	}
	for _, text := range []string{`[]`, `null`, `"ls"`, `{"command":"ls"} {"command":"rm"}`, `{"command":"ls"`, ``} {
		if _, err := readArguments(text, oneShotArguments); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestSchemasSayWhatIsRead(t *testing.T) {
	tools := map[string][]string{ToolShell: oneShotArguments, ToolContainer: oneShotArguments, ToolShellCommand: oneShotArguments, ToolExecCommand: execArguments, ToolWriteStdin: stdinArguments}
	seen := 0
	for _, s := range Specs(true) {
		seen++
		var schema struct {
			Type       string                     `json:"type"`
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
			More       *bool                      `json:"additionalProperties"`
		}
		if err := json.Unmarshal(s.Parameters, &schema); err != nil {
			t.Fatal(err)
		}
		if schema.Type != "object" || schema.More == nil || *schema.More || len(schema.Required) != 1 || s.Strict {
			t.Errorf("%s: %s", s.Name, s.Parameters)
		}
		for name := range schema.Properties {
			if !slices.Contains(tools[s.Name], name) {
				t.Errorf("%s advertises %s and does not read it", s.Name, name)
			}
		}
	}
	if seen != len(NewRegistry().Names()) || len(Specs(false)) != 2 {
		t.Errorf("%d tools have a schema", seen)
	}
}
