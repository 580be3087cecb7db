package openai

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/response"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestABackgroundResponseIsAcceptedAtOnce(t *testing.T) {
	h := open(t, 0)
	h.agent.run = newRun() // never ends
	res, body := h.do(t, "POST", "/v1/responses", []byte(`{"model":"m","input":"hi","background":true}`), nil)
	if res.StatusCode != http.StatusOK || !strings.Contains(body, `"status":"queued"`) || !strings.Contains(body, `"resp_1"`) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	select {
	case <-h.agent.run.cancelled:
		t.Error("it was cancelled when its answer was sent")
	default:
	}
}

func TestAClientThatGoesAwayLeavesABackgroundResponseAlone(t *testing.T) {
	h := open(t, 0)
	h.agent.run = newRun()
	h.agent.run.play(0, wire.EventCreated, wire.EventQueued)
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", h.url+"/v1/responses", bytes.NewReader([]byte(`{"model":"m","input":"hi","background":true,"stream":true}`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+keyOne)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if _, err := res.Body.Read(buf); err != nil {
		t.Fatal(err)
	}
	hangUp()
	res.Body.Close()
	// Another reader, and the end: the server has noticed by then that the first is gone.
	h.responses.runs["resp_1"] = h.agent.run
	h.agent.run.play(2, wire.EventCompleted)
	close(h.agent.run.frames)
	if _, body := h.do(t, "GET", "/v1/responses/resp_1?stream=true&starting_after=1", nil, nil); !strings.Contains(body, "[DONE]") {
		t.Errorf("%s", body)
	}
	select {
	case <-h.agent.run.cancelled:
		t.Error("the run was cancelled")
	default:
	}
}

func key(values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header["Idempotency-Key"] = values }
}

func TestAKeyNamesOneRequest(t *testing.T) {
	h := open(t, 0)
	body := []byte(`{"model":"m","input":"hi"}`)
	h.agent.run = newRun()
	close(h.agent.run.frames)
	if res, text := h.do(t, "POST", "/v1/responses", body, key("k1")); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	first := h.agent.last
	if first.Key != "k1" || len(first.Digest) != 64 {
		t.Fatalf("the agent got key %q, digest %q", first.Key, first.Digest)
	}
	h.responses.keys = map[string][2]string{"one k1": {first.Digest, "resp_1"}}
	h.responses.runs["resp_1"] = h.agent.run
	h.agent.last = nil
	for name, form := range map[string]string{"whole": string(body), "stream": string(body)} {
		res, text := h.do(t, "POST", "/v1/responses", []byte(form), key("k1"))
		if res.StatusCode != 200 || !strings.Contains(text, "resp_1") || h.agent.last != nil {
			t.Errorf("%s again: %d %s; created %v", name, res.StatusCode, text, h.agent.last != nil)
		}
	}
	res, text := h.do(t, "POST", "/v1/responses", []byte(`{"model":"m","input":"other"}`), key("k1"))
	if res.StatusCode != 400 || errorOf(t, text).code != "idempotency_key_reused" || res.Header.Get("X-Should-Retry") != "false" || h.agent.last != nil {
		t.Errorf("another body: %d %s", res.StatusCode, text)
	}
	// Another organisation's is another key.
	h.do(t, "POST", "/v1/responses", body, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+keyTwo)
		key("k1")(r)
	})
	if h.agent.last == nil {
		t.Error("the key of another organisation was taken for its own")
	}
}

// What failed before it did anything may be tried again, but not under its name: that is this failure's.
func TestAKeyOfAFailureIsNotTriedAgain(t *testing.T) {
	h := open(t, 0)
	body := []byte(`{"model":"m","input":"hi"}`)
	h.agent.run = newRun()
	h.agent.run.final.Status = wire.Failed
	h.agent.run.final.Error = &wire.ResponseError{Code: "rate_limit_exceeded", Message: "Slow down."}
	close(h.agent.run.frames)
	res, text := h.do(t, "POST", "/v1/responses", body, key("k1"))
	if res.StatusCode != 429 || res.Header.Get("X-Should-Retry") != "" {
		t.Fatalf("at first: %d %s, retry %q", res.StatusCode, text, res.Header.Get("X-Should-Retry"))
	}
	h.responses.keys = map[string][2]string{"one k1": {h.agent.last.Digest, "resp_1"}}
	h.responses.runs["resp_1"] = h.agent.run
	h.agent.last = nil
	res, text = h.do(t, "POST", "/v1/responses", body, key("k1"))
	if res.StatusCode != 429 || res.Header.Get("X-Should-Retry") != "false" || h.agent.last != nil {
		t.Errorf("again: %d %s, retry %q, created %v", res.StatusCode, text, res.Header.Get("X-Should-Retry"), h.agent.last != nil)
	}
}

func TestAKeyThatIsTakenInBetween(t *testing.T) {
	h := open(t, 0)
	run := newRun()
	close(run.frames)
	h.responses.runs["resp_1"] = run
	h.agent.err = fault.New(fault.Conflict, "taken").WithCode(response.CodeKeyTaken)
	res, text := h.do(t, "POST", "/v1/responses", []byte(`{"model":"m","input":"hi"}`), key("k1"))
	if res.StatusCode != 409 { // the other one has vanished again
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

func TestABadKeyIsRefused(t *testing.T) {
	h := open(t, 0)
	h.agent.run = newRun()
	for name, k := range map[string][]string{"empty": {""}, "two": {"a", "b"}, "long": {strings.Repeat("k", 256)}, "not plain": {"ü"}} {
		res, text := h.do(t, "POST", "/v1/responses", []byte(`{"model":"m","input":"hi"}`), key(k...))
		if res.StatusCode != 400 || errorOf(t, text).param != "Idempotency-Key" {
			t.Errorf("%s: %d %s", name, res.StatusCode, text)
		}
	}
}
