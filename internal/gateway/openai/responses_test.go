package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestCreateRefusesBadBodies(t *testing.T) {
	h := open(t, time.Minute)
	h.agent.err = fault.New(fault.Internal, "a bad body reached the agent")
	for _, c := range []struct{ name, body, code, param string }{
		{"empty", ``, "invalid_body", ""},
		{"blank", "  \n", "invalid_body", ""},
		{"not JSON", `model=x`, "invalid_body", ""},
		{"cut", `{"model":"x"`, "invalid_body", ""},
		{"array", `[{"model":"x"}]`, "invalid_body", ""},
		{"null", `null`, "invalid_body", ""},
		{"string", `"x"`, "invalid_body", ""},
		{"trailing garbage", `{"model":"x"} x`, "invalid_body", ""},
		{"two objects", `{"model":"x"}{"model":"y"}`, "invalid_body", ""},
		{"model is a number", `{"model":5}`, "invalid_type", "model"},
		{"input is a number", `{"model":"x","input":5}`, "invalid_type", "input"},
		{"an input item is a number", `{"model":"x","input":[{"role":"user","content":"a"},7]}`, "invalid_type", "input[1]"},
		{"an item's role", `{"model":"x","input":[{"role":"user","content":"a"},{"role":true}]}`, "invalid_type", "input[1].role"},
		{"stream is a string", `{"model":"x","stream":"yes"}`, "invalid_type", "stream"},
		{"store is a number", `{"model":"x","store":1}`, "invalid_type", "store"},
		{"temperature is a string", `{"model":"x","temperature":"hot"}`, "invalid_type", "temperature"},
		{"max_output_tokens is a fraction", `{"model":"x","max_output_tokens":1.5}`, "invalid_type", "max_output_tokens"},
		{"metadata value is a number", `{"model":"x","metadata":{"a":1}}`, "invalid_type", "metadata"},
		{"tools is an object", `{"model":"x","tools":{}}`, "invalid_type", "tools"},
		{"a tool's type", `{"model":"x","tools":[{"type":"shell"},{"type":3}]}`, "invalid_type", "tools[1].type"},
		{"a tool's environment", `{"model":"x","tools":[{"type":"shell","environment":{"type":"container_auto","file_ids":"f"}}]}`, "invalid_type", "tools[0].environment.file_ids"},
	} {
		res, body := h.do(t, "POST", "/v1/responses", []byte(c.body), nil)
		e := errorOf(t, body)
		if res.StatusCode != 400 || e.code != c.code || e.param != c.param || e.typ != "invalid_request_error" {
			t.Errorf("%s: %d %s; want 400 %s param %q", c.name, res.StatusCode, body, c.code, c.param)
		}
		if strings.Contains(e.message, "openai.") || strings.Contains(e.message, "Go ") {
			t.Errorf("%s: the message speaks Go: %s", c.name, e.message)
		}
	}
	if h.agent.last != nil {
		t.Error("a bad body reached the agent")
	}
	res, body := h.do(t, "POST", "/v1/responses", []byte(`{"model":"`+strings.Repeat("x", 1<<20)+`"}`), nil)
	if res.StatusCode != 413 || errorOf(t, body).code != "request_too_large" {
		t.Errorf("oversized: %d %s", res.StatusCode, body)
	}
}

func TestCreateHandsTheRequestOn(t *testing.T) {
	h := open(t, time.Minute)
	h.agent.run = newRun()
	close(h.agent.run.frames)
	body := `{"model":"m","input":"hi","background":null,"stream":false,"made_up":{"x":1}}`
	res, text := h.do(t, "POST", "/api/v1/responses", []byte(body), nil)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	var got wire.Response
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.ID != "resp_1" || got.Status != wire.Completed {
		t.Errorf("answer %s: %v", text, err)
	}
	if string(h.agent.last.Raw) != body || h.agent.last.Model != "m" || len(h.agent.last.Input) != 1 {
		t.Errorf("the agent got %+v", h.agent.last)
	}
}

func TestCreateShowsTheAgentsRefusal(t *testing.T) {
	h := open(t, time.Minute)
	h.agent.err = fault.New(fault.Unsupported, "This tool is not served.").WithParam("tools[0].type").WithCode("unsupported_tool").WithTry("the shell tool")
	res, body := h.do(t, "POST", "/v1/responses", []byte(`{"model":"m","stream":true}`), nil)
	e := errorOf(t, body)
	if res.StatusCode != 400 || e.param != "tools[0].type" || e.message != "This tool is not served. Try: the shell tool" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res.Header.Get("X-Should-Retry") != "" {
		t.Error("nothing ran, and the client is told not to try again")
	}
}

func TestFailedWithoutOutputIsAnHTTPError(t *testing.T) {
	item := wire.UserText("done so far")
	for _, c := range []struct {
		code   string
		output []wire.Item
		status int
	}{
		{"server_error", []wire.Item{}, 502}, // the gateway's own key was refused, or the provider is down
		{"invalid_prompt", []wire.Item{}, 502},
		{"model_not_found", []wire.Item{}, 502},
		{"insufficient_quota", []wire.Item{}, 502},
		{"rate_limit_exceeded", []wire.Item{}, 429},
		{"server_error", []wire.Item{item}, 200},
	} {
		h := open(t, time.Minute)
		h.agent.run = newRun()
		h.agent.run.final.Status = wire.Failed
		h.agent.run.final.Error = &wire.ResponseError{Code: c.code, Message: "The model's provider failed."}
		h.agent.run.final.Output = c.output
		close(h.agent.run.frames)
		res, body := h.do(t, "POST", "/v1/responses", []byte(`{"model":"m"}`), nil)
		if res.StatusCode != c.status {
			t.Errorf("%s with %d items: %d %s, want %d", c.code, len(c.output), res.StatusCode, body, c.status)
		}
		if c.status != 200 && errorOf(t, body).code != c.code {
			t.Errorf("%s: %s", c.code, body)
		}
		if forbidden := res.Header.Get("X-Should-Retry") == "false"; forbidden != (c.status == 502) {
			t.Errorf("%s: %d with X-Should-Retry %q", c.code, res.StatusCode, res.Header.Get("X-Should-Retry"))
		}
	}
}

func TestFailureAfterTheStartForbidsARetry(t *testing.T) {
	for _, stream := range []bool{false, true} {
		h := open(t, time.Minute)
		h.agent.run = newRun()
		h.agent.run.failure = fault.Wrap(fault.Unavailable, errBroken, "The response could not be stored.")
		close(h.agent.run.frames)
		res, body := h.do(t, "POST", "/v1/responses", fmt.Appendf(nil, `{"model":"m","stream":%t}`, stream), nil)
		if res.StatusCode != 503 || res.Header.Get("X-Should-Retry") != "false" || strings.Contains(body, "disk 7") {
			t.Errorf("stream %t: %d retry=%q %s", stream, res.StatusCode, res.Header.Get("X-Should-Retry"), body)
		}
		if res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("stream %t: type %q", stream, res.Header.Get("Content-Type"))
		}
	}
}

func TestRetrieveDeleteCancel(t *testing.T) {
	h := open(t, time.Minute)
	run := newRun()
	h.responses.runs["resp_1"] = run
	if res, body := h.do(t, "GET", "/v1/responses/resp_1?include[]=reasoning.encrypted_content", nil, nil); res.StatusCode != 200 || !strings.Contains(body, `"id":"resp_1"`) {
		t.Errorf("retrieve: %d %s", res.StatusCode, body)
	}
	res, body := h.do(t, "POST", "/v1/responses/resp_1/cancel", nil, nil)
	if res.StatusCode != 400 || errorOf(t, body).code != "response_not_background" {
		t.Errorf("cancel of a foreground response: %d %s", res.StatusCode, body)
	}
	run.final.Background = true
	for range 2 {
		if res, body := h.do(t, "POST", "/v1/responses/resp_1/cancel", nil, nil); res.StatusCode != 200 {
			t.Errorf("cancel: %d %s", res.StatusCode, body)
		}
	}
	if _, body := h.do(t, "DELETE", "/v1/responses/resp_1", nil, nil); body != `{"id":"resp_1","object":"response","deleted":true}`+"\n" {
		t.Errorf("delete: %s", body)
	}
	for _, q := range []string{"stream=maybe", "stream=true&starting_after=x", "stream=true&starting_after=-1", "starting_after=1.5"} {
		res, body := h.do(t, "GET", "/v1/responses/resp_1?"+q, nil, nil)
		if res.StatusCode != 400 || errorOf(t, body).param == "" {
			t.Errorf("%s: %d %s", q, res.StatusCode, body)
		}
	}
}

func TestInputItemsPages(t *testing.T) {
	h := open(t, time.Minute)
	h.responses.runs["resp_1"] = newRun()
	for i := range 30 {
		h.responses.items = append(h.responses.items, wire.Item{Type: "message", ID: fmt.Sprint("msg_", i), Raw: fmt.Appendf(nil, `{"id":"msg_%d"}`, i)})
	}
	for _, c := range []struct {
		query       string
		first, last string
		n           int
		more        bool
	}{
		{"", "msg_29", "msg_10", 20, true},
		{"after=msg_10", "msg_9", "msg_0", 10, false},
		{"order=asc&limit=2", "msg_0", "msg_1", 2, true},
		{"order=asc&limit=2&after=msg_28", "msg_29", "msg_29", 1, false},
		{"order=asc&after=msg_29", "", "", 0, false},
	} {
		_, body := h.do(t, "GET", "/v1/responses/resp_1/input_items?"+c.query, nil, nil)
		var l wire.List[wire.Item]
		if err := json.Unmarshal([]byte(body), &l); err != nil {
			t.Fatal(err)
		}
		first, last := "", ""
		if l.FirstID != nil {
			first, last = *l.FirstID, *l.LastID
		}
		if first != c.first || last != c.last || len(l.Data) != c.n || l.HasMore != c.more {
			t.Errorf("%q: %s..%s %d more=%t, want %+v", c.query, first, last, len(l.Data), l.HasMore, c)
		}
	}
	for _, q := range []string{"limit=0", "limit=101", "limit=x", "order=up", "after=msg_77"} {
		res, body := h.do(t, "GET", "/v1/responses/resp_1/input_items?"+q, nil, nil)
		if param, _, _ := strings.Cut(q, "="); res.StatusCode != 400 || errorOf(t, body).param != param {
			t.Errorf("%s: %d %s", q, res.StatusCode, body)
		}
	}
}

func TestModels(t *testing.T) {
	h := open(t, time.Minute)
	if _, body := h.do(t, "GET", "/v1/models", nil, nil); !strings.HasPrefix(body, `{"object":"list","data":[{"id":"scripted/scripted","object":"model","created":0,"owned_by":"scripted"}`) {
		t.Errorf("list: %s", body)
	}
	for path, want := range map[string]string{
		"scripted/scripted": "scripted/scripted", "scripted%2Fscripted": "scripted/scripted", "scripted": "scripted/scripted",
		"a/shared": "a/shared", "shared": "", "b/deep/name": "b/deep/name", "deep/name": "b/deep/name", "none": "",
	} {
		res, body := h.do(t, "GET", "/v1/models/"+path, nil, nil)
		if want == "" {
			if res.StatusCode != http.StatusNotFound || errorOf(t, body).code != "model_not_found" {
				t.Errorf("%s: %d %s", path, res.StatusCode, body)
			}
		} else if !strings.Contains(body, fmt.Sprintf(`"id":%q`, want)) {
			t.Errorf("%s: %d %s, want %s", path, res.StatusCode, body, want)
		}
	}
}
