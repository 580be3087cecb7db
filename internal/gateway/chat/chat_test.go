package chat

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/sse"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

const patient = 20 * time.Second

type keys struct{}

func (keys) Authenticate(_ context.Context, token string) (tenant.Principal, error) {
	if token != "key" {
		return tenant.Principal{}, fault.New(fault.Unauthenticated, "This key is not valid.")
	}
	return tenant.Principal{Org: "one", Scopes: []tenant.Scope{tenant.ScopeRun}}, nil
}

// fakeAgent hands out runs that play what a test prepared.
type fakeAgent struct {
	play func(t *llm.Turn)
	end  openai.Response
	hold bool
	late <-chan struct{} // nil, or closed when the run fails
	last *openai.CreateRequest
	run  *fakeRun
}

func (a *fakeAgent) Create(_ context.Context, _ tenant.Principal, req *openai.CreateRequest) (Run, error) {
	a.last = req
	r := &fakeRun{hold: a.hold, late: a.late, cancelled: make(chan struct{})}
	emit := func(ev openai.Event) {
		raw, err := openai.AppendEvent(nil, ev)
		if err != nil {
			panic(err)
		}
		r.frames = append(r.frames, response.Frame{Seq: int64(len(r.frames)), Type: ev.EventType(), Data: raw})
	}
	n := 0
	if a.play != nil {
		a.play(llm.NewTurn(func(ev openai.Event, _ error) bool {
			if _, end := ev.(*openai.Lifecycle); !end {
				emit(ev)
			}
			return true
		}, func(prefix string) string { n++; return prefix + "_" + string(rune('a'+n-1)) }))
	}
	if a.end.Status != "" {
		typ := map[string]string{openai.Completed: openai.EventCompleted, openai.Failed: openai.EventFailed, openai.Incomplete: openai.EventIncomplete}[a.end.Status]
		emit(openai.NewLifecycle(typ, a.end))
	}
	a.run = r
	return r, nil
}

type fakeRun struct {
	frames    []response.Frame
	at        int
	hold      bool
	late      <-chan struct{}
	once      sync.Once
	cancelled chan struct{}
}

func (r *fakeRun) ID() string             { return "resp_1" }
func (r *fakeRun) Cancel(error)           { r.once.Do(func() { close(r.cancelled) }) }
func (r *fakeRun) Subscribe(int64) Stream { return r }
func (r *fakeRun) Close()                 {}

func (r *fakeRun) Next(ctx context.Context) ([]response.Frame, error) {
	if r.at < len(r.frames) {
		r.at++
		return r.frames[r.at-1 : r.at], nil
	}
	if r.late != nil {
		<-r.late
		return nil, errors.New("disk 7")
	}
	if r.hold {
		select {
		case <-r.cancelled:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, io.EOF
}

func plainError(w http.ResponseWriter, _ *http.Request, err error) {
	d := gateway.Describe(err, "")
	w.WriteHeader(d.Status)
	raw, _ := json.Marshal(d)
	w.Write(raw)
}

func open(t *testing.T, a *fakeAgent, keepalive time.Duration) string {
	t.Helper()
	g := gateway.New(gateway.Options{Tenants: keys{}})
	Register(g, Door{Agent: a, Keepalive: keepalive, Now: func() time.Time { return time.Unix(7, 0) }}, plainError)
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return s.URL
}

func post(t *testing.T, url, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(raw)
}

var done = openai.Response{Status: openai.Completed, Usage: &openai.Usage{InputTokens: 9, OutputTokens: 4, TotalTokens: 13}}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, more   string
		play         func(*llm.Turn)
		end          openai.Response
		whole, frame string // of the answer, and of the last chunk but the usage's
	}{
		{"words", ``, func(t *llm.Turn) {
			t.Reasoning([]byte("Hm."))
			t.Text([]byte("Hi "))
			t.Text([]byte("<you>"))
			t.Complete(nil)
		}, done,
			`{"index":0,"message":{"role":"assistant","content":"Hi <you>","refusal":null},"finish_reason":"stop","logprobs":null}`, `"finish_reason":"stop"`},
		{"calls", ``, func(t *llm.Turn) {
			t.Text([]byte("So."))
			a, b := t.Call("f"), t.Call("g")
			b.Write(`{"b":1}`)
			a.Write(`{"a":1}`)
			t.Complete(nil)
		}, done, `{"index":0,"message":{"role":"assistant","content":"So.","refusal":null,"tool_calls":[` +
			`{"id":"call_c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},` +
			`{"id":"call_e","type":"function","function":{"name":"g","arguments":"{\"b\":1}"}}]},"finish_reason":"tool_calls","logprobs":null}`, `"finish_reason":"tool_calls"`},
		{"stop", `,"stop":"END"`, func(t *llm.Turn) { t.Text([]byte("one E")); t.Text([]byte("ND two")); t.Complete(nil) }, done,
			`{"index":0,"message":{"role":"assistant","content":"one ","refusal":null},"finish_reason":"stop","logprobs":null}`, `"finish_reason":"stop"`},
		{"length", ``, func(t *llm.Turn) { t.Text([]byte("Lo")); t.Stop(openai.ReasonMaxOutputTokens, nil) },
			openai.Response{Status: openai.Incomplete, IncompleteDetails: &openai.IncompleteDetails{Reason: openai.ReasonMaxOutputTokens}},
			`{"index":0,"message":{"role":"assistant","content":"Lo","refusal":null},"finish_reason":"length","logprobs":null}`, `"finish_reason":"length"`},
		{"refusal", ``, func(t *llm.Turn) { t.Refusal([]byte("No.")); t.Stop(openai.ReasonContentFilter, nil) },
			openai.Response{Status: openai.Incomplete, IncompleteDetails: &openai.IncompleteDetails{Reason: openai.ReasonContentFilter}},
			`{"index":0,"message":{"role":"assistant","content":null,"refusal":"No."},"finish_reason":"content_filter","logprobs":null}`, `"finish_reason":"content_filter"`},
	} {
		url := open(t, &fakeAgent{play: c.play, end: c.end}, time.Minute)
		body := `{"model":"m","messages":[{"role":"user","content":"hi"}]` + c.more
		res, text := post(t, url, body+`}`)
		if want := `{"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"m","choices":[` + c.whole + `]`; res.StatusCode != 200 || !strings.HasPrefix(text, want) {
			t.Errorf("%s: %d\n%s\n%s", c.name, res.StatusCode, text, want)
		}
		res, text = post(t, url, body+`,"stream":true,"stream_options":{"include_usage":true}}`)
		frames := strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n")
		if n := len(frames); res.StatusCode != 200 || n < 4 || frames[n-1] != "data: [DONE]" || !strings.Contains(frames[n-2], `"choices":[],"usage":{`) ||
			!strings.Contains(frames[n-3], c.frame) || !strings.Contains(frames[0], `"delta":{"role":"assistant","content":""}`) {
			t.Errorf("%s: %d %s", c.name, res.StatusCode, text)
		}
		if strings.Contains(text, "Hm.") {
			t.Errorf("%s: thinking got out", c.name)
		}
	}
}

func TestFailures(t *testing.T) {
	failed := openai.Response{Status: openai.Failed, Error: &openai.ResponseError{Code: "rate_limit_exceeded", Message: "slow down"}}
	a := &fakeAgent{end: failed}
	url := open(t, a, time.Minute)
	for _, stream := range []string{"false", "true"} {
		if res, text := post(t, url, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":`+stream+`}`); res.StatusCode != 429 || !strings.Contains(text, "slow down") {
			t.Errorf("stream %s: %d %s", stream, res.StatusCode, text)
		}
	}
	a.play = func(t *llm.Turn) { t.Text([]byte("Let me")); t.End() }
	res, text := post(t, url, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`)
	if res.StatusCode != 200 || !strings.Contains(text, `{"error":{"message":"slow down"`) || strings.Contains(text, "[DONE]") {
		t.Errorf("in the stream: %d %s", res.StatusCode, text)
	}
}

// In silence there are comments, and a client that goes away ends the run.
func TestSilenceAndHangingUp(t *testing.T) {
	a := &fakeAgent{hold: true}
	url := open(t, a, 20*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/api/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	if _, err := io.ReadFull(res.Body, b); err != nil || string(b) != string(sse.AppendComment(nil, "keepalive"))[:3] {
		t.Errorf("%v %q", err, b)
	}
	res.Body.Close()
	select {
	case <-a.run.cancelled:
	case <-time.After(patient):
		t.Error("the run of a client that hung up goes on")
	}
}

func TestTheRequestIsHandedOn(t *testing.T) {
	a := &fakeAgent{play: func(t *llm.Turn) { t.Text([]byte("ok")); t.Complete(nil) }, end: done}
	url := open(t, a, time.Minute)
	res, text := post(t, url, `{"model":"p/m","max_tokens":5,"max_completion_tokens":9,"temperature":1.5,"reasoning_effort":"low","verbosity":"low","user":"u","seed":3,"n":1,
		"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"},"strict":true}},
		"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}},"cache_control":{"type":"ephemeral"}}],
		"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,
		"messages":[{"role":"system","content":"rules"},{"role":"user","content":[{"type":"text","text":"look","cache_control":{"type":"ephemeral"}},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,AA","detail":"low"}},{"type":"file","file":{"filename":"a.txt","file_data":"QQ=="}}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"seen"},{"role":"assistant","content":"fine"},{"role":"user","content":"go on"}]}`)
	if res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	raw, err := openai.Marshal(a.last)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"model":"p/m"`, `"max_output_tokens":9`, `"temperature":1.5`, `"reasoning":{"effort":"low"}`, `"user":"u"`, `"store":false`,
		`"text":{"format":{"name":"s","schema":{"type":"object"},"strict":true,"type":"json_schema"},"verbosity":"low"}`,
		`{"cache_control":{"type":"ephemeral"},"name":"f","parameters":{"type":"object"},"type":"function"}`, `"tool_choice":{"name":"f","type":"function"}`,
		`"parallel_tool_calls":false`, `{"type":"message","role":"system","content":[{"type":"input_text","text":"rules"}]}`,
		`{"type":"input_text","text":"look","cache_control":{"type":"ephemeral"}}`, `{"type":"input_image","image_url":"data:image/png;base64,AA","detail":"low"}`,
		`{"type":"input_file","file_data":"QQ==","filename":"a.txt"}`, `{"type":"function_call","call_id":"c1","name":"f","arguments":"{}","status":"completed"}`,
		`{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"seen"}]}`,
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"fine","annotations":[]}]}`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s is not in\n%s", want, raw)
		}
	}
}

// Tools of the server's are refused with the door at which they work.
func TestServerToolsAreRefusedWithTheirDoor(t *testing.T) {
	url := open(t, &fakeAgent{}, time.Minute)
	for tool, door := range map[string]string{"openrouter:bash": "/v1/messages", "hardshell:bash": "/v1/messages", "shell": "/v1/responses"} {
		res, text := post(t, url, `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"`+tool+`"}]}`)
		if res.StatusCode != 400 || !strings.Contains(text, tool) || !strings.Contains(text, door) || !strings.Contains(text, "tools[0].type") {
			t.Errorf("%s: %d %s", tool, res.StatusCode, text)
		}
	}
}

func TestRefusals(t *testing.T) {
	url := open(t, &fakeAgent{}, time.Minute)
	for _, c := range []struct{ more, param string }{
		{`"n":2`, "n"}, {`"logprobs":true`, "logprobs"}, {`"presence_penalty":0.5`, "presence_penalty"}, {`"frequency_penalty":-1`, "frequency_penalty"},
		{`"logit_bias":{"1":2}`, "logit_bias"}, {`"functions":[{}]`, "functions"}, {`"modalities":["text","audio"]`, "modalities"},
		{`"stop":["a","b","c","d","e"]`, "stop"}, {`"tools":[{"type":"custom"}]`, "tools[0].type"}, {`"tool_choice":{"type":"allowed_tools"}`, "tool_choice"},
		{`"messages":[]`, "messages"}, {`"messages":[{"role":"robot","content":"a"}]`, "messages[0].role"}, {`"messages":[{"role":"tool","content":"a"}]`, "messages[0].tool_call_id"},
		{`"messages":[{"role":"user","content":[{"type":"input_audio"}]}]`, "messages[0].content[0].type"},
		{`"messages":[{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"x"}}]}]`, "messages[0].content[0].type"},
		{`"temperature":"hot"`, "temperature"},
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"hi"}],` + c.more + `}`
		if res, text := post(t, url, body); res.StatusCode != 400 || !strings.Contains(text, `"Param":"`+c.param) {
			t.Errorf("%s: %d %s", c.more, res.StatusCode, text)
		}
	}
	for _, body := range []string{``, `[]`, `{"model":`} {
		if res, text := post(t, url, body); res.StatusCode != 400 {
			t.Errorf("%s: %d %s", body, res.StatusCode, text)
		}
	}
}
