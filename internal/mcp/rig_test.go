package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal"
)

// patience bounds every wait in these tests; it is slack, not a measure.
const patience = 60 * time.Second

// both are the protocols of today's clients: requests of the server's, and questions as results.
var both = []string{"2025-11-25", "2026-07-28"}

// rig is a client at a door.
type rig struct {
	t      *testing.T
	client *mcp.ClientSession
	work   string
	cancel context.CancelFunc
	served chan error
}

// config is a door's without sandboxes; what runs in one is asked for by jail.
func config(t *testing.T, work string) Config {
	environ := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + work, "LANG=C.UTF-8"}
	return Config{Terminal: terminal.SessionConfig{Cwd: work, SandboxPolicy: terminal.DefaultSandbox(), Environ: environ, DisableLogin: true, Shells: bashOnly}}
}

// bashOnly finds bash whatever shell the user of the tests has.
func bashOnly(name string) (terminal.Shell, error) {
	if name == "" {
		name = "bash"
	}
	return terminal.LocalShells()(name)
}

func jail(t *testing.T) { require.Feature(t, "jail", sandbox.Supported(t.Context())) }

// newRig connects a client. client and change may be nil.
func newRig(t *testing.T, protocol string, client *mcp.ClientOptions, change func(*Config)) *rig {
	t.Helper()
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := config(t, work)
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &rig{t: t, work: work, cancel: cancel, served: make(chan error, 1)}
	here, there := mcp.NewInMemoryTransports()
	go func() { r.served <- Serve(ctx, here, c) }()
	r.client, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, client).Connect(ctx, there, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

// close has the client go away, and waits until the door has tidied up.
func (r *rig) close() {
	_ = r.client.Close() // it may have gone already
	select {
	case err := <-r.served:
		if err != nil {
			r.t.Errorf("the door: %v", err)
		}
	case <-time.After(patience):
		r.t.Error("the door does not close")
	}
	r.served <- nil
	r.cancel()
}

// reply is a result as a client reads it.
type reply struct {
	text string
	bad  bool

	Output   string `json:"output"`
	ExitCode *int   `json:"exit_code"`
	Session  int    `json:"session_id"`
	Process  string `json:"process_id"`
	Failure  string `json:"failure"`
	Stage    string `json:"stage"`
	Message  string `json:"message"`
	State    string `json:"state"`
	Outside  bool   `json:"outside_sandbox"`
}

func (r *rig) call(tool, arguments string) reply {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	out, err := r.try(ctx, tool, arguments, nil)
	if err != nil {
		r.t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	return out
}

func (r *rig) try(ctx context.Context, tool, arguments string, token any) (out reply, err error) {
	params := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)}
	if token != nil {
		params.SetProgressToken(token)
	}
	result, err := r.client.CallTool(ctx, params)
	if err != nil {
		return out, err
	}
	return read(r.t, result), nil
}

func read(t *testing.T, result *mcp.CallToolResult) (out reply) {
	out.bad = result.IsError
	for _, item := range result.Content {
		out.text += item.(*mcp.TextContent).Text
	}
	if result.StructuredContent != nil {
		text, err := json.Marshal(result.StructuredContent)
		if err != nil || json.Unmarshal(text, &out) != nil {
			t.Errorf("structured: %s %v", text, err)
		}
	}
	return out
}

// until looks at a session until its output so far matches.
func (r *rig) until(id, pattern string, all string) string {
	r.t.Helper()
	want := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); !want.MatchString(all); {
		if time.Now().After(end) {
			r.t.Fatalf("%s is not in %q", pattern, all)
		}
		all += r.call(terminal.ToolWriteStdin, `{"session_id":`+id+`,"yield_time_ms":250}`).Output
	}
	return all
}

// tester is a tool that does as a test says.
type tester struct {
	handle func(context.Context) (string, error)
}

func (tester) Kind() terminal.ToolKind                                  { return terminal.KindMCP }
func (tester) MatchesKind(terminal.ToolPayload) bool                    { return true }
func (tester) IsMutating(context.Context, terminal.ToolInvocation) bool { return true }
func (h tester) Handle(ctx context.Context, _ terminal.ToolInvocation) (terminal.ToolOutput, error) {
	text, err := h.handle(ctx)
	if err != nil {
		return nil, err
	}
	return terminal.McpOutput{Result: terminal.CallToolResult{Content: []terminal.ContentItem{{Type: "text", Text: text}}}}, nil
}

// handmade is a clock that a test moves on.
type handmade struct {
	mu     sync.Mutex
	now    time.Time
	timers map[chan time.Time]time.Time
	ignore []time.Duration // timers of exactly so long never fire
}

func newClock() *handmade {
	return &handmade{now: time.Unix(1_800_000_000, 0), timers: map[chan time.Time]time.Time{}}
}

func (h *handmade) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *handmade) Timer(d time.Duration) (<-chan time.Time, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan time.Time, 1)
	if !slices.Contains(h.ignore, d) {
		h.timers[c] = h.now.Add(d)
	}
	return c, func() { h.mu.Lock(); delete(h.timers, c); h.mu.Unlock() }
}

// next moves the clock to the next timer and returns how far; 0 when there is none.
func (h *handmade) next() time.Duration { return h.nextUntil(h.Now().Add(1000 * time.Hour)) }

// nextUntil is next, and stays where the next timer is later than a time: a busy machine may still be at the one before.
func (h *handmade) nextUntil(last time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var first chan time.Time
	for c, at := range h.timers {
		if first == nil || at.Before(h.timers[first]) {
			first = c
		}
	}
	if first == nil || h.timers[first].After(last) {
		return 0
	}
	moved := max(h.timers[first].Sub(h.now), 0)
	h.now = h.now.Add(moved)
	first <- h.now
	delete(h.timers, first)
	return moved
}

// waitFor polls until something holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// broke is a backend whose sandboxes cannot be made.
type broke struct{ terminal.LocalBackend }

func (broke) Open(context.Context, terminal.PlaceSpec) (terminal.Place, error) {
	return nil, errors.New("no room")
}

// waits says whether somebody waits for exactly so long from now.
func (h *handmade) waits(d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.timers {
		if at.Equal(h.now.Add(d)) {
			return true
		}
	}
	return false
}
