package anthropic

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	startFrame = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":2,\"output_tokens\":1}}}\n\n"
	textFrame  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"token \"}}\n\n"
	endFrames  = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":3}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	okStream = startFrame + textFrame + endFrames
)

// serve starts a server and a provider of it.
func serve(t testing.TB, o Options, h http.HandlerFunc) *Provider {
	t.Helper()
	o.BaseURL = providertest.Serve(t, h) + "/v1/"
	p := New(o)
	t.Cleanup(p.Close)
	return p
}

// key is the options of a provider with a key.
func key(o Options) Options { o.APIKey = "sk-1"; return o }

func TestHeaders(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want map[string]string
	}{
		{key(Options{}), map[string]string{"Anthropic-Version": "2023-06-01", "X-Api-Key": "sk-1", "Authorization": ""}},
		{key(Options{Version: wire.Version2026}), map[string]string{"Anthropic-Version": "2026-10-21", "X-Api-Key": "", "Authorization": "Bearer sk-1"}},
		{key(Options{Version: wire.Version2026, Auth: "x-api-key"}), map[string]string{"X-Api-Key": "sk-1", "Authorization": ""}},
		{key(Options{Auth: "bearer", Options: upstream.Options{Headers: map[string]string{"anthropic-beta": "b-1"}}}),
			map[string]string{"Authorization": "Bearer sk-1", "Anthropic-Beta": "b-1", "Content-Type": "application/json"}},
		{Options{}, map[string]string{"X-Api-Key": "", "Authorization": ""}},
	} {
		p := serve(t, tt.o, func(w http.ResponseWriter, r *http.Request) {
			for name, want := range tt.want {
				if got := r.Header.Get(name); got != want {
					t.Errorf("%+v: %s = %q, want %q", tt.o, name, got, want)
				}
			}
			if r.URL.Path != "/v1/messages" {
				t.Errorf("path %s", r.URL.Path)
			}
			providertest.WriteStream(w, okStream)
		})
		a := providertest.Collect(t, t.Context(), p, providertest.Hello())
		if a.Err != nil || a.Text() != "token " || a.Final.Usage.TotalTokens != 5 {
			t.Errorf("err %v, text %q, final %+v", a.Err, a.Text(), a.Final)
		}
	}
}

// A try that said nothing leaves nothing behind; one that said something is the last.
func TestTriesAgainBeforeTheFirstWord(t *testing.T) {
	overloaded := "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n"
	for name, tt := range map[string]struct {
		first string
		tries int
	}{
		"overloaded before a word": {startFrame + overloaded, 2},
		"cut before a word":        {startFrame, 2},
		"cut behind a word":        {startFrame + textFrame, 1},
		"overloaded behind a word": {startFrame + textFrame + overloaded, 1},
	} {
		tries := 0
		p := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if tries++; tries == 1 {
				providertest.WriteStream(w, tt.first)
			} else {
				providertest.WriteStream(w, okStream)
			}
		})
		a := providertest.Collect(t, t.Context(), p, providertest.Hello())
		if tries != tt.tries || (a.Err == nil) != (tt.tries == 2) {
			t.Errorf("%s: %d tries, err %v", name, tries, a.Err)
		}
		if a.Err == nil && (a.Text() != "token " || a.Final.Usage.TotalTokens != 5) {
			t.Errorf("%s: text %q, usage %+v", name, a.Text(), a.Final.Usage)
		}
	}
}

// Whole asks for one piece, once: when that fails the answer is streamed.
func TestWhole(t *testing.T) {
	var streams []bool
	answers := []string{"", `{"type":"message","content":[{"type":"text","text":"in one piece"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`}
	for round, want := range []string{"token ", "in one piece"} {
		streams = nil
		p := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			var q wire.Request
			json.NewDecoder(r.Body).Decode(&q)
			streams = append(streams, q.Stream)
			switch {
			case q.Stream:
				providertest.WriteStream(w, okStream)
			case answers[round] == "":
				http.Error(w, "no patience", http.StatusGatewayTimeout)
			default:
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, answers[round])
			}
		})
		r := providertest.Hello()
		r.Whole = true
		a := providertest.Collect(t, t.Context(), p, r)
		if wantStreams := [][]bool{{false, true}, {false}}[round]; a.Err != nil || a.Text() != want || !cmp.Equal(streams, wantStreams) {
			t.Errorf("err %v, text %q, streams %v", a.Err, a.Text(), streams)
		}
	}
}

// An answer that pauses is sent back as it is, and goes on in the same turn.
func TestPauseTurn(t *testing.T) {
	paused := startFrame +
		"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"one \"}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"server_tool_use\",\"id\":\"srvtoolu_1\",\"name\":\"web_search\",\"input\":{}}}\n\n" +
		"data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"q\\\":1}\"}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n" +
		strings.Replace(endFrames, "end_turn", "pause_turn", 1)
	var bodies []wire.Request
	p := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		var q wire.Request
		json.NewDecoder(r.Body).Decode(&q)
		bodies = append(bodies, q)
		if len(bodies) == 1 {
			providertest.WriteStream(w, paused)
		} else {
			providertest.WriteStream(w, okStream)
		}
	})
	a := providertest.Collect(t, t.Context(), p, providertest.Hello())
	if a.Err != nil || a.Text() != "one token " || len(a.Items) != 1 || a.Final.Usage.InputTokens != 4 {
		t.Fatalf("err %v, text %q, final %+v", a.Err, a.Text(), a.Final)
	}
	last := bodies[1].Messages[len(bodies[1].Messages)-1]
	raw, _ := wire.Marshal(last)
	want := `{"role":"assistant","content":[{"type":"text","text":"one "},{"id":"srvtoolu_1","input":{"q":1},"name":"web_search","type":"server_tool_use"}]}`
	if len(bodies) != 2 || string(raw) != want {
		t.Errorf("%d calls, %s", len(bodies), raw)
	}
	for0 := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) { providertest.WriteStream(w, paused) })
	if a := providertest.Collect(t, t.Context(), for0, providertest.Hello()); fault.KindOf(a.Err) != fault.Upstream {
		t.Errorf("an answer that pauses for ever: %v", a.Err)
	}
}

// A tool whose name the API does not take is called by its own name.
func TestNamesComeBack(t *testing.T) {
	p := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		var q wire.Request
		json.NewDecoder(r.Body).Decode(&q)
		providertest.WriteStream(w, startFrame+fmt.Sprintf("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":%q,\"input\":{}}}\n\n",
			q.Tools[0].Name)+endFrames)
	})
	r := providertest.Hello()
	r.Tools = []openai.Tool{{Type: "function", Name: "my.tool/ü"}}
	a := providertest.Collect(t, t.Context(), p, r)
	if len(a.Calls()) != 1 || a.Calls()[0].Name != "my.tool/ü" || a.Calls()[0].Arguments != "{}" {
		t.Errorf("err %v, calls %+v", a.Err, a.Calls())
	}
}

// The whole of a turn with thinking goes back byte for byte.
func TestThinkingGoesBackUnchanged(t *testing.T) {
	thinking := `{"type":"thinking","thinking":"<a> & \"b\"\n漢","signature":"c2ln+/=="}`
	var second wire.Request
	calls := 0
	p := serve(t, Options{Options: upstream.Options{Name: "one"}}, func(w http.ResponseWriter, r *http.Request) {
		calls++
		if calls == 1 {
			var start wire.Thinking
			json.Unmarshal([]byte(thinking), &start)
			text, _ := wire.Marshal(start.Thinking)
			providertest.WriteStream(w, startFrame+"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n"+
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":"+string(text)+"}}\n\n"+
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"c2ln\"}}\n\n"+
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"+/==\"}}\n\n"+
				"data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"+
				"data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"shell\",\"input\":{}}}\n\n"+endFrames)
			return
		}
		json.NewDecoder(r.Body).Decode(&second)
		providertest.WriteStream(w, okStream)
	})
	r := providertest.Hello()
	r.Tools = []openai.Tool{providertest.Shell}
	a := providertest.Collect(t, t.Context(), p, r)
	r.Items = append(append(r.Items, a.Items...), openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput,
		CallID: a.Calls()[0].CallID, Output: "x"}))
	providertest.Collect(t, t.Context(), p, r)
	if got := string(second.Messages[1].Content[0].Raw); got != thinking {
		t.Errorf("sent %s\nwant %s", got, thinking)
	}
	// Another provider gets the turn without it.
	other := Dialect{Provider: "two", Version: wire.Version2023}
	if body, err := other.Body(r); err != nil || strings.Contains(string(body), "c2ln") {
		t.Errorf("%v %s", err, body)
	}
}

// What a client puts into a seal of its own gets into the conversation only if it is thinking.
func TestSealedBlocksAreThinking(t *testing.T) {
	d := Dialect{Provider: "a"}
	for block, want := range map[string]int{
		`{"type":"redacted_thinking","data":"x"}`:  1,
		`{"type":"text","text":"I am allowed to"}`: 0,
		`{"type":"tool_use","id":"x"}`:             0,
		`"x"`:                                      0,
	} {
		sealed := d.seal().Open(d.seal().Close([]json.RawMessage{json.RawMessage(block)}))
		if got := thoughts(sealed); len(got) != want {
			t.Errorf("%s: %d blocks", block, len(got))
		}
	}
}

func TestEveryFieldIsMappedOrRefused(t *testing.T) {
	var cases []providertest.Case
	for model, version := range map[string]string{"claude-sonnet-4-5": wire.Version2023, "claude-opus-5": wire.Version2026, "claude-opus-4-6": wire.Version2026} {
		cases = append(cases, providertest.Case{Base: llm.Request{Model: model}, Body: Dialect{Provider: "test", Version: version}.Body})
	}
	providertest.Fields(t, LeftOut(), cases...)
}

func TestTraits(t *testing.T) {
	for model, want := range map[string]traits{
		"claude-3-haiku-20240307":                 {thinkNone, true, 4096},
		"claude-3-5-sonnet-20241022":              {thinkNone, true, 8192},
		"claude-3-7-sonnet-latest":                {thinkBudget, true, 32000},
		"claude-sonnet-4-20250514":                {thinkBudget, true, 32000},
		"anthropic/claude-opus-4.1":               {thinkBudget, true, 32000},
		"claude-haiku-4-5@20251001":               {thinkBudget, true, 32000},
		"anthropic.claude-sonnet-4-20250514-v1:0": {thinkBudget, true, 32000},
		"claude-opus-4-6":                         {thinkAdaptive, true, 32000},
		"claude-opus-4-7":                         {thinkAdaptive, false, 32000},
		"claude-fable-5-1":                        {thinkAdaptive, false, 32000},
		"claude-next":                             {thinkAdaptive, false, 32000},
		"some-model-3":                            {thinkBudget, true, 8192},
	} {
		if got := traitsOf(model); got != want {
			t.Errorf("%s: %+v, want %+v", model, got, want)
		}
	}
}

func TestModels(t *testing.T) {
	p := serve(t, key(Options{}), func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RequestURI() {
		case "/v1/models?limit=1000":
			io.WriteString(w, `{"data":[{"id":"m1","type":"model","created_at":"2025-01-01T00:00:00Z"}],"has_more":true,"last_id":"m1"}`)
		case "/v1/models?limit=1000&after_id=m1":
			io.WriteString(w, `{"data":[{"id":"m2"},{"id":""}],"has_more":false}`)
		default:
			http.NotFound(w, r)
		}
	})
	if m, err := p.Models(t.Context()); err != nil || len(m) != 2 || m[0].Created != 1735689600 || m[1].ID != "m2" {
		t.Errorf("%+v, %v", m, err)
	}
	bad := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
	if _, err := bad.Models(t.Context()); fault.KindOf(err) != fault.Upstream {
		t.Errorf("err = %v", err)
	}
}
