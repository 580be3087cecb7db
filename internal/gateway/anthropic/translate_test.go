package anthropic

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// readable is what a request became, for a golden file.
func readable(t *testing.T, a *asked) []byte {
	t.Helper()
	r := a.request
	raw, err := openai.Marshal(struct {
		Request openai.CreateRequest
		Bash    *openai.Bash
		Stream  bool
		Thinks  bool
		Stops   []string
	}{r, r.Bash, a.stream, a.thinks, a.stops})
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	for k, v := range m["Request"].(map[string]any) {
		if v == nil {
			delete(m["Request"].(map[string]any), k)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Every request that we know of becomes what its golden says.
func TestTranslation(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.in.json")
	if len(files) < 5 {
		t.Fatalf("only %d requests are tried", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.json"), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var m wire.Request
			if err := json.Unmarshal(in, &m); err != nil {
				t.Fatal(err)
			}
			a, err := translate(&m, wire.Version2023, false)
			if err != nil {
				t.Fatal(err)
			}
			got := readable(t, a)
			golden := strings.TrimSuffix(file, ".in.json") + ".out.json"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %v\n%s", golden, err, got)
			}
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	body := func(more string) string {
		return `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hi"}],` + more + `}`
	}
	talk := func(role, content string) string {
		return `{"model":"m","max_tokens":10,"messages":[{"role":"` + role + `","content":` + content + `}]}`
	}
	for _, c := range []struct{ name, body, version, says string }{
		{"no model", `{"max_tokens":1,"messages":[{"role":"user","content":"a"}]}`, "", "model: Field required"},
		{"no max_tokens", `{"model":"m","messages":[{"role":"user","content":"a"}]}`, "", "max_tokens: Field required"},
		{"max_tokens 0", `{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"a"}]}`, "", "max_tokens"},
		{"no messages", `{"model":"m","max_tokens":1,"messages":[]}`, "", "messages"},
		{"a role", talk("robot", `"a"`), "", "messages.0.role"},
		{"a block", talk("user", `[{"type":"hologram"}]`), "", "messages.0.content.0.type"},
		{"a block of the other side", talk("user", `[{"type":"tool_use","id":"a","name":"b","input":{}}]`), "", "messages.0.content.0.type"},
		{"a picture of the assistant's", talk("assistant", `[{"type":"image","source":{"type":"url","url":"https://x"}}]`), "", "messages.0.content.0.type"},
		{"a picture by file", talk("user", `[{"type":"image","source":{"type":"file","file_id":"file_1"}}]`), "", "base64 or url"},
		{"a result without a call", talk("user", `[{"type":"tool_result","content":"a"}]`), "", "tool_use_id: Field required"},
		{"temperature 1.5", body(`"temperature":1.5`), "", "temperature"},
		{"temperature in 2026", body(`"temperature":1`), wire.Version2026, "temperature: is not a field of version 2026-10-21"},
		{"top_p in 2026", body(`"top_p":1`), wire.Version2026, "top_p"},
		{"top_k in 2026", body(`"top_k":1`), wire.Version2026, "top_k"},
		{"a blank stop", body(`"stop_sequences":["\n"]`), "", "stop_sequences"},
		{"thinking too little", body(`"thinking":{"type":"enabled","budget_tokens":5}`), "", "budget_tokens: must be at least 1024"},
		{"thinking beyond the answer", body(`"thinking":{"type":"enabled","budget_tokens":2000}`), "", "less than max_tokens"},
		{"an unknown thinking", body(`"thinking":{"type":"deep"}`), "", "thinking.type"},
		{"an unknown effort", body(`"output_config":{"effort":"none"}`), "", "output_config.effort"},
		{"an unknown tier", body(`"service_tier":"gold"`), "", "service_tier"},
		{"a tool without a schema", body(`"tools":[{"name":"f"}]`), "", "tools.0.input_schema"},
		{"a tool without a name", body(`"tools":[{"input_schema":{}}]`), "", "tools.0.name"},
		{"a tool that nobody runs", body(`"tools":[{"type":"web_search_20250305","name":"web_search"}]`), "", `"web_search_20250305"`},
		{"code execution", body(`"tools":[{"type":"code_execution_20250825","name":"code_execution"}]`), "", `"code_execution_20250825"`},
		{"an engine", body(`"tools":[{"type":"openrouter:bash","parameters":{"engine":"warp"}}]`), "", "tools.0.parameters.engine"},
		{"a local bash of the server's", body(`"tools":[{"type":"hardshell:bash","parameters":{"engine":"openrouter","environment":{"type":"local"}}}]`), "", "environment.type"},
		{"two of them", body(`"tools":[{"type":"hardshell:bash","parameters":{"engine":"openrouter"}},{"type":"openrouter:bash","parameters":{"engine":"openrouter"}}]`), "", "Only one bash"},
		{"a choice", body(`"tool_choice":{"type":"maybe"}`), "", "tool_choice.type"},
		{"MCP servers", body(`"mcp_servers":[{"type":"url","url":"https://x","name":"x"}]`), "", "mcp_servers"},
		{"a session", body(`"session_id":""`), "", "session_id"},
		{"skills", body(`"container":{"skills":[{"type":"anthropic","skill_id":"pptx"}]}`), "", "container.skills"},
	} {
		var m wire.Request
		if err := json.Unmarshal([]byte(c.body), &m); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.version == "" {
			c.version = wire.Version2023
		}
		if _, err := translate(&m, c.version, false); err == nil || !strings.Contains(err.Error()+errorText(err), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

func errorText(err error) string {
	_, body := errorOf(err, "")
	return body.Error.Message
}

// Whatever a client sends is refused, or becomes a request that can be written and counted.
func FuzzTranslate(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.in.json")
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var m wire.Request
		if json.Unmarshal(in, &m) != nil {
			return
		}
		for _, version := range []string{wire.Version2023, wire.Version2026} {
			a, err := translate(&m, version, true)
			if err != nil {
				continue
			}
			if _, err := openai.Marshal(a.request); err != nil {
				t.Errorf("%s: %v", in, err)
			}
			if n := tokensOf(&a.request); n < 1 {
				t.Errorf("%s counts %d", in, n)
			}
		}
	})
}
