package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// daemon is a `hardshell serve` of its own process, which can be killed.
type daemon struct {
	t       testing.TB
	data    string
	process *exec.Cmd
	said    bytes.Buffer
	url     string
	key     string
}

// startDaemon starts one on a data folder and waits until it answers.
func startDaemon(t testing.TB, data string) *daemon {
	t.Helper()
	d := &daemon{t: t, data: data, process: exec.Command("hardshell", "serve", "--listen", "127.0.0.1:0", "--data", data)}
	d.process.Env = append(os.Environ(), "HOME="+t.TempDir(), "OLLAMA_HOST=127.0.0.1:1", "HARDSHELL_CONFIG=", "OPENAI_API_KEY=", "ANTHROPIC_API_KEY=")
	d.process.Stderr = &d.said
	must(t, d.process.Start())
	t.Cleanup(d.stop)
	d.until("the server to answer", func() bool {
		raw, err := os.ReadFile(filepath.Join(data, "server.json"))
		var address struct {
			URL string
			PID int
		}
		if err != nil || json.Unmarshal(raw, &address) != nil || address.PID != d.process.Process.Pid {
			return false
		}
		answer, err := http.Get(address.URL + "/healthz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		key, err := os.ReadFile(filepath.Join(data, "admin.key"))
		d.url, d.key = address.URL, strings.TrimSpace(string(key))
		return err == nil
	})
	return d
}

// stop ends it as an operator would. A killed one has ended.
func (d *daemon) stop() {
	if d.process.ProcessState == nil {
		d.process.Process.Signal(syscall.SIGTERM)
		d.process.Wait()
	}
	if d.t.Failed() {
		d.t.Logf("the server said:\n%s", d.said.String())
	}
}

// kill takes it away without a word.
func (d *daemon) kill() {
	d.t.Helper()
	must(d.t, d.process.Process.Kill())
	d.process.Wait()
}

func (d *daemon) until(what string, is func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (d *daemon) request(ctx context.Context, method, path string, body any) *http.Response {
	d.t.Helper()
	raw, err := json.Marshal(body)
	must(d.t, err)
	r, err := http.NewRequestWithContext(ctx, method, d.url+path, bytes.NewReader(raw))
	must(d.t, err)
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	must(d.t, err)
	return answer
}

// run streams a response to a prompt until the stream has shown a text, and returns the response's id.
func (d *daemon) run(ctx context.Context, prompt, text string) (id string) {
	d.t.Helper()
	answer := d.request(ctx, "POST", "/v1/responses", map[string]any{"model": "scripted", "stream": true, "input": prompt,
		"tools": []any{map[string]any{"type": "shell", "environment": map[string]any{"type": "container_auto"}}}})
	d.t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(answer.Body)
		d.t.Fatalf("status %d: %s", answer.StatusCode, raw)
	}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct {
			Type     string
			Response struct{ ID string }
			Delta    json.RawMessage
		}
		if json.Unmarshal([]byte(data), &event) == nil && event.Response.ID != "" {
			id = event.Response.ID
		}
		if strings.HasPrefix(event.Type, "response.shell_call_output_content") && strings.Contains(string(event.Delta), text) {
			return id
		}
	}
	d.t.Fatalf("the stream ended without %q", text)
	return ""
}

// row reads a response.
func (d *daemon) row(id string) (status, whole string) {
	d.t.Helper()
	answer := d.request(d.t.Context(), "GET", "/v1/responses/"+id, nil)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	must(d.t, err)
	var row struct{ Status string }
	if err := json.Unmarshal(raw, &row); err != nil || answer.StatusCode != http.StatusOK {
		d.t.Fatalf("status %d: %s", answer.StatusCode, raw)
	}
	return row.Status, string(raw)
}

// over waits until a response has ended, however.
func (d *daemon) over(id string) (status, whole string) {
	d.t.Helper()
	d.until("an end of "+id, func() bool {
		status, whole = d.row(id)
		return slices.Contains([]string{"completed", "failed", "incomplete", "cancelled"}, status)
	})
	return status, whole
}

// bearing finds the living processes with a mark in their command line, as /proc shows them to us.
func bearing(mark string) (found []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && bytes.Contains(line, []byte(mark)) {
			found = append(found, filepath.Dir(path))
		}
	}
	return found
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What a killed server leaves: the next one brings its response to an honest end, whether it takes the command over or
// ends it; the command never runs twice, and none is left when the response is over.
func TestAKilledServersCommandRunsOnce(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	data, mark := filepath.Join(t.TempDir(), "data"), fmt.Sprintf("killed-%d", os.Getpid())
	first := startDaemon(t, data)
	id := first.run(t.Context(), "$ : "+mark+"; echo ran >> ran; echo begun; for i in $(seq 1200); do [ -e stop ] && break; sleep 0.1; done; echo e''nded", "begun")
	if len(bearing(mark)) == 0 {
		t.Fatal("the command's process is not to be seen, so its end could not be")
	}
	first.kill()
	second := startDaemon(t, data)
	// Taken over or not, from here on the command may end.
	workspaces := func() (ran []string) {
		err := filepath.WalkDir(data, func(path string, _ os.DirEntry, err error) error {
			if filepath.Base(path) == "ran" {
				ran = append(ran, path)
			}
			return nil
		})
		must(t, err)
		return ran
	}
	for _, ran := range workspaces() {
		os.WriteFile(filepath.Join(filepath.Dir(ran), "stop"), nil, 0o644)
		if text, err := os.ReadFile(ran); err == nil && string(text) != "ran\n" {
			t.Errorf("the command ran %d times", strings.Count(string(text), "ran"))
		}
	}
	status, whole := second.over(id)
	if status == "completed" && !strings.Contains(whole, "ended") {
		t.Errorf("completed, without what the command printed last: %s", whole)
	}
	second.until("the end of the command's processes", func() bool { return len(bearing(mark)) == 0 })
	for _, ran := range workspaces() {
		if text, err := os.ReadFile(ran); err == nil && string(text) != "ran\n" {
			t.Errorf("the command ran %d times", strings.Count(string(text), "ran"))
		}
	}
}

// A client that goes away in the middle of a foreground stream takes its command with it.
func TestAClientThatLeavesEndsItsCommand(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	mark := fmt.Sprintf("left-%d", os.Getpid())
	d := startDaemon(t, filepath.Join(t.TempDir(), "data"))
	client, leave := context.WithCancel(t.Context())
	id := d.run(client, "$ : "+mark+"; echo begun; sleep 3600; echo e''nded", "begun")
	if len(bearing(mark)) == 0 {
		t.Fatal("the command's process is not to be seen, so its end could not be")
	}
	leave()
	d.until("the end of the command's processes", func() bool { return len(bearing(mark)) == 0 })
	if status, whole := d.over(id); status == "completed" || strings.Contains(whole, "ended\\n") {
		t.Errorf("status %s: %s", status, whole)
	}
}
