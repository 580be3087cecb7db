package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// Bound is the longest that a call takes to answer. Clients hang up at 60 s.
const Bound = 45 * time.Second

const (
	margin  = time.Second      // of Bound, for the answer's own way
	reserve = 5 * time.Second  // of Bound, for what a call of a session does beside waiting
	beat    = 5 * time.Second  // between two notes of progress
	dying   = 10 * time.Second // for what was cancelled to end
	patient = time.Hour        // for a person
)

// Config is what a client gets.
type Config struct {
	// Terminal is what its session is opened with. The approver, the bound of waits and the sessions' clock are the door's.
	Terminal terminal.SessionConfig
	Registry *terminal.Registry // nil is terminal.NewRegistry
	Older    bool               // shell, container.exec and shell_command too
	Detach   bool               // a cancelled call goes on unseen instead of being killed
	Locks    string             // a private folder, in which doors that share it take turns at a git repository; empty is none
	// Repository names the git repository that a command in a folder may change, for Locks; empty is none. nil looks on
	// this machine.
	Repository func(dir string) string
	GitWait    time.Duration // the longest that one waits for its turn; 0 is 30 s
	Opened     func(ctx context.Context, s *terminal.Session) error
	Clock      session.Clock // nil is the machine's
	Version    string        // of the program
	Logger     *slog.Logger  // nil discards
}

// Serve serves one client until it goes away or the context ends. Nothing that the client started survives it.
func Serve(ctx context.Context, t mcp.Transport, c Config) error {
	d, err := open(ctx, c)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, d.cancel) // the SDK waits for the calls
	defer stop()
	err = newServer(c, instructions, terminal.Specs(c.Older), d.handle).Run(ctx, t)
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) {
		err = nil // that is how a conversation ends
	}
	return errors.Join(err, d.close())
}

// Stdio is the transport over a program's own streams.
func Stdio(in io.ReadCloser, out io.WriteCloser) mcp.Transport {
	return &mcp.IOTransport{Reader: in, Writer: out}
}

// door is one client's.
type door struct {
	config  Config
	tools   *terminal.Registry
	session *terminal.Session

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	under  sync.WaitGroup

	mu      sync.Mutex
	calls   map[string]*call // under way, or answered and not fetched; by id
	order   []string         // of calls, the oldest first
	serial  int
	started map[string]json.RawMessage // how sessions were started, by id and by name
}

func open(ctx context.Context, c Config) (*door, error) {
	d := &door{config: c, tools: c.Registry, calls: map[string]*call{}, started: map[string]json.RawMessage{}}
	if d.tools == nil {
		d.tools = terminal.NewRegistry()
	}
	if d.config.Clock == nil {
		d.config.Clock = machineClock{}
	}
	if d.config.Logger == nil {
		d.config.Logger = slog.New(slog.DiscardHandler)
	}
	c.Terminal.Approver = d
	c.Terminal.MaxWait = Bound - reserve
	c.Terminal.Sessions.Clock = c.Clock
	var err error
	if d.session, err = terminal.Open(c.Terminal); err != nil {
		return nil, err
	}
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if c.Opened != nil {
		if err := c.Opened(d.ctx, d.session); err != nil {
			return nil, errors.Join(err, d.close())
		}
	}
	return d, nil
}

func (d *door) close() error {
	d.cancel()
	err := d.session.Close()
	d.under.Wait()
	return err
}

const instructions = `exec_command runs a command line in a sandbox on the user's machine; what still runs after a while is a session, which
write_stdin types into, waits for and looks at. No call takes longer than 45 seconds: go on with write_stdin and the session_id that
it gave. For builds and tests, wait_for: {"exit": true}. restart starts a session's command again.`

// newServer is the SDK's, with the tools.
func newServer(c Config, instructions string, specs []terminal.ToolSpec, handle mcp.ToolHandler) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "hardshell", Title: "hardshell", Version: c.Version},
		&mcp.ServerOptions{Instructions: instructions, Logger: c.Logger, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	for _, spec := range specs {
		s.AddTool(&mcp.Tool{Name: spec.Name, Description: spec.Description, InputSchema: spec.Parameters}, handle)
	}
	s.AddTool(&mcp.Tool{Name: toolRestart, Description: "Ends a session, whatever it does, and starts its command again under the same id. What had to be asked is asked again.",
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["session_id"],` +
			`"properties":{"session_id":{"type":"integer","description":"The session, as exec_command named it."}}}`)}, handle)
	return s
}

// handle serves a tool call: a new one, one that goes on, or one whose question was answered.
func (d *door) handle(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return d.serve(ctx, req, 0)
}

// serve is handle for a request that has waited already.
func (d *door) serve(ctx context.Context, req *mcp.CallToolRequest, waited time.Duration) (*mcp.CallToolResult, error) {
	tool, raw := req.Params.Name, req.Params.Arguments
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	var c *call
	switch state := req.Params.RequestState; {
	case state != "":
		if c = d.answered(state, req.Params.InputResponses); c == nil {
			return failed("rejected", "", "This question is no longer open: it was answered, withdrawn, or ran out."), nil
		}
	case tool == terminal.ToolWriteStdin:
		c = d.pending(raw)
	}
	if c == nil {
		c = d.start(tool, raw, req.Session)
	}
	return d.await(ctx, c, req, Bound-margin-waited)
}

// failed is a result for a call of which nothing came.
func failed(failure, stage, message string) *mcp.CallToolResult {
	structured := map[string]string{"failure": failure, "message": message}
	if stage != "" {
		structured["stage"] = stage
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: message}}, StructuredContent: structured, IsError: true}
}

// broken is a result for an error of the machinery.
func broken(stage string, err error) *mcp.CallToolResult {
	return failed("io", stage, fmt.Sprintf("infrastructure: %s: %s", stage, public(err)))
}

type machineClock struct{}

func (machineClock) Now() time.Time { return time.Now() }

func (machineClock) Timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
