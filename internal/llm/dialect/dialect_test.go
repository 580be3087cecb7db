package dialect

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// refused says whether an error is a 400 that names a field.
func refused(t *testing.T, err error, param string) {
	t.Helper()
	e, ok := fault.As(err)
	if !ok || e.Kind != fault.Invalid || e.Param != param {
		t.Errorf("err = %v, want a refusal of %s", err, param)
	}
}

func TestReadChoice(t *testing.T) {
	tools := []openai.Tool{{Type: "function", Name: "a"}, {Type: "function", Name: "b"}}
	for _, tt := range []struct {
		choice     string
		tools      []openai.Tool
		mode, name string
		left       int
	}{
		{``, tools, "", "", 2},
		{`null`, tools, "", "", 2},
		{`"auto"`, tools, "auto", "", 2},
		{`"none"`, tools, "none", "", 2},
		{`"required"`, tools, "required", "", 2},
		{`"auto"`, nil, "", "", 0},
		{`{"type":"function","name":"b"}`, tools, "function", "b", 2},
		{`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"b"}]}`, tools, "required", "", 1},
	} {
		c, err := ReadChoice(llm.Request{Tools: tt.tools, ToolChoice: json.RawMessage(tt.choice)}, "p")
		if err != nil || c.Mode != tt.mode || c.Name != tt.name || len(c.Tools) != tt.left {
			t.Errorf("%s: %+v, %v", tt.choice, c, err)
		}
	}
	for _, bad := range []string{`"any"`, `7`, `"`, `{"type":"function","name":"c"}`, `{"type":"mcp"}`,
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"c"}]}`, `{"type":"allowed_tools","mode":"x","tools":[]}`} {
		_, err := ReadChoice(llm.Request{Tools: tools, ToolChoice: json.RawMessage(bad)}, "p")
		refused(t, err, "tool_choice")
	}
	_, err := ReadChoice(llm.Request{ToolChoice: json.RawMessage(`"required"`)}, "p")
	refused(t, err, "tool_choice")
	for _, bad := range [][]openai.Tool{{{Type: "function"}}, {tools[0], tools[1], tools[0]}} {
		_, err := ReadChoice(llm.Request{Tools: bad}, "p")
		refused(t, err, "tools")
	}
	if len(tools) != 2 || tools[0].Name != "a" {
		t.Errorf("the request's own list was changed: %v", tools)
	}
}

func item(t *testing.T, raw string) openai.Item {
	t.Helper()
	var i openai.Item
	if err := json.Unmarshal([]byte(raw), &i); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestPair(t *testing.T) {
	call, out := `{"type":"function_call","call_id":"1","name":"f"}`, `{"type":"function_call_output","call_id":"1","output":"x"}`
	outputs, err := Pair([]openai.Item{item(t, out), item(t, call)}) // an answer may stand anywhere
	if err != nil || outputs["1"].At != "input[0]" {
		t.Errorf("%+v, %v", outputs, err)
	}
	for param, items := range map[string][]openai.Item{
		"input[1].call_id": {item(t, call), item(t, call)},
		"input[2].call_id": {item(t, call), item(t, out), item(t, out)},
		"input[0].call_id": {item(t, out)},
	} {
		_, err := Pair(items)
		refused(t, err, param)
	}
}

func TestReadCall(t *testing.T) {
	for arguments, want := range map[string][2]string{
		``:                        {"{}", ""},
		`  `:                      {"{}", ""},
		` {"a":1} `:               {`{"a":1}`, ""},
		`{"a":`:                   {"{}", `{"a":`},
		`[1]`:                     {"{}", `[1]`},
		strings.Repeat("ü", 2000): {"{}", strings.Repeat("ü", 1000) + "… (4000 bytes in all)"},
	} {
		raw, _ := openai.Marshal(openai.FunctionCall{Type: openai.TypeFunctionCall, CallID: "1", Name: "f", Arguments: arguments})
		c, err := ReadCall(item(t, string(raw)), "input[0]")
		if err != nil || string(c.Input) != want[0] || c.Wrong != want[1] {
			t.Errorf("%.20q: %s, %.40q, %v", arguments, c.Input, c.Wrong, err)
		}
	}
	_, err := ReadCall(item(t, `{"type":"function_call","call_id":"1"}`), "input[3]")
	refused(t, err, "input[3]")
}

func TestImagesAndFiles(t *testing.T) {
	if i, err := (Part{ImageURL: "data:image/JPG;base64,QQ=="}).Image("at", "p"); err != nil || i.Media != "image/jpeg" || i.Data != "QQ==" {
		t.Errorf("%+v, %v", i, err)
	}
	if i, err := (Part{ImageURL: "https://h/x.png"}).Image("at", "p"); err != nil || i.URL != "https://h/x.png" {
		t.Errorf("%+v, %v", i, err)
	}
	for _, url := range []string{"", "file:///etc/passwd", "data:image/png,x", "data:image/tiff;base64,QQ==", "data:text/html;base64,QQ=="} {
		if _, err := (Part{ImageURL: url}).Image("at", "p"); err == nil {
			t.Errorf("%q is taken for an image", url)
		}
	}
	for _, tt := range []struct {
		part Part
		want File
	}{
		{Part{FileURL: "https://h/a.pdf"}, File{URL: "https://h/a.pdf"}},
		{Part{FileData: "data:application/pdf;base64,QQ==", Filename: "a"}, File{Name: "a", PDF: "QQ=="}},
		{Part{FileData: "JVBERi0xLjQ="}, File{PDF: "JVBERi0xLjQ="}},
		{Part{FileData: "QQ==", Filename: "a.PDF"}, File{Name: "a.PDF", PDF: "QQ=="}},
		{Part{FileData: "data:text/plain;base64,aGk="}, File{Text: "hi"}},
	} {
		if got, err := tt.part.File("at", "p"); err != nil || got != tt.want {
			t.Errorf("%+v: %+v, %v", tt.part, got, err)
		}
	}
	for _, p := range []Part{{}, {FileData: "data:text/plain,x"}, {FileData: "/////w=="}, {FileData: "!"}, {FileData: "ICA="}} {
		if _, err := p.File("at", "p"); err == nil {
			t.Errorf("%+v is taken for a file", p)
		}
	}
}

func TestNames(t *testing.T) {
	portable := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	n := &Names{Max: 64}
	seen := map[string]string{}
	for _, s := range []string{"", "a", "a.b", "a_b", "a-b", "a/b", "ü", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 66)} {
		got := n.Sent(s)
		if !portable.MatchString(got) || seen[got] != "" || n.Portable(got) != got || n.Original(got) != s {
			t.Errorf("%q becomes %q, as %q does, and comes back as %q", s, got, seen[got], n.Original(got))
		}
		seen[got] = s + "."
	}
	if n.Original("never sent") != "never sent" {
		t.Error("an unknown name was changed")
	}
}

// A name that must begin with a letter does, and is still its own.
func TestNamesOfLetters(t *testing.T) {
	portable := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`)
	n := &Names{Max: 64, Letter: true}
	seen := map[string]bool{}
	for _, s := range []string{"", "a", "_a", "1", "_1", "-1", "é", "7" + strings.Repeat("x", 63), strings.Repeat("x", 65)} {
		got := n.Sent(s)
		if !portable.MatchString(got) || seen[got] || n.Portable(got) != got || n.Original(got) != s {
			t.Errorf("%q becomes %q, and comes back as %q", s, got, n.Original(got))
		}
		seen[got] = true
	}
}

func TestReadTextEffortAndTier(t *testing.T) {
	if f, err := ReadText(nil); err != nil || f.Type != "text" {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := ReadText(json.RawMessage(`{"format":{"type":"json_schema","name":"n","schema":{}},"verbosity":"low"}`)); err != nil || f.Name != "n" || f.Verbosity != "low" {
		t.Errorf("%+v, %v", f, err)
	}
	_, err := ReadText(json.RawMessage(`{"format":{"type":"json_schema"}}`))
	refused(t, err, "text.format.schema")
	_, err = ReadText(json.RawMessage(`[]`))
	refused(t, err, "text")
	e, err := ReadEffort(json.RawMessage(`{"effort":"high","summary":null}`))
	if err != nil || e.Budget() != 16384 {
		t.Errorf("%+v, %v", e, err)
	}
	_, err = ReadEffort(json.RawMessage(`{"effort":3}`))
	refused(t, err, "reasoning")
	_, err = ReadEffort(json.RawMessage(`{"effort":"a lot"}`))
	refused(t, err, "reasoning.effort")
	for tier, want := range map[string]string{"": "", "auto": "", "default": "", "flex": "flex", "priority": "priority"} {
		if got, err := Tier(llm.Request{ServiceTier: tier}, "p"); err != nil || got != want {
			t.Errorf("tier %q: %q, %v", tier, got, err)
		}
	}
	_, err = Tier(llm.Request{ServiceTier: "scale"}, "p")
	refused(t, err, "service_tier")
}
