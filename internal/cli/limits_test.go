package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/internal/telemetry"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// limited is a server whose configuration is a file with a limit, asked over HTTP.
type limited struct {
	t        *testing.T
	url, key string
}

// serveLimited starts a server on a data folder. Its one model calls the shell with the user's text as arguments.
func serveLimited(t *testing.T, data, toml string) limited {
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(callsWithTheText))
	t.Cleanup(model.Close)
	path := filepath.Join(t.TempDir(), "hardshell.toml")
	text := fmt.Sprintf("%s\n[providers.stub]\ntype = \"chat\"\nbase_url = %q\nmodels = [\"m\"]\n", toml, model.URL+"/v1")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(config.Source{Path: path, Environ: []string{"HOME=" + data}, UID: os.Geteuid()})
	if err != nil {
		t.Fatal(err)
	}
	c := loaded.Config
	c.Storage.Data, c.Server.Listen = data, "127.0.0.1:0"
	ctx, stop := context.WithCancel(context.Background())
	s, err := openServer(ctx, c, telemetry.Discard(), false)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server's end: %v", err)
		}
	})
	key, err := os.ReadFile(filepath.Join(data, adminKey))
	if err != nil {
		t.Fatal(err)
	}
	return limited{t, s.url, strings.TrimSpace(string(key))}
}

// callsWithTheText is a Chat Completions server.
func callsWithTheText(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct{ Function struct{ Name string } }
	}
	json.NewDecoder(r.Body).Decode(&q)
	delta, reason := map[string]any{"content": "done"}, "stop"
	if last := q.Messages[len(q.Messages)-1]; last.Role == "user" {
		var text string
		json.Unmarshal(last.Content, &text)
		delta, reason = map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "call_1", "type": "function",
			"function": map[string]any{"name": q.Tools[0].Function.Name, "arguments": text}}}}, "tool_calls"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{{"index": 0, "delta": delta}, {"index": 0, "delta": map[string]any{}, "finish_reason": reason}} {
		chunk, _ := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{choice}})
		fmt.Fprintf(w, "data: %s\n\n", chunk)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// object is a JSON object of an answer.
type object map[string]any

// at follows keys and indices.
func (o object) at(path ...any) any {
	var v any = map[string]any(o)
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

// send is one request; its answer must have the status, and a refusal the code.
func (l limited) send(method, path, contentType string, body io.Reader, status int, code string) object {
	l.t.Helper()
	req, err := http.NewRequest(method, l.url+path, body)
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.key)
	req.Header.Set("Content-Type", contentType)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	o := object{}
	json.Unmarshal(text, &o)
	if got, _ := o.at("error", "code").(string); answer.StatusCode != status || got != code {
		l.t.Fatalf("%s %s: %d %q, want %d %q: %.500s", method, path, answer.StatusCode, got, status, code, text)
	}
	return o
}

// container makes one, with these fields.
func (l limited) container(fields string, status int, code string) object {
	l.t.Helper()
	return l.send("POST", "/v1/containers", "application/json", strings.NewReader(`{"name":"n"`+fields+`}`), status, code)
}

// call is the body of a response whose one call of the shell has these arguments.
func call(environment, arguments string) io.Reader {
	body, _ := json.Marshal(map[string]any{"model": "stub/m", "input": arguments,
		"tools": []any{map[string]any{"type": "shell", "environment": json.RawMessage(environment)}}})
	return bytes.NewReader(body)
}

// ask has the shell called until the context ends, which cancels the command.
func (l limited) ask(ctx context.Context, environment, arguments string) {
	req, err := http.NewRequestWithContext(ctx, "POST", l.url+"/v1/responses", call(environment, arguments))
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+l.key)
	req.Header.Set("Content-Type", "application/json")
	if answer, err := http.DefaultClient.Do(req); err == nil {
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}

// run has the shell called with these arguments and returns the entries of its output.
func (l limited) run(environment, arguments string) object {
	l.t.Helper()
	o := l.send("POST", "/v1/responses", "application/json", call(environment, arguments), 200, "")
	for _, item := range o["output"].([]any) {
		if m := item.(map[string]any); m["type"] == "shell_call_output" {
			return m
		}
	}
	l.t.Fatalf("no output: %v", o)
	return nil
}

const auto = `{"type":"container_auto"}`

// upload sends a file of so many bytes.
func (l limited) upload(path string, size, status int, code string) object {
	l.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	if path == "/v1/files" {
		w.WriteField("purpose", "user_data")
	}
	part, err := w.CreateFormFile("file", "f.bin")
	if err != nil {
		l.t.Fatal(err)
	}
	part.Write(make([]byte, size))
	w.Close()
	return l.send("POST", path, w.FormDataContentType(), &form, status, code)
}

func (l limited) equal(what string, got, want any) {
	l.t.Helper()
	if got != want {
		l.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// burn uses a quarter of a second of a processor.
const burn = `{"commands":["perl -e 'while ((times)[0] < 0.25) {}'"]}`

// limits has a case for every key of a limit: what a client of a server with that key sees.
var limits = map[string]struct {
	toml string
	see  func(l limited)
}{
	"features.shell.memory_mb": {"[features.shell]\nmemory_mb = 64", func(l limited) {
		l.equal("memory", l.container("", 200, "")["memory_limit"], "64m")
	}},
	"shell_limits.default_mem_limit_mb": {"[features.shell]\nmemory_mb = 512\n[features.server_tools.shell_limits]\ndefault_mem_limit_mb = 48", func(l limited) {
		l.equal("memory", l.container("", 200, "")["memory_limit"], "48m")
		out := l.run(auto, `{"commands":["head -c 400000000 /dev/zero | tail | wc -c"]}`)
		l.equal("reason", out.at("output", 0, "receipt", "reason"), "memory_limit")
	}},
	"shell_limits.max_mem_limit_mb": {"[features.server_tools.shell_limits]\nmax_mem_limit_mb = 100", func(l limited) {
		l.container(`,"memory_limit":"1g"`, 400, "memory_limit_exceeds_cap")
		l.equal("memory", l.container(`,"memory_limit":"64m"`, 200, "")["memory_limit"], "64m")
	}},
	"features.shell.cpus": {"[features.shell]\ncpus = 0.2", func(l limited) {
		if ms, _ := l.run(auto, burn).at("output", 0, "receipt", "duration_ms").(float64); ms < 750 {
			l.t.Errorf("a quarter of a second of a processor took %v ms", ms)
		}
	}},
	"shell_limits.default_cpu_limit": {"[features.shell]\ncpus = 2\n[features.server_tools.shell_limits]\ndefault_cpu_limit = 0.2", func(l limited) {
		if ms, _ := l.run(auto, burn).at("output", 0, "receipt", "duration_ms").(float64); ms < 750 {
			l.t.Errorf("a quarter of a second of a processor took %v ms", ms)
		}
	}},
	"shell_limits.command_timeout_secs": {"[features.server_tools.shell_limits]\ncommand_timeout_secs = 1", func(l limited) {
		out := l.run(auto, `{"commands":["sleep 600"],"timeout_ms":60000}`)
		l.equal("outcome", out.at("output", 0, "outcome", "type"), "timeout")
		l.equal("what it was given", out.at("output", 0, "receipt", "timeout_ms"), 1000.0)
	}},
	"shell_limits.default_command_timeout_secs": {"[features.server_tools.shell_limits]\ndefault_command_timeout_secs = 1", func(l limited) {
		out := l.run(auto, `{"commands":["sleep 600"]}`)
		l.equal("outcome", out.at("output", 0, "outcome", "type"), "timeout")
		l.equal("what it was given", out.at("output", 0, "receipt", "timeout_ms"), 1000.0)
		l.equal("what was asked", l.run(auto, `{"commands":["true"],"timeout_ms":60000}`).at("output", 0, "receipt", "timeout_ms"), 60000.0)
	}},
	"shell_limits.max_output_chars": {"[features.server_tools.shell_limits]\nmax_output_chars = 1000", func(l limited) {
		for _, asked := range []string{"", `,"max_output_length":5000`} {
			out := l.run(auto, `{"commands":["seq 1 5000"]`+asked+`}`)
			if text, _ := out.at("output", 0, "stdout").(string); len(text) < 500 || len(text) > 1200 {
				l.t.Errorf("asked for %q it shows %d characters", asked, len(text))
			}
			l.equal("bytes", out.at("output", 0, "receipt", "stdout_bytes"), 23893.0)
		}
	}},
	"shell_limits.max_pids": {"[features.server_tools.shell_limits]\nmax_pids = 64", func(l limited) {
		out := l.run(auto, `{"commands":["exec perl -e 'while (1) { fork }'"]}`)
		l.equal("reason", out.at("output", 0, "receipt", "reason"), "process_limit")
	}},
	"shell_limits.commands_in_order": {"[features.server_tools.shell_limits]\ncommands_in_order = true", func(l limited) {
		out := l.run(auto, `{"commands":["sleep 0.5; touch first","test -e first"]}`)
		l.equal("the second found the first", out.at("output", 1, "outcome", "exit_code"), 0.0)
	}},
	"containers.default_idle_ttl_secs": {"[features.containers]\ndefault_idle_ttl_secs = 77", func(l limited) {
		l.equal("idle time", l.container("", 200, "")["idle_ttl_secs"], 77.0)
		l.equal("what was asked", l.container(`,"expires_after":{"anchor":"last_active_at","minutes":3}`, 200, "")["idle_ttl_secs"], 180.0)
	}},
	"containers.max_idle_ttl_secs": {"[features.containers]\nmax_idle_ttl_secs = 1300", func(l limited) {
		l.container(`,"expires_after":{"anchor":"last_active_at","minutes":22}`, 400, "expires_after_exceeds_cap")
		l.container(`,"expires_after":{"anchor":"last_active_at","minutes":21}`, 200, "")
	}},
	"containers.keep_expired_secs": {"[features.containers]\ndefault_idle_ttl_secs = 1\nkeep_expired_secs = 1", func(l limited) {
		files := "/v1/containers/" + l.container("", 200, "")["id"].(string) + "/files"
		content := files + "/" + l.upload(files, 100, 200, "")["id"].(string) + "/content"
		l.until("its file is gone", func() bool { return l.status("GET", content) == 404 })
		l.equal("files", len(l.send("GET", files, "", nil, 200, "")["data"].([]any)), 0)
	}},
	"containers.max_file_mb": {"[features.containers]\nmax_file_mb = 1", func(l limited) {
		path := "/v1/containers/" + l.container("", 200, "")["id"].(string) + "/files"
		l.upload(path, 1<<20+1, 413, "file_too_large")
		l.upload(path, 1<<20, 200, "")
	}},
	"containers.disk_mb": {"[features.containers]\ndisk_mb = 8", func(l limited) {
		l.equal("limit", l.container("", 200, "").at("disk", "limit_bytes"), float64(8<<20))
		out := l.run(auto, `{"commands":["while :; do head -c 100000 /dev/zero; sleep 0.005; done >big"]}`)
		l.equal("reason", out.at("output", 0, "receipt", "reason"), "disk_limit")
	}},
	"containers.max_per_org": {"[features.containers]\nmax_per_org = 1", func(l limited) {
		l.container("", 200, "")
		l.container("", 429, "too_many_containers")
	}},
	"containers.max_org_mb": {"[features.containers]\nmax_org_mb = 1\ndefault_idle_ttl_secs = 4", func(l limited) {
		ctx, leave := context.WithCancel(l.t.Context())
		defer leave()
		go l.ask(ctx, auto, `{"commands":["head -c 3000000 /dev/zero >big; sleep 600"]}`) // counted while it runs
		l.until("another container is refused", func() bool { return l.status("POST", "/v1/containers") == 429 })
		l.container("", 429, "organization_bytes_exceeded")
	}},
	"files.max_file_mb": {"[features.files]\nmax_file_mb = 1", func(l limited) {
		l.upload("/v1/files", 1<<20+1, 413, "file_too_large")
		l.upload("/v1/files", 1<<20, 200, "")
	}},
	"files.max_org_mb": {"[features.files]\nmax_org_mb = 1", func(l limited) {
		l.upload("/v1/files", 700<<10, 200, "")
		l.upload("/v1/files", 700<<10, 429, "organization_bytes_exceeded")
	}},
	"server.max_body_bytes": {"[server]\nmax_body_bytes = 4096", func(l limited) {
		l.container(`,"memory_limit":"`+strings.Repeat("1", 5000)+`"`, 413, "request_too_large")
		l.upload("/v1/files", 5000, 200, "") // a file has a limit of its own
	}},
}

// status is how a request without a body is answered.
func (l limited) status(method, path string) int {
	req, err := http.NewRequest(method, l.url+path, strings.NewReader(`{"name":"n"}`))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.key)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// until polls, generously.
func (l limited) until(what string, ok func() bool) {
	l.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("never: %s", what)
		}
	}
}

func TestEveryLimitHoldsThroughTheAPI(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	for key, c := range limits {
		t.Run(key, func(t *testing.T) { c.see(serveLimited(t, t.TempDir(), c.toml)) })
	}
}

// TestReserveHoldsThroughTheAPI needs a disk of its own: containers.reserve_disk_mb is a twentieth of it at most.
func TestReserveHoldsThroughTheAPI(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	data := t.TempDir()
	require.Feature(t, "mount", unix.Mount("tmpfs", data, "tmpfs", 0, "size=128m,mode=755"))
	t.Cleanup(func() { unix.Unmount(data, unix.MNT_DETACH) })
	l := serveLimited(t, data, "[features.containers]\nreserve_disk_mb = 512")
	// Whoever comes to the end of the disk between two looks begins again.
	out := l.run(auto, `{"commands":["while :; do head -c 200000 /dev/zero >>big 2>/dev/null || rm -f big; sleep 0.002; done"]}`)
	l.equal("reason", out.at("output", 0, "receipt", "reason"), "disk_full")
}

// TestEveryLimitHasACase: a key that is added to these sections is a limit, or named here as none.
func TestEveryLimitHasACase(t *testing.T) {
	none := map[string]bool{"shell_limits.allowed_egress_hosts": true, "shell_limits.allowed_egress_ranges": true, "shell_limits.egress_bundles": true,
		"shell_limits.allowed_domain_secrets": true, "shell_limits.environment_description": true,
		"shell_limits.input_file_urls": true, "shell_limits.input_file_url_ranges": true, "shell_limits.input_file_url_timeout_secs": true,
		"containers.reserve_disk_mb": true} // it needs a disk: TestReserveHoldsThroughTheAPI
	for section, of := range map[string]any{"shell_limits": config.ShellLimits{}, "containers": config.Containers{}, "files": config.Files{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			key := section + "." + field.Tag.Get("toml")
			if _, ok := limits[key]; !ok && !none[key] {
				t.Errorf("%s has no case", key)
			}
		}
	}
}
