package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
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

func writeStream(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, s)
	w.(http.Flusher).Flush()
}

// serve starts a server and a provider of it.
func serve(t testing.TB, o Options, h http.HandlerFunc) *Provider {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // handlers that abort on purpose
	srv.Start()
	t.Cleanup(srv.Close)
	o.BaseURL = srv.URL + "/v1/"
	p := New(o)
	t.Cleanup(p.client.CloseIdleConnections)
	return p
}

func hello() llm.Request {
	return llm.Request{Model: "m", Items: []openai.Item{openai.UserText("hello")}}
}

func TestHeaders(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want map[string]string
	}{
		{Options{APIKey: "sk-1"}, map[string]string{"Anthropic-Version": "2023-06-01", "X-Api-Key": "sk-1", "Authorization": ""}},
		{Options{APIKey: "sk-1", Version: wire.Version2026}, map[string]string{"Anthropic-Version": "2026-10-21", "X-Api-Key": "", "Authorization": "Bearer sk-1"}},
		{Options{APIKey: "sk-1", Version: wire.Version2026, Auth: "x-api-key"}, map[string]string{"X-Api-Key": "sk-1", "Authorization": ""}},
		{Options{Auth: "bearer", APIKey: "sk-1", Headers: map[string]string{"anthropic-beta": "b-1"}},
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
			writeStream(w, okStream)
		})
		a := providertest.Collect(t, t.Context(), p, hello())
		if a.Err != nil || a.Text() != "token " || a.Final.Usage.TotalTokens != 5 {
			t.Errorf("err %v, text %q, final %+v", a.Err, a.Text(), a.Final)
		}
	}
}

func TestTriesAgainBeforeTheFirstEvent(t *testing.T) {
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			http.Error(w, `{"type":"error","error":{"type":"x","message":"no"}}`, code)
		}
	}
	stream := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { writeStream(w, s) }
	}
	hijack := func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		c.Close()
	}
	overloaded := "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n"
	for _, tt := range []struct {
		name    string
		answers []http.HandlerFunc // the last one for all further tries
		tries   int64
		ok      bool
	}{
		{"429 then well", []http.HandlerFunc{status(429, "Retry-After", "0"), stream(okStream)}, 2, true},
		{"500 and 529 then well", []http.HandlerFunc{status(500), status(529), stream(okStream)}, 3, true},
		{"connection closed then well", []http.HandlerFunc{hijack, stream(okStream)}, 2, true},
		{"overloaded in the stream then well", []http.HandlerFunc{stream(startFrame + overloaded), stream(okStream)}, 2, true},
		{"cut before a word then well", []http.HandlerFunc{stream(startFrame), stream(okStream)}, 2, true},
		{"always 529", []http.HandlerFunc{status(529)}, 3, false},
		{"429 for longer than we wait", []http.HandlerFunc{status(429, "Retry-After", "3600")}, 1, false},
		{"the server says no", []http.HandlerFunc{status(500, "X-Should-Retry", "false")}, 1, false},
		{"the server says yes", []http.HandlerFunc{status(409, "X-Should-Retry", "true"), stream(okStream)}, 2, true},
		{"400", []http.HandlerFunc{status(400)}, 1, false},
		{"401", []http.HandlerFunc{status(401)}, 1, false},
		{"cut behind a word", []http.HandlerFunc{stream(startFrame + textFrame)}, 1, false},
		{"overloaded behind a word", []http.HandlerFunc{stream(startFrame + textFrame + overloaded)}, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int64
			p := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				tt.answers[min(int(tries.Add(1)), len(tt.answers))-1](w, r)
			})
			a := providertest.Collect(t, t.Context(), p, hello())
			if tries.Load() != tt.tries || (a.Err == nil) != tt.ok {
				t.Errorf("%d tries, err %v; want %d, ok %v", tries.Load(), a.Err, tt.tries, tt.ok)
			}
			if !tt.ok && fault.KindOf(a.Err) != fault.Upstream {
				t.Errorf("err %v", a.Err)
			}
		})
	}
}

func TestPatience(t *testing.T) {
	for name, head := range map[string]string{"no head": "", "silent in the middle": startFrame + textFrame} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, Options{FirstByteTimeout: 300 * time.Millisecond, IdleTimeout: 300 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if head != "" {
					writeStream(w, head)
				}
				<-r.Context().Done()
			})
			if a := providertest.Collect(t, t.Context(), p, hello()); fault.KindOf(a.Err) != fault.Upstream {
				t.Errorf("err %v", a.Err)
			}
		})
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
				writeStream(w, okStream)
			case answers[round] == "":
				http.Error(w, "no patience", http.StatusGatewayTimeout)
			default:
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, answers[round])
			}
		})
		r := hello()
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
			writeStream(w, paused)
		} else {
			writeStream(w, okStream)
		}
	})
	a := providertest.Collect(t, t.Context(), p, hello())
	if a.Err != nil || a.Text() != "one token " || len(a.Items) != 1 || a.Final.Usage.InputTokens != 4 {
		t.Fatalf("err %v, text %q, final %+v", a.Err, a.Text(), a.Final)
	}
	last := bodies[1].Messages[len(bodies[1].Messages)-1]
	raw, _ := wire.Marshal(last)
	want := `{"role":"assistant","content":[{"type":"text","text":"one "},{"id":"srvtoolu_1","input":{"q":1},"name":"web_search","type":"server_tool_use"}]}`
	if len(bodies) != 2 || string(raw) != want {
		t.Errorf("%d calls, %s", len(bodies), raw)
	}
	for0 := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) { writeStream(w, paused) })
	if a := providertest.Collect(t, t.Context(), for0, hello()); fault.KindOf(a.Err) != fault.Upstream {
		t.Errorf("an answer that pauses for ever: %v", a.Err)
	}
}

// A tool whose name the API does not take is called by its own name.
func TestNamesComeBack(t *testing.T) {
	p := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		var q wire.Request
		json.NewDecoder(r.Body).Decode(&q)
		writeStream(w, startFrame+fmt.Sprintf("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":%q,\"input\":{}}}\n\n",
			q.Tools[0].Name)+endFrames)
	})
	r := hello()
	r.Tools = []openai.Tool{{Type: "function", Name: "my.tool/ü"}}
	a := providertest.Collect(t, t.Context(), p, r)
	if len(a.Calls()) != 1 || a.Calls()[0].Name != "my.tool/ü" || a.Calls()[0].Arguments != "{}" {
		t.Errorf("err %v, calls %+v", a.Err, a.Calls())
	}
}

func TestPortable(t *testing.T) {
	seen := map[string]string{}
	for _, s := range []string{"", "a", "a.b", "a_b", "a-b", "a/b", "ü", strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("x", 130)} {
		got := portable(s)
		if !name.MatchString(got) || seen[got] != "" || portable(got) != got {
			t.Errorf("%q becomes %q, as %q does", s, got, seen[got])
		}
		seen[got] = s + "."
	}
}

// The whole of a turn with thinking goes back byte for byte.
func TestThinkingGoesBackUnchanged(t *testing.T) {
	thinking := `{"type":"thinking","thinking":"<a> & \"b\"\n漢","signature":"c2ln+/=="}`
	var second wire.Request
	calls := 0
	p := serve(t, Options{Name: "one"}, func(w http.ResponseWriter, r *http.Request) {
		calls++
		if calls == 1 {
			var start wire.Thinking
			json.Unmarshal([]byte(thinking), &start)
			text, _ := wire.Marshal(start.Thinking)
			writeStream(w, startFrame+"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n"+
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":"+string(text)+"}}\n\n"+
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"c2ln\"}}\n\n"+
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"+/==\"}}\n\n"+
				"data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"+
				"data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"shell\",\"input\":{}}}\n\n"+endFrames)
			return
		}
		json.NewDecoder(r.Body).Decode(&second)
		writeStream(w, okStream)
	})
	r := hello()
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

func TestSealRefuses(t *testing.T) {
	good := seal("a", []wire.Block{wire.NewBlock(wire.RedactedThinking{Type: wire.TypeRedactedThinking, Data: "x"})})
	if len(unseal("a", good)) != 1 {
		t.Fatal("a good seal is refused")
	}
	for _, s := range []string{"", "x", sealMark, sealMark + "!!", good[:len(good)-4], strings.Replace(good, "1.", "2.", 1)} {
		if b := unseal("a", s); len(b) != 0 {
			t.Errorf("%q gives %v", s, b)
		}
	}
	if len(unseal("b", good)) != 0 {
		t.Error("another provider reads it")
	}
}

// Every field of a request changes what is sent, is refused, or is in the list of what may be left out.
func TestEveryFieldIsMappedOrRefused(t *testing.T) {
	d := Dialect{Provider: "test", Version: wire.Version2026}
	half, n, no := 0.5, int64(5), false
	base := llm.Request{Model: "claude-opus-5", Items: []openai.Item{openai.UserText("a")}, Tools: []openai.Tool{providertest.Shell}}
	set := map[string]func(*llm.Request){
		"Model":             func(r *llm.Request) { r.Model = "claude-opus-6" },
		"Instructions":      func(r *llm.Request) { r.Instructions = "x" },
		"Items":             func(r *llm.Request) { r.Items = append(r.Items, openai.UserText("b")) },
		"Tools":             func(r *llm.Request) { r.Tools = nil },
		"ToolChoice":        func(r *llm.Request) { r.ToolChoice = json.RawMessage(`"required"`) },
		"ParallelToolCalls": func(r *llm.Request) { r.ParallelToolCalls = &no },
		"MaxOutputTokens":   func(r *llm.Request) { r.MaxOutputTokens = &n },
		"Temperature":       func(r *llm.Request) { r.Temperature = &half },
		"TopP":              func(r *llm.Request) { r.TopP = &half },
		"Text":              func(r *llm.Request) { r.Text = json.RawMessage(`{"format":{"type":"json_schema","schema":{}}}`) },
		"Reasoning":         func(r *llm.Request) { r.Reasoning = json.RawMessage(`{"effort":"low"}`) },
		"User":              func(r *llm.Request) { r.User = "u" },
		"Whole":             func(r *llm.Request) { r.Whole = true },
	}
	leftOut := map[string]string{"Temperature": "temperature", "TopP": "top_p"}
	want, err := d.Body(base)
	if err != nil {
		t.Fatal(err)
	}
	for field := range reflect.TypeFor[llm.Request]().Fields() {
		field := field.Name
		if set[field] == nil {
			t.Errorf("the field %s is new: say here what becomes of it", field)
			continue
		}
		r := base
		set[field](&r)
		got, err := d.Body(r)
		if err == nil && string(got) == string(want) && LeftOut()[leftOut[field]] == "" {
			t.Errorf("%s is dropped silently", field)
		}
		d := Dialect{Provider: "test", Version: wire.Version2023}
		r.Model = "claude-sonnet-4-5"
		plain := base
		plain.Model = r.Model
		a, _ := d.Body(plain)
		b, err := d.Body(r)
		if field != "Model" && err == nil && string(a) == string(b) {
			t.Errorf("%s is dropped under the version that knows it", field)
		}
	}
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
	asked := New(Options{Name: "a", Models: []string{"x", "a/y"}})
	if m, err := asked.Models(t.Context()); err != nil || len(m) != 2 || m[1].ID != "y" || m[1].OwnedBy != "a" {
		t.Errorf("%+v, %v", m, err)
	}
	p := serve(t, Options{Name: "b", APIKey: "sk-1"}, func(w http.ResponseWriter, r *http.Request) {
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
	bad := serve(t, Options{Name: "c"}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
	if _, err := bad.Models(t.Context()); fault.KindOf(err) != fault.Upstream {
		t.Errorf("err = %v", err)
	}
}

func TestUnreachableTellsNoSecret(t *testing.T) {
	p := New(Options{Name: "gone", BaseURL: "http://user:sk-password@127.0.0.1:1?key=sk-query", APIKey: "sk-secret", MaxRetryWait: time.Nanosecond})
	a := providertest.Collect(t, t.Context(), p, hello())
	if fault.KindOf(a.Err) != fault.Upstream {
		t.Errorf("err = %v", a.Err)
	}
	for e := a.Err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(fmt.Sprintf("%v %+v", e, e), "sk-") {
			t.Errorf("a secret got out: %+v", e)
		}
	}
}
