package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal"
)

// call is one tool call. It runs beside the request that began it, which may answer before it is done.
type call struct {
	id      string
	number  int // by which write_stdin goes on with it
	tool    string
	raw     json.RawMessage
	began   time.Time
	client  *mcp.ServerSession
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when result is there
	result  *mcp.CallToolResult
	changed chan struct{} // holds a word after a new question
	git     *turn         // at the repository that it may change

	mu   sync.Mutex
	open *question // that a person has not answered yet
}

const (
	firstNumber = 900_000 // beyond those that a session's store chooses
	maxUnseen   = 64      // calls that nobody waits for
)

var errCancelled = errors.New("the client cancelled the call")

// start begins a call.
func (d *door) start(tool string, raw json.RawMessage, client *mcp.ServerSession) *call {
	ctx, cancel := context.WithCancelCause(d.ctx)
	c := &call{id: "call_" + rand.Text(), tool: tool, raw: raw, began: d.config.Clock.Now(), client: client, cancel: cancel,
		done: make(chan struct{}), changed: make(chan struct{}, 1)}
	d.mu.Lock()
	d.serial++
	c.number = firstNumber + d.serial
	d.calls[c.id] = c
	d.order = append(d.order, c.id)
	if len(d.order) > maxUnseen { // the oldest that is over; what runs is never dropped
		if at := slices.IndexFunc(d.order, func(id string) bool { return d.calls[id].over() }); at >= 0 {
			delete(d.calls, d.order[at])
			d.order = slices.Delete(d.order, at, at+1)
		}
	}
	d.mu.Unlock()
	d.under.Go(func() {
		defer cancel(nil)
		defer close(c.done)
		if tool == toolRestart {
			c.result = d.restart(ctx, c)
		} else {
			c.result = d.dispatch(ctx, c, tool, raw)
		}
	})
	return c
}

func (c *call) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// dispatch has a tool serve a call, in a turn of its own.
func (d *door) dispatch(ctx context.Context, c *call, tool string, raw json.RawMessage) *mcp.CallToolResult {
	began, err := d.session.Begin(ctx, d.session.TurnContext())
	if err != nil {
		return broken("turn", err)
	}
	defer began.End()
	c.git = d.turnAt(tool, raw)
	c.git.take(ctx)
	var exec terminal.ExecResult
	defer func() { d.keepUntil(c.git.release, exec) }()
	out, err := d.tools.Dispatch(ctx, terminal.ToolInvocation{Session: d.session, Turn: began, CallID: c.id, ToolName: tool,
		Payload: terminal.McpPayload{Server: "hardshell", Tool: tool, RawArguments: string(raw)}})
	if out == nil {
		if err == nil {
			err = errors.New("the tool said nothing")
		}
		return broken("call", err)
	}
	result := &mcp.CallToolResult{IsError: err != nil}
	switch out := out.(type) {
	case terminal.McpOutput:
		for _, item := range out.Result.Content {
			result.Content = append(result.Content, &mcp.TextContent{Text: item.Text})
		}
		result.StructuredContent, result.IsError = out.Result.StructuredContent, out.Result.IsError || err != nil
	default:
		result.Content = []mcp.Content{&mcp.TextContent{Text: out.Text()}}
	}
	if result.Content == nil {
		result.Content = []mcp.Content{&mcp.TextContent{Text: out.Text()}}
	}
	var ok bool
	if exec, ok = result.StructuredContent.(terminal.ExecResult); ok && tool == terminal.ToolExecCommand {
		d.remember(exec, raw)
	}
	if note := c.git.note; note != "" {
		result.Content = append([]mcp.Content{&mcp.TextContent{Text: note + "\n"}}, result.Content...)
	}
	return result
}

// await waits for a call as long as its request may, and answers the request.
func (d *door) await(ctx context.Context, c *call, req *mcp.CallToolRequest, most time.Duration) (*mcp.CallToolResult, error) {
	clock := d.config.Clock
	late, stop := clock.Timer(most)
	defer stop()
	token := req.Params.GetProgressToken()
	var tick <-chan time.Time
	begin := clock.Now()
	next := func() {}
	defer func() { next() }()
	if token != nil {
		tick, next = clock.Timer(beat)
	}
	for {
		if q := c.question(); q != nil && resumes(req.Session) {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{questionName: q.params}, RequestState: q.state}, nil
		}
		select {
		case <-c.done:
			d.forget(c)
			return c.result, nil
		case <-c.changed:
		case <-tick:
			// A client that has gone away is noticed elsewhere.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token,
				Progress: clock.Now().Sub(begin).Seconds(), Message: c.standing()})
			tick, next = clock.Timer(beat)
		case <-late:
			return d.later(c), nil
		case <-ctx.Done():
			if !d.config.Detach {
				d.kill(c)
			}
			return nil, context.Cause(ctx)
		}
	}
}

// kill ends a call, and the command that it waits for.
func (d *door) kill(c *call) {
	c.cancel(errCancelled)
	if c.tool == terminal.ToolWriteStdin {
		if s, err := d.session.Live().Named(named(c.raw)); err == nil {
			s.Kill()
		}
	}
	d.forget(c)
	late, stop := d.config.Clock.Timer(dying)
	defer stop()
	select {
	case <-c.done:
	case <-late:
	}
}

// later is the answer for a call that is not done in time.
func (d *door) later(c *call) *mcp.CallToolResult {
	waited := d.config.Clock.Now().Sub(c.began).Round(time.Second)
	text := fmt.Sprintf("Not done after %v: %s.\nSession ID %d\nGo on with write_stdin and session_id %d, without chars; it answers when this is done.",
		waited, c.standing(), c.number, c.number)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}},
		StructuredContent: map[string]any{"session_id": c.number, "process_id": strconv.Itoa(c.number), "state": "pending", "running": true, "message": c.standing()}}
}

// standing is where a call stands, in words.
func (c *call) standing() string {
	if c.question() != nil {
		return "it waits for a person's approval"
	}
	return "it is under way"
}

// pending is the call that a write_stdin goes on with, or nil. What would type is for a session.
func (d *door) pending(raw json.RawMessage) *call {
	n, err := strconv.Atoi(named(raw))
	if err != nil || typed(raw) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		if c.number == n {
			return c
		}
	}
	return nil
}

func (d *door) forget(c *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.calls, c.id)
	d.order = slices.DeleteFunc(d.order, func(id string) bool { return id == c.id })
}

func (d *door) byID(id string) *call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[id]
}

// address is how a call names a session, in all spellings; the tools themselves judge it.
type address struct {
	SessionID json.RawMessage `json:"session_id"`
	ProcessID json.RawMessage `json:"process_id"`
	Chars     string          `json:"chars"`
	Input     string          `json:"input"`
}

func named(raw json.RawMessage) string {
	var a address
	if json.Unmarshal(raw, &a) != nil {
		return ""
	}
	for _, name := range []json.RawMessage{a.SessionID, a.ProcessID} {
		var text string
		var number json.Number
		switch {
		case len(name) == 0 || string(name) == "null":
		case json.Unmarshal(name, &text) == nil:
			return text
		case json.Unmarshal(name, &number) == nil:
			return number.String()
		}
	}
	return ""
}

func typed(raw json.RawMessage) bool {
	var a address
	return json.Unmarshal(raw, &a) == nil && a.Chars+a.Input != ""
}

// public is what a client may read of an error.
func public(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Public()
	}
	return err.Error()
}
