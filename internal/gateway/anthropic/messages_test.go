package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/sse"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

var used = &openai.Usage{InputTokens: 100, OutputTokens: 20, InputTokensDetails: openai.InputDetails{CachedTokens: 30, CacheWriteTokens: 20},
	OutputTokensDetails: openai.OutputDetails{ReasoningTokens: 4}}

var seal = llm.Seal{Dialect: "test", Provider: "p"}

// plays are answers, and what is asked beside hello.
var plays = []struct {
	name, more string
	play       func(*player)
}{
	{"text", ``, func(p *player) {
		p.turn(func(t *llm.Turn) { t.Text([]byte("Hello ")); t.Text([]byte("<you>")); t.Complete(nil) })
		p.end(openai.Completed, "", used)
	}},
	{"nothing", ``, func(p *player) {
		p.turn(func(t *llm.Turn) { t.Complete(nil) })
		p.end(openai.Completed, "", nil)
	}},
	{"thinking", `,"thinking":{"type":"adaptive"}`, func(p *player) {
		p.turn(func(t *llm.Turn) {
			t.Reasoning([]byte("Hm. "))
			t.Reasoning([]byte("Well."))
			t.Keep(seal, []byte(`{"a":1}`))
			t.Text([]byte("So."))
			t.Keep(seal, []byte(`{"b":2}`))
			t.Complete(nil)
		})
		p.end(openai.Completed, "", used)
	}},
	{"thinking_unasked", ``, func(p *player) {
		p.turn(func(t *llm.Turn) { t.Reasoning([]byte("Hm.")); t.Text([]byte("So.")); t.Complete(nil) })
		p.end(openai.Completed, "", used)
	}},
	{"tools", `,"tools":[{"name":"f","input_schema":{"type":"object"}}]`, func(p *player) {
		p.turn(func(t *llm.Turn) {
			t.Text([]byte("Calling."))
			a := t.Call("f")
			b := t.Call("f")
			b.Write(`{"n":`)
			a.Write(`{"m":1}`)
			b.Write(`2}`)
			t.Call("f")
			t.Complete(nil)
		})
		p.end(openai.Completed, "", used)
	}},
	{"bash", ``, func(p *player) {
		p.turn(func(t *llm.Turn) { t.Text([]byte("I look.")); t.Complete(nil) })
		p.shell("sh_1", []string{"ls", "false"}, false)
		p.object.ContainerID = "cntr_1"
		p.turn(func(t *llm.Turn) { t.Text([]byte("There.")); t.Complete(nil) })
		p.end(openai.Completed, "", used)
	}},
	{"bash_mixed", `,"tools":[{"name":"f","input_schema":{"type":"object"}}]`, func(p *player) {
		p.turn(func(t *llm.Turn) { t.Call("f").Write("{}"); t.Complete(nil) })
		p.shell("sh_1", []string{"ls"}, true)
		p.end(openai.Completed, "", used)
	}},
	{"stopped", `,"stop_sequences":["END","now!"]`, func(p *player) {
		p.turn(func(t *llm.Turn) {
			t.Text([]byte("It is n"))
			t.Text([]byte("ow EN"))
			t.Text([]byte("D of it"))
			t.Complete(nil)
		})
		p.end(openai.Completed, "", used)
	}},
	{"almost_stopped", `,"stop_sequences":["END"]`, func(p *player) {
		p.turn(func(t *llm.Turn) { t.Text([]byte("EN")); t.Text([]byte("E EN")); t.Complete(nil) })
		p.end(openai.Completed, "", used)
	}},
	{"length", ``, func(p *player) {
		p.turn(func(t *llm.Turn) { t.Text([]byte("Long")); t.Stop(openai.ReasonMaxOutputTokens, nil) })
		p.end(openai.Incomplete, openai.ReasonMaxOutputTokens, used)
	}},
	{"refused", ``, func(p *player) {
		p.turn(func(t *llm.Turn) { t.Refusal([]byte("No.")); t.Stop(openai.ReasonContentFilter, nil) })
		p.end(openai.Incomplete, openai.ReasonContentFilter, used)
	}},
	{"paused", ``, func(p *player) {
		p.shell("sh_1", []string{"ls"}, false)
		p.end(openai.Incomplete, openai.ReasonMaxMessages, used)
	}},
}

// shell plays a call of the server's bash. What the commands print is what they are.
func (p *player) shell(id string, commands []string, late bool) {
	call := openai.ShellCall{Type: openai.TypeShellCall, ID: id, CallID: "call_" + id, Status: openai.InProgress, Action: openai.ShellAction{Commands: []string{}}}
	at := p.places
	p.places += 2
	p.emit(openai.NewItemEvent(openai.EventItemAdded, at, openai.NewItem(call)))
	for i, c := range commands {
		p.emit(openai.NewCommand(openai.EventCommandAdded, at, i, ""))
		p.emit(openai.NewCommand(openai.EventCommandDone, at, i, c))
	}
	out := openai.ShellCallOutput{Type: openai.TypeShellCallOutput, ID: "sho_" + id, CallID: call.CallID, Status: openai.InProgress, Output: []openai.ShellOutput{}}
	p.emit(openai.NewItemEvent(openai.EventItemAdded, at+1, openai.NewItem(out)))
	call.Status, call.Action.Commands = openai.Completed, commands
	p.emit(openai.NewItemEvent(openai.EventItemDone, at, openai.NewItem(call)))
	for i, c := range commands {
		code := 0
		if c == "false" {
			code = 1
		}
		e := openai.ShellOutput{Stdout: c + "\n", Outcome: openai.Exit(code)}
		p.emit(&openai.OutputDeltaEvent{Head: openai.Head{Type: openai.EventOutputDelta}, ItemID: out.ID, OutputIndex: at + 1, CommandIndex: i, Delta: openai.OutputDelta{Stdout: c}})
		p.emit(&openai.OutputDoneEvent{Head: openai.Head{Type: openai.EventOutputDone}, ItemID: out.ID, OutputIndex: at + 1, CommandIndex: i, Output: []openai.ShellOutput{e}})
		out.Output = append(out.Output, e)
	}
	out.Status, out.OutputFiles = openai.Completed, []openai.OutputFile{{FileID: "cfile_1"}}
	p.emit(openai.NewItemEvent(openai.EventItemDone, at+1, openai.NewItem(out)))
	p.object.Output = append(p.object.Output, openai.NewItem(call), openai.NewItem(out))
}

// The stream of every answer is what its golden says, and an answer in one piece is that stream put together.
func TestAnswers(t *testing.T) {
	for _, c := range plays {
		t.Run(c.name, func(t *testing.T) {
			h := open(t, time.Minute)
			h.agent.play = c.play
			body := strings.TrimSuffix(hello, "}") + c.more
			res, text := h.do(t, "POST", "/v1/messages", body+`,"stream":true}`, nil)
			if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") || res.Header.Get("Request-Id") == "" {
				t.Fatalf("%d %v %s", res.StatusCode, res.Header, text)
			}
			golden := "testdata/" + c.name + ".sse"
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || text != string(want) {
				t.Errorf("%s: %v\n%s", golden, err, text)
			}
			checkOrder(t, text)
			res, whole := h.do(t, "POST", "/v1/messages", body+`}`, nil)
			if res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, whole)
			}
			if got, want := compact(t, whole), together(t, text); got != want {
				t.Errorf("in one piece\n%s\nthe stream put together\n%s", got, want)
			}
		})
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	raw, _ := wire.Marshal(v)
	return string(raw)
}

// events reads a stream.
func events(t *testing.T, text string) (out []wire.Event) {
	t.Helper()
	r := sse.NewReader(strings.NewReader(text))
	for {
		f, err := r.Next()
		if err != nil {
			return out
		}
		var ev wire.Event
		if err := json.Unmarshal(f.Data, &ev); err != nil || ev.Type != f.Name {
			t.Fatalf("event %q: %v %s", f.Name, err, f.Data)
		}
		out = append(out, ev)
	}
}

// checkOrder holds the vendor's order: one block after the other, from 0, between the message's beginning and its end.
func checkOrder(t *testing.T, text string) {
	t.Helper()
	state, next := "before", 0
	for i, ev := range events(t, text) {
		was := state
		switch ev.Type {
		case wire.EventPing:
			continue
		case wire.EventMessageStart:
			state = map[string]string{"before": "between"}[state]
		case wire.EventBlockStart:
			state = map[string]string{"between": "in"}[state]
			if ev.Index != next {
				t.Errorf("block %d begins as %d", next, ev.Index)
			}
		case wire.EventBlockDelta:
			state = map[string]string{"in": "in"}[state]
		case wire.EventBlockStop:
			state = map[string]string{"in": "between"}[state]
			next++
		case wire.EventMessageDelta:
			state = map[string]string{"between": "ending"}[state]
		case wire.EventMessageStop:
			state = map[string]string{"ending": "over"}[state]
		}
		if state == "" {
			t.Fatalf("event %d: %s in the state %s:\n%s", i, ev.Type, was, text)
		}
	}
	if state != "over" {
		t.Errorf("the stream ends in the state %s", state)
	}
}

// together does what the vendor's SDKs do to a stream.
func together(t *testing.T, text string) string {
	t.Helper()
	var m struct {
		wire.Response
		Content []map[string]any `json:"content"`
	}
	inputs := map[int]string{}
	for _, ev := range events(t, text) {
		switch ev.Type {
		case wire.EventMessageStart:
			m.Response = *ev.Message
			m.Content = []map[string]any{}
		case wire.EventBlockStart:
			var b map[string]any
			if err := json.Unmarshal(ev.ContentBlock.Raw, &b); err != nil {
				t.Fatal(err)
			}
			if b["type"] == "text" {
				b["citations"] = nil
			}
			m.Content = append(m.Content, b)
		case wire.EventBlockDelta:
			b := m.Content[ev.Index]
			switch ev.Delta.Type {
			case wire.DeltaText:
				b["text"] = b["text"].(string) + ev.Delta.Text
			case wire.DeltaThinking:
				b["thinking"] = b["thinking"].(string) + ev.Delta.Thinking
			case wire.DeltaSignature:
				b["signature"] = ev.Delta.Signature
			case wire.DeltaInput:
				inputs[ev.Index] += ev.Delta.PartialJSON
			}
		case wire.EventBlockStop:
			if in, ok := inputs[ev.Index]; ok {
				m.Content[ev.Index]["input"] = json.RawMessage(in)
			}
		case wire.EventMessageDelta:
			m.StopReason, m.StopSequence, m.Container = ev.Delta.StopReason, ev.Delta.StopSequence, ev.Delta.Container
			ev.Usage.Apply(&m.Usage)
		}
	}
	raw, err := wire.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return compact(t, string(raw))
}

// The run behind a stop sequence is ended: nothing that it would do is wanted.
func TestAStopSequenceEndsTheRun(t *testing.T) {
	h := open(t, time.Minute)
	h.agent.play = func(p *player) {
		p.turn(func(t *llm.Turn) { t.Text([]byte("a STOP b")) })
	}
	h.agent.hold = true
	res, text := h.do(t, "POST", "/v1/messages", strings.TrimSuffix(hello, "}")+`,"stop_sequences":["STOP"]}`, nil)
	var m wire.Response
	if err := json.Unmarshal([]byte(text), &m); err != nil || res.StatusCode != 200 || m.Content.Text() != "a " ||
		*m.StopReason != wire.StopSequence || m.StopSequence == nil || *m.StopSequence != "STOP" || m.Usage.OutputTokens < 1 {
		t.Errorf("%v %d %s", err, res.StatusCode, text)
	}
	select {
	case <-h.agent.run.cancelled:
	case <-time.After(patient):
		t.Error("the run goes on")
	}
}

// An answer that fails before it says anything is an HTTP error, streaming or not; later it is an event.
func TestFailures(t *testing.T) {
	said := func(p *player) {
		p.turn(func(t *llm.Turn) { t.Text([]byte("Let me")); t.End() })
	}
	for _, c := range []struct {
		name   string
		play   func(*player)
		status int
		typ    string
		retry  string
	}{
		{"a rate limit", func(p *player) { p.end(openai.Failed, "rate_limit_exceeded", nil) }, 429, wire.ErrorRateLimit, ""},
		{"overloaded", func(p *player) { p.end(openai.Failed, "unavailable", nil) }, 529, wire.ErrorOverloaded, ""},
		{"the provider", func(p *player) { p.end(openai.Failed, "server_error", nil) }, 502, wire.ErrorAPI, "false"},
		{"the log", func(p *player) { p.failure = errors.New("disk 7") }, 500, wire.ErrorAPI, "false"},
		{"the server stops", func(p *player) { p.end(openai.Cancelled, "", nil) }, 529, wire.ErrorOverloaded, ""},
		{"after words", func(p *player) { said(p); p.end(openai.Failed, "rate_limit_exceeded", nil) }, 429, wire.ErrorRateLimit, "false"},
	} {
		h := open(t, time.Minute)
		h.agent.play = c.play
		res, text := h.do(t, "POST", "/v1/messages", hello, nil)
		if e := refusal(t, res, text); res.StatusCode != c.status || e.Type != c.typ || res.Header.Get("X-Should-Retry") != c.retry {
			t.Errorf("%s: %d %q %s", c.name, res.StatusCode, res.Header.Get("X-Should-Retry"), text)
		}
		if strings.Contains(text, "disk 7") {
			t.Errorf("%s: the cause got out: %s", c.name, text)
		}
		res, text = h.do(t, "POST", "/v1/messages", strings.TrimSuffix(hello, "}")+`,"stream":true}`, nil)
		if c.name != "after words" {
			if e := refusal(t, res, text); res.StatusCode != c.status || e.Type != c.typ {
				t.Errorf("%s, streaming: %d %s", c.name, res.StatusCode, text)
			}
			continue
		}
		all := events(t, text)
		last := all[len(all)-1]
		if res.StatusCode != 200 || last.Type != wire.EventError || last.Error.Type != c.typ || !strings.Contains(text, res.Header.Get("Request-Id")) {
			t.Errorf("%s, streaming: %s", c.name, text)
		}
	}
}

func TestTheAgentsRefusals(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		typ    string
	}{
		{fault.New(fault.Invalid, "no"), 400, wire.ErrorInvalidRequest},
		{fault.New(fault.Unsupported, "no"), 400, wire.ErrorInvalidRequest},
		{fault.New(fault.Invalid, "no").WithCode("model_not_found"), 404, wire.ErrorNotFound},
		{fault.New(fault.Unauthenticated, "no"), 401, wire.ErrorAuthentication},
		{fault.New(fault.Forbidden, "no"), 403, wire.ErrorPermission},
		{fault.New(fault.NotFound, "no"), 404, wire.ErrorNotFound},
		{fault.New(fault.Expired, "no"), 404, wire.ErrorNotFound},
		{fault.New(fault.Conflict, "no"), 409, wire.ErrorInvalidRequest},
		{fault.New(fault.TooLarge, "no"), 413, wire.ErrorTooLarge},
		{fault.New(fault.RateLimited, "no"), 429, wire.ErrorRateLimit},
		{fault.New(fault.Internal, "no"), 500, wire.ErrorAPI},
		{fault.New(fault.Upstream, "no"), 502, wire.ErrorAPI},
		{fault.New(fault.Isolation, "no"), 503, wire.ErrorAPI},
		{fault.New(fault.Unavailable, "no"), 529, wire.ErrorOverloaded},
	} {
		h := open(t, time.Minute)
		h.agent.err = c.err
		res, text := h.do(t, "POST", "/v1/messages", hello, nil)
		if e := refusal(t, res, text); res.StatusCode != c.status || e.Type != c.typ || e.Message != "no" {
			t.Errorf("%v: %d %s", c.err, res.StatusCode, text)
		}
	}
	for status, typ := range map[int]string{402: wire.ErrorBilling, 504: wire.ErrorTimeout} {
		if got := typeOf(status); got != typ {
			t.Errorf("%d is a %s", status, got)
		}
	}
}

// In silence there are pings, behind the message's beginning, and a client that goes away ends the run.
func TestPingsAndHangingUp(t *testing.T) {
	h := open(t, 20*time.Millisecond)
	h.agent.hold = true
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", h.url+"/api/v1/messages", bytes.NewReader([]byte(strings.TrimSuffix(hello, "}")+`,"stream":true}`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+keyOne)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := sse.NewReader(res.Body)
	var seen []string
	for len(seen) < 3 {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, f.Name)
	}
	if got := strings.Join(seen, " "); got != "message_start ping ping" {
		t.Errorf("in silence there came %s", got)
	}
	res.Body.Close()
	select {
	case <-h.agent.run.cancelled:
	case <-time.After(patient):
		t.Error("the run of a client that hung up goes on")
	}
}
