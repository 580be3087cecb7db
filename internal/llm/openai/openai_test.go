package openai

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestBody(t *testing.T) {
	providertest.Requests(t, 20, "openai", func(settings json.RawMessage, r llm.Request) ([]byte, error) {
		d := Dialect{}
		if err := providertest.Strict(settings, &d); err != nil {
			t.Fatal(err)
		}
		d.Provider = "test"
		return d.Body(r)
	}, acceptable)
}

// The answers were written from the documented shapes; none was recorded from the vendor.
func TestAnswers(t *testing.T) {
	providertest.Answers(t, 25, "openai", recorded, "_up")
}

// recorded is a provider of recorded answers.
func recorded(client *http.Client) llm.Provider {
	p := New(Options{Options: upstream.Options{Name: "test", BaseURL: "http://upstream.example?token=tenant-secret-1", APIKey: "sk-ant-secret",
		Headers: map[string]string{"X-Tenant": "tenant-secret-1"}, MaxTries: 1, Client: client}})
	p.mint = providertest.Counter()
	return p
}

func TestEveryFieldIsMappedOrRefused(t *testing.T) {
	providertest.Fields(t, LeftOut(), providertest.Case{Base: llm.Request{Model: "gpt-5.2"}, Body: Dialect{Provider: "test", Vendor: true}.Body},
		providertest.Case{Base: llm.Request{Model: "gpt-5.2"}, Body: Dialect{Provider: "test"}.Body})
}

// Where requests go, and with which key.
func TestHosts(t *testing.T) {
	for _, tt := range []struct {
		o         Options
		url, auth string
	}{
		{Options{}, "https://api.openai.com/v1/responses", "Authorization"},
		{Options{Options: upstream.Options{BaseURL: "http://127.0.0.1:9/v1/"}}, "http://127.0.0.1:9/v1/responses", "Authorization"},
		{Options{Options: upstream.Options{BaseURL: "https://x.openai.azure.com"}}, "https://x.openai.azure.com/openai/v1/responses", "Api-Key"},
		{Options{Options: upstream.Options{BaseURL: "https://x.openai.azure.com/openai/v1/"}}, "https://x.openai.azure.com/openai/v1/responses", "Api-Key"},
		{Options{Options: upstream.Options{BaseURL: "https://x.services.ai.azure.com"}, APIVersion: "preview"}, "https://x.services.ai.azure.com/openai/responses?api-version=preview", "Api-Key"},
		{Options{Options: upstream.Options{BaseURL: "https://x.openai.azure.com/openai"}, APIVersion: "2025-04-01-preview", Auth: "bearer"},
			"https://x.openai.azure.com/openai/responses?api-version=2025-04-01-preview", "Authorization"},
		{Options{Options: upstream.Options{BaseURL: "https://x.openai.azure.com.evil.example/v1"}}, "https://x.openai.azure.com.evil.example/v1/responses", "Authorization"},
	} {
		var got *http.Request
		tt.o.APIKey, tt.o.MaxTries = "sk-1", 1
		tt.o.Client = &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) { got = r; return nil, io.EOF })}
		providertest.Collect(t, t.Context(), New(tt.o), providertest.Hello())
		if got.URL.String() != tt.url || got.Header.Get(tt.auth) == "" || len(got.Header.Values("Authorization"))+len(got.Header.Values("Api-Key")) != 1 {
			t.Errorf("%s %v, want %s", got.URL, got.Header, tt.url)
		}
	}
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTraits(t *testing.T) {
	for model, want := range map[string]traits{
		"gpt-4o": {}, "gpt-4.1-mini": {}, "gpt-5": {true, false}, "gpt-5-mini": {true, false}, "gpt-5.1": {true, true}, "gpt-5.2-codex": {true, true},
		"gpt-6-nano": {true, true}, "gpt-5.1-chat-latest": {}, "o3": {true, false}, "o4-mini": {true, false}, "codex-mini-latest": {true, false},
		"openai/gpt-5.2": {true, true}, "gpt-oss-120b": {}, "omni": {}, "": {}, "gpt-": {},
	} {
		if got := traitsOf(model); got != want {
			t.Errorf("%s: %+v, want %+v", model, got, want)
		}
	}
}

// What the vendor's shell prints and what ours does are the same to the model.
func TestNativeOutput(t *testing.T) {
	for text, want := range map[string][]nativeEntry{
		`{"command":"a","stdout":"1","stderr":"2","exit_code":3,"duration_ms":4}`:                         {{"1", "2", wire.Exit(3)}},
		`{"stdout":"a","stderr":"","exit_code":0}` + "\n" + `{"stdout":"b","stderr":"","timed_out":true}`: {{"a", "", wire.Exit(0)}, {"b", "", wire.Timeout()}},
		`{"stdout":"","stderr":"x","exit_code":0,"note":"cut","files_written":["a (1 bytes)"]}`:           {{"", "x\n[{\"files_written\":[\"a (1 bytes)\"],\"note\":\"cut\"}]\n", wire.Exit(0)}},
		`{"error":"no shell"}`: {{"", "no shell", wire.Exit(1)}, {"", "no shell", wire.Exit(1)}},
		"plain text\n{}":       {{"plain text\n{}", "", wire.Exit(0)}},
		`{"x":1}`:              {{`{"x":1}`, "", wire.Exit(0)}},
		"":                     {{"", "", wire.Exit(0)}},
	} {
		if diff := cmp.Diff(want, nativeOutput(text, 2)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestModels(t *testing.T) {
	p := New(Options{Options: upstream.Options{BaseURL: providertest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"data":[{"id":"gpt-5.2","created":1700000000},{"id":""}]}`)
	}))}})
	if m, err := p.Models(t.Context()); err != nil || len(m) != 1 || m[0].ID != "gpt-5.2" || m[0].Created != 1700000000 {
		t.Errorf("%+v, %v", m, err)
	}
}

// Reasoning goes back byte for byte but for its id, and to this provider only.
func TestReasoningGoesBack(t *testing.T) {
	item := `{"content":null,"encrypted_content":"gAAAA<b>&+/=","new_field":{"n":1.0},"summary":[{"type":"summary_text","text":"look"}],"type":"reasoning"}`
	answer := "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":" + strings.Replace(item, `"type":"reasoning"`, `"id":"rs_up","status":"completed","type":"reasoning"`, 1) + "}\n\n" +
		"data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"function_call\",\"id\":\"fc_up\",\"call_id\":\"call_up\",\"name\":\"shell\",\"arguments\":\"{}\"}}\n\n" +
		"data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n"
	r := providertest.Hello()
	r.Tools = []wire.Tool{providertest.Shell}
	a := providertest.Collect(t, t.Context(), recorded(providertest.Streamed(answer, func(r io.Reader) io.Reader { return r })), r)
	if a.Err != nil || a.Thinking() != "look" || len(a.Calls()) != 1 {
		t.Fatalf("%v\n%s", a.Err, providertest.Dump(a.Events))
	}
	r.Items = append(append(r.Items, a.Items...), wire.NewItem(wire.FunctionCallOutput{Type: wire.TypeFunctionCallOutput, CallID: a.Calls()[0].CallID, Output: "x"}))
	for provider, want := range map[string]bool{"test": true, "another": false} {
		body, err := Dialect{Provider: provider}.Body(r)
		if err == nil {
			err = acceptable(body)
		}
		if err != nil || strings.Contains(string(body), item) != want || strings.Contains(string(body), "_up") {
			t.Errorf("%s: %v %s", provider, err, body)
		}
	}
}

func FuzzRequest(f *testing.F) {
	providertest.FuzzRequest(f, "openai", Dialect{Provider: "test", NativeShell: "on"}.Body)
}

func FuzzStream(f *testing.F) { providertest.FuzzStream(f, recorded) }

// FuzzFastText holds fastText to encoding/json.
func FuzzFastText(f *testing.F) {
	for _, s := range []string{`{"type":"response.output_text.delta","sequence_number":3,"item_id":"m","output_index":1,"content_index":0,"delta":"a\"bü","logprobs":[]}`,
		`{"type":"response.output_text.delta","output_index":1,"delta":"a","delta":"b"}`, `{"type":"x","output_index":1,"delta":"a"}`,
		`{"type":"response.output_text.delta","output_index":01,"delta":"a"}`, `{"type":"response.output_text.delta","output_index":null,"delta":"a"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var scratch []byte
		index, text, ok := fastText(data, &scratch)
		if !ok {
			return
		}
		var ev event
		if err := json.Unmarshal(data, &ev); err != nil || ev.Type != "response.output_text.delta" || ev.OutputIndex != index || word(ev.Delta) != string(text) {
			t.Fatalf("%q: %d %q, want %+v, %v", data, index, text, ev, err)
		}
	})
}

// A tool that the upstream does not run is refused by its name, before anything is sent.
func TestToolsThatNobodyRuns(t *testing.T) {
	d := Dialect{Provider: "p"}
	for _, typ := range []string{"code_interpreter", "computer_use_preview", "custom", "local_shell", "apply_patch", "shell"} {
		_, err := d.Body(llm.Request{Model: "m", Tools: []wire.Tool{{Type: typ}}})
		if e, ok := fault.As(err); !ok || e.Code != "unsupported_tool" || !strings.Contains(e.Message, typ) || !strings.Contains(e.Message, "p") {
			t.Errorf("%s: %v", typ, err)
		}
	}
}
