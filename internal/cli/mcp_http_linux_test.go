package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// headers are put on every request.
type headers http.Header

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, h)
	return http.DefaultTransport.RoundTrip(r)
}

func with(key, container string) headers {
	h := headers{"Authorization": {"Bearer " + key}}
	if container != "" {
		h["X-Hardshell-Container"] = []string{container}
	}
	return h
}

// caller is a client of the official SDK at a server.
type caller struct {
	t       *testing.T
	session *mcp.ClientSession
}

func (d *daemon) mcp(t *testing.T, h headers) caller {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: d.url + "/mcp", HTTPClient: &http.Client{Transport: h}, MaxRetries: -1}, nil)
	must(t, err)
	t.Cleanup(func() { session.Close() })
	return caller{t, session}
}

type told struct {
	Output   string `json:"output"`
	ExitCode *int   `json:"exit_code"`
	Session  int    `json:"session_id"`
	Failure  string `json:"failure"`
	Message  string `json:"message"`
	State    string `json:"state"`
	Within   string `json:"isolation"`
	text     string
	bad      bool
}

func (c caller) call(tool, format string, args ...any) told {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	out, err := c.try(ctx, tool, fmt.Sprintf(format, args...))
	must(c.t, err)
	return out
}

func (c caller) try(ctx context.Context, tool, arguments string) (out told, err error) {
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		return out, err
	}
	raw, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	out.bad = result.IsError
	for _, part := range result.Content {
		out.text += part.(*mcp.TextContent).Text
	}
	return out, err
}

// run is a command to its end.
func (c caller) run(script string) told {
	c.t.Helper()
	text, err := json.Marshal(script)
	must(c.t, err)
	out := c.call("exec_command", `{"cmd":%s,"wait_for":{"exit":true}}`, text)
	if out.ExitCode == nil {
		c.t.Fatalf("%s: %+v", script, out)
	}
	return out
}

// until looks at a session until it has shown a text.
func (c caller) until(id int, all, want string) {
	c.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(all, want); {
		if time.Now().After(end) {
			c.t.Fatalf("%q is not in %q", want, all)
		}
		all += c.call("write_stdin", `{"session_id":%d,"yield_time_ms":250}`, id).Output
	}
}

func (c caller) container() string {
	c.t.Helper()
	got := c.run("true")
	id := regexp.MustCompile(`^jail, container (cntr_[a-z0-9]+)`).FindStringSubmatch(got.Within)
	if id == nil {
		c.t.Fatalf("%+v", got)
	}
	return id[1]
}

func (d *daemon) keyOf(t *testing.T, org string) string {
	t.Helper()
	cmd := exec.Command("hardshell", "key", "create", "--data", d.data, "--org", org, "--json")
	cmd.Env = d.process.Env
	out, err := cmd.Output()
	must(t, err)
	var made struct{ Key string }
	must(t, json.Unmarshal(out, &made))
	return made.Key
}

func hall(t *testing.T) *daemon {
	t.Helper()
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	return startDaemon(t, filepath.Join(t.TempDir(), "data"))
}

// TestMCPOverHTTP is the built server at a client of the official SDK: what is typed at lives in a container.
func TestMCPOverHTTP(t *testing.T) {
	d := hall(t)
	c := d.mcp(t, with(d.key, ""))
	first := c.call("exec_command", `{"cmd":"exec bash --norc -i","tty":true,"yield_time_ms":250}`)
	if first.Session == 0 || !strings.HasPrefix(first.Within, "jail, container cntr_") || !strings.Contains(first.text, "In container cntr_") {
		t.Fatalf("%+v", first)
	}
	c.call("write_stdin", `{"session_id":%d,"chars":"x=6; cd /tmp\n"}`, first.Session)
	got := c.call("write_stdin", `{"session_id":%d,"chars":"echo $((x*7)) in $PWD\n"}`, first.Session)
	c.until(first.Session, got.Output, "\n42 in /tmp")
	if got := c.run(`echo $HOME $PWD $(id -un); echo kept > file; echo Authorization: Bearer ` + bearer + ` >/dev/null; exit 3`); *got.ExitCode != 3 || strings.TrimSpace(got.Output) != "/home/user /mnt/data user" {
		t.Errorf("%+v", got)
	}
	// One that asks to leave it is refused; there is no such place.
	if got := c.call("exec_command", `{"cmd":"id","sandbox_permissions":"require_escalated"}`); got.Failure != "rejected" {
		t.Errorf("%+v", got)
	}
	// What a command needs of a person's machine is told in the container's words.
	if got := c.call("exec_command", `{"cmd":"pwd","workdir":"/no/such/folder","wait_for":{"exit":true}}`); got.ExitCode != nil && *got.ExitCode == 0 || strings.Contains(got.text, d.data) {
		t.Errorf("%+v", got)
	}
	again := c.call("restart", `{"session_id":%d}`, first.Session)
	if again.Session != first.Session {
		t.Errorf("%+v", again)
	}
	got = c.call("write_stdin", `{"session_id":%d,"chars":"echo [$x] in $PWD\n"}`, first.Session)
	c.until(first.Session, got.Output, "\n[] in /mnt/data")
	id := c.container()
	answer := d.request(t.Context(), "GET", "/v1/containers/"+id+"/files", nil)
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || !strings.Contains(string(text), "/mnt/data/file") {
		t.Errorf("%v %s", err, text)
	}
	must(t, c.session.Close())
	d.until("the session to be audited", func() bool {
		return strings.Contains(textOf(t, filepath.Join(d.data, "audit")), `"signal":"SIGKILL"`)
	})
	if kept := textOf(t, filepath.Join(d.data, "audit")); !strings.Contains(kept, `"container":"`+id+`"`) || !strings.Contains(kept, `"org":`) || strings.Contains(kept, bearer) {
		t.Errorf("the audit: %s", kept)
	}
}

// TestMCPKeysAreApart: a session is its key's alone, and a container its organisation's.
func TestMCPKeysAreApart(t *testing.T) {
	d := hall(t)
	one := d.mcp(t, with(d.key, ""))
	live := one.call("exec_command", `{"cmd":"echo mine > file; echo here; read line; echo got $line","tty":true,"wait_for":{"pattern":"here"}}`)
	id := one.container()
	rival, colleague := d.keyOf(t, "rival"), d.keyOf(t, "default")
	for name, key := range map[string]string{"another organisation": rival, "another key": colleague} {
		c := d.mcp(t, with(key, ""))
		if got := c.call("write_stdin", `{"session_id":%d,"chars":"stolen\n"}`, live.Session); !got.bad || !strings.Contains(got.text, "there is no session") {
			t.Errorf("%s: %+v", name, got)
		}
		if got := c.call("restart", `{"session_id":%d}`, live.Session); got.Failure != "rejected" {
			t.Errorf("%s: %+v", name, got)
		}
		if got := c.run("ls"); strings.Contains(got.Output, "file") || c.container() == id {
			t.Errorf("%s: %+v", name, got)
		}
		for _, method := range []string{"POST", "GET", "DELETE"} {
			h := with(key, "")
			h["Mcp-Session-Id"] = []string{one.session.ID()}
			if status, text := d.raw(t, method, h, ""); status != http.StatusNotFound {
				t.Errorf("%s: %s: %d %s", name, method, status, text)
			}
		}
	}
	if got := d.mcp(t, with(rival, id)).call("exec_command", `{"cmd":"cat file"}`); got.Failure != "io" || strings.Contains(got.text, "mine") || !strings.Contains(got.Message, "container") {
		t.Errorf("%+v", got)
	}
	if got := d.mcp(t, with(d.key, id)).run("cat file"); strings.TrimSpace(got.Output) != "mine" {
		t.Errorf("%+v", got)
	}
	if got := one.call("write_stdin", `{"session_id":%d,"chars":"yes\n","wait_for":{"exit":true}}`, live.Session); !strings.Contains(got.Output, "got yes") {
		t.Errorf("%+v", got)
	}
}

// raw is a request as no SDK sends it.
func (d *daemon) raw(t *testing.T, method string, h headers, host string) (int, string) {
	t.Helper()
	return d.post(t, method, h, host, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
}

func (d *daemon) post(t *testing.T, method string, h headers, host, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, d.url+"/mcp", strings.NewReader(body))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Host = host
	answer, err := (&http.Client{Transport: h}).Do(r)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(text)
}

func TestMCPIsGuarded(t *testing.T) {
	d := hall(t)
	from := with(d.key, "")
	from["Origin"] = []string{"https://evil.example"}
	for name, c := range map[string]struct {
		h      headers
		host   string
		status int
	}{
		"no key": {headers{}, "", 401}, "a wrong key": {with("hsk_x", ""), "", 401}, "a web page": {from, "", 403}, "a rebound name": {with(d.key, ""), "evil.example", 403},
	} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			if status, text := d.raw(t, method, c.h, c.host); status != c.status {
				t.Errorf("%s: %s: %d %s", name, method, status, text)
			}
		}
	}
}

// TestMCPSessionsAreCounted: a key that begins sessions for ever keeps nobody else from them.
func TestMCPSessionsAreCounted(t *testing.T) {
	d := hall(t)
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for n := range 65 {
		if status, text := d.post(t, "POST", with(d.key, ""), "", begin); (status == http.StatusOK) != (n < 64) || n == 64 && status != http.StatusTooManyRequests {
			t.Fatalf("%d: %d %s", n, status, text)
		}
	}
	if status, text := d.post(t, "POST", with(d.keyOf(t, "default"), ""), "", begin); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}

// TestMCPWhatEnds: a cancelled call's command, and those of a session that ends, are killed; a server that stops is not
// held up by a client that stays.
func TestMCPWhatEnds(t *testing.T) {
	d := hall(t)
	c := d.mcp(t, with(d.key, ""))
	id := c.container()
	watch := d.mcp(t, with(d.key, id))
	runs := func(what string) bool {
		return strings.Contains(watch.run(`for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$f; echo; done 2>/dev/null | grep -v tr | grep -o "sleep [0-9]*"`+"; true").Output, what)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.try(ctx, "exec_command", `{"cmd":"sleep 1001","wait_for":{"exit":true}}`)
		ended <- err
	}()
	d.until("the command", func() bool { return runs("sleep 1001") })
	cancel()
	if err := <-ended; err == nil {
		t.Error("a cancelled call has an answer")
	}
	d.until("the cancelled command's end", func() bool { return !runs("sleep 1001") })
	for n := range 3 {
		c.call("exec_command", `{"cmd":"sleep 100%d","yield_time_ms":250}`, 2+n)
	}
	d.until("the sessions", func() bool { return runs("sleep 1004") })
	must(t, c.session.Close())
	d.until("the sessions' end", func() bool { return !runs("sleep 100") })

	watch.call("exec_command", `{"cmd":"sleep 2000","yield_time_ms":250}`)
	waiting := make(chan told, 1)
	go func() {
		got, _ := watch.try(t.Context(), "exec_command", `{"cmd":"sleep 2001","wait_for":{"exit":true}}`)
		waiting <- got
	}()
	d.stop()
	if state := d.process.ProcessState; !state.Success() || strings.Contains(d.said.String(), "cut off") {
		t.Errorf("%v: %s", state, d.said.String())
	}
	<-waiting
}

// TestMCPAfterACrash: what a killed server left running under its sessions, which nobody can reach any more, is ended by
// the next one.
func TestMCPAfterACrash(t *testing.T) {
	d := hall(t)
	c := d.mcp(t, with(d.key, ""))
	id := c.container()
	live := c.call("exec_command", `{"cmd":"echo up; exec sleep 3001","tty":true,"wait_for":{"pattern":"up"}}`)
	d.kill()
	next := startDaemon(t, d.data)
	watch := next.mcp(t, with(next.key, id))
	d.until("the old command's end", func() bool {
		return !strings.Contains(watch.run(`cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' '`).Output, "sleep "+strconv.Itoa(3001))
	})
	if got := watch.call("write_stdin", `{"session_id":%d}`, live.Session); !got.bad {
		t.Errorf("%+v", got)
	}
}
