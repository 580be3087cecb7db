package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/terminal"
)

const (
	toolRestart = "restart"
	lastBreath  = 2 * time.Second // for the old command to end
	maxStarted  = 512             // starts that are remembered
)

// remember keeps how a session was started.
func (d *door) remember(r terminal.ExecResult, raw json.RawMessage) {
	if r.SessionID == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.started) >= maxStarted {
		kept := map[string]bool{}
		for _, s := range d.session.Live().List() {
			kept[strconv.Itoa(s.ID)], kept[s.Name] = true, true
		}
		for name := range d.started {
			if !kept[name] {
				delete(d.started, name)
			}
		}
	}
	d.started[strconv.Itoa(r.SessionID)], d.started[r.ProcessID] = raw, raw
}

// restart ends a session and starts its command again under its name. It is decided about anew: an approval for once was
// for the first start.
func (d *door) restart(ctx context.Context, c *call) *mcp.CallToolResult {
	name := named(c.raw)
	d.mu.Lock()
	raw, known := d.started[name]
	d.mu.Unlock()
	if !known {
		return failed("rejected", "", fmt.Sprintf("restart failed: there is no session %q. Start one with exec_command.", name))
	}
	note := ""
	if old, err := d.session.Live().Named(name); err == nil {
		old.Kill()
		late, stop := d.config.Clock.Timer(lastBreath)
		defer stop()
		select {
		case <-old.Done():
		case <-late:
			note = fmt.Sprintf("Session %s was killed and has not ended yet; its command runs anew under another id.", name)
		case <-ctx.Done():
			return broken("restart", context.Cause(ctx))
		}
		if old.Name() != "" {
			name = old.Name()
		}
	}
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal(raw, &arguments); err != nil {
		return broken("restart", err)
	}
	delete(arguments, "session_id")
	delete(arguments, "process_id")
	if note == "" {
		arguments["process_id"], _ = json.Marshal(name) // text: it cannot fail
	}
	again, err := json.Marshal(arguments)
	if err != nil {
		return broken("restart", err)
	}
	result := d.dispatch(ctx, c, terminal.ToolExecCommand, again)
	if note != "" {
		result.Content = append([]mcp.Content{&mcp.TextContent{Text: note}}, result.Content...)
	}
	return result
}
