package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/cli"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// endpoint is a Responses endpoint of somebody else's: it answers each request with the next of its scripted outputs.
type endpoint struct {
	*httptest.Server
	t       *testing.T
	outputs []string // the items of each response, as a JSON list
	refuses string   // a type of tool that it does not know
	hangs   chan struct{}

	mu   sync.Mutex
	seen []map[string]any // the requests
}

func newEndpoint(t *testing.T, outputs ...string) *endpoint {
	e := &endpoint{t: t, outputs: outputs, hangs: make(chan struct{}, 1)}
	e.Server = httptest.NewServer(e)
	t.Cleanup(func() { e.CloseClientConnections(); e.Close() })
	return e
}

// ServeHTTP is POST and GET of /v1/responses, in the vendor's shape.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer key" {
		http.Error(w, `{"error":{"message":"no key"}}`, http.StatusUnauthorized)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	response := func(n int, status string) map[string]any {
		output := json.RawMessage(`[]`)
		if status == "completed" {
			output = json.RawMessage(e.outputs[n])
		}
		return map[string]any{"id": fmt.Sprintf("resp_%d", n), "object": "response", "model": "m", "status": status, "output": output}
	}
	if r.Method == http.MethodGet {
		json.NewEncoder(w).Encode(response(0, "completed"))
		return
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, `{"error":{"message":"no JSON"}}`, http.StatusBadRequest)
		return
	}
	tools, _ := json.Marshal(body["tools"])
	if e.refuses != "" && bytes.Contains(tools, []byte(e.refuses)) {
		http.Error(w, fmt.Sprintf(`{"error":{"message":"The tool %s is not known.","type":"invalid_request_error"}}`, e.refuses), http.StatusBadRequest)
		return
	}
	n := len(e.seen)
	e.seen = append(e.seen, body)
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(typ string, event map[string]any) {
		event["type"] = typ
		raw, _ := json.Marshal(event)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", typ, raw)
		w.(http.Flusher).Flush()
	}
	send("response.created", map[string]any{"response": response(min(n, len(e.outputs)-1), "in_progress")})
	if n >= len(e.outputs) { // it thinks for ever
		e.hangs <- struct{}{}
		e.mu.Unlock()
		<-r.Context().Done()
		e.mu.Lock()
		return
	}
	var items []map[string]any
	if err := json.Unmarshal([]byte(e.outputs[n]), &items); err != nil {
		e.t.Error(err)
	}
	for i, item := range items {
		send("response.output_item.added", map[string]any{"output_index": i, "item": item})
		if item["type"] == "message" {
			send("response.output_text.delta", map[string]any{"output_index": i, "delta": item["content"].([]any)[0].(map[string]any)["text"]})
		}
		send("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	send("response.completed", map[string]any{"response": response(n, "completed")})
}

// request is what was asked the n-th time, as text.
func (e *endpoint) request(n int, key string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n >= len(e.seen) {
		e.t.Fatalf("only %d requests", len(e.seen))
	}
	raw, _ := json.Marshal(e.seen[n][key])
	return string(raw)
}

const bye = `[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Bye."}]}]`

// agent runs hardshell agent in a folder of its own.
func agent(t *testing.T, e *endpoint, work string, args ...string) (code int, out, said string) {
	t.Helper()
	home := t.TempDir()
	var stdout, stderr bytes.Buffer
	args = append([]string{"agent", "--url", e.URL + "/v1", "--model", "m", "--cwd", work}, args...)
	code = cli.Main(context.Background(), args, cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr},
		[]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "HARDSHELL_DATA=" + filepath.Join(home, "data"), "HARDSHELL_API_KEY=key"})
	return code, stdout.String(), stderr.String()
}

// The vendor's endpoint, as its guide describes it: calls without an environment and still in progress, several of them in
// a response, limits that have to come back, patches.
func TestAgentAtTheVendorsEndpoint(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	e := newEndpoint(t, `[
		{"type":"reasoning","id":"rs_1","summary":[]},
		{"type":"apply_patch_call","id":"apc_1","call_id":"call_p","status":"completed","operation":{"type":"create_file","path":"f","diff":"+one\n+two"}},
		{"type":"shell_call","id":"sh_1","call_id":"call_a","status":"in_progress","action":{"commands":["cat f","echo problem >&2; exit 3"],"timeout_ms":120000,"max_output_length":4096}},
		{"type":"shell_call","id":"sh_2","call_id":"call_b","status":"completed","action":{"commands":["echo begun; sleep 1000"],"timeout_ms":6000}}]`, bye)
	work := t.TempDir()
	code, out, said := agent(t, e, work, "do it")
	if code != 0 || out != "Bye.\n" {
		t.Fatalf("%d, %q\n%s", code, out, said)
	}
	for _, want := range []string{"» create_file f", "hardshell: Created f (2 lines).", "» cat f\n", "  one\n  two\n", "  problem\n", "hardshell: exit 3 · ", "hardshell: exit 124 (time ran out) · ",
		"go on    --previous resp_1"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if got := e.request(0, "tools"); got != `[{"environment":{"type":"local"},"type":"shell"},{"type":"apply_patch"}]` {
		t.Error(got)
	}
	if got := e.request(0, "instructions"); !strings.Contains(got, "Linux") || !strings.Contains(got, work) {
		t.Error(got)
	}
	if got := e.request(1, "previous_response_id"); got != `"resp_0"` {
		t.Error(got)
	}
	want := `[{"call_id":"call_p","output":"Created f (2 lines).","status":"completed","type":"apply_patch_call_output"},` +
		`{"call_id":"call_a","max_output_length":4096,"output":[{"outcome":{"exit_code":0,"type":"exit"},"stderr":"","stdout":"one\ntwo\n"},{"outcome":{"exit_code":3,"type":"exit"},"stderr":"problem\n","stdout":""}],"type":"shell_call_output"},` +
		`{"call_id":"call_b","output":[{"outcome":{"type":"timeout"},"stderr":"","stdout":"begun\n"}],"type":"shell_call_output"}]`
	if got := e.request(1, "input"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A server that knows no patches is asked without them, and the model has the shell.
func TestAgentWithoutPatches(t *testing.T) {
	e := newEndpoint(t, bye)
	e.refuses = "apply_patch"
	if code, out, said := agent(t, e, t.TempDir(), "hello"); code != 0 || out != "Bye.\n" || e.request(0, "tools") != `[{"environment":{"type":"local"},"type":"shell"}]` {
		t.Errorf("%d, %q, %s", code, out, said)
	}
	e = newEndpoint(t, bye)
	e.refuses = "shell"
	if code, _, said := agent(t, e, t.TempDir(), "hello"); code != 1 || !strings.Contains(said, "The tool shell is not known.") {
		t.Errorf("%d, %s", code, said)
	}
}

// Calls of an earlier turn that was ended are answered so, and not run.
func TestAgentGoesOnAfterAnEnd(t *testing.T) {
	e := newEndpoint(t, `[{"type":"shell_call","call_id":"call_a","status":"completed","action":{"commands":["touch made","touch made"],"max_output_length":5}},
		{"type":"apply_patch_call","call_id":"call_p","status":"completed","operation":{"type":"create_file","path":"made","diff":""}}]`, bye)
	e.seen = append(e.seen, nil) // the earlier request
	work := t.TempDir()
	code, out, said := agent(t, e, work, "--previous", "resp_0", "--json", "well?")
	if code != 0 || !strings.Contains(out, `"text":"Bye.","type":"end"`) {
		t.Fatalf("%d, %q\n%s", code, out, said)
	}
	got := e.request(1, "input")
	for _, want := range []string{`[{"call_id":"call_a","max_output_length":5,"output":[{"outcome":{"exit_code":130,"type":"exit"}`, `{"call_id":"call_p","output":"hardshell: The turn was ended`, `"role":"user"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if _, err := os.Stat(filepath.Join(work, "made")); err == nil {
		t.Error("a call of an ended turn was run")
	}
}

func TestAgentStopsAfterItsRounds(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	call := `[{"type":"shell_call","call_id":"call_a","status":"completed","action":{"commands":["true"]}}]`
	e := newEndpoint(t, call, call, call)
	if code, _, said := agent(t, e, t.TempDir(), "--rounds", "2", "go"); code != 1 || !strings.Contains(said, "asked 2 times") || !strings.Contains(said, "--previous resp_1") {
		t.Errorf("%d, %s", code, said)
	}
}
