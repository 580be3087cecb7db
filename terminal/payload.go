package terminal

import (
	"context"
	"encoding/json"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// ToolHandler is a registry's entry: it serves the calls of one tool.
type ToolHandler interface {
	Kind() ToolKind
	// MatchesKind says whether the handler can read a payload.
	MatchesKind(p ToolPayload) bool
	// IsMutating says whether a call may change something outside of itself. What cannot be told may.
	IsMutating(ctx context.Context, i ToolInvocation) bool
	// Handle serves a call. A command that fails is an output; an error is a call that could not be served, or whose
	// turn has ended.
	Handle(ctx context.Context, i ToolInvocation) (ToolOutput, error)
}

// ToolKind says how a tool is called.
type ToolKind int

// The kinds.
const (
	KindFunction ToolKind = iota // arguments as JSON
	KindCustom                   // raw input
	KindMCP                      // through an MCP server
)

var kindNames = [...]string{"function", "custom", "mcp"}

// String returns the kind in one word.
func (k ToolKind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// ToolInvocation is one call of a tool.
type ToolInvocation struct {
	Session  *Session
	Turn     *Turn
	Tracker  *TurnDiffTracker // nil is the turn's
	CallID   string
	ToolName string
	Payload  ToolPayload
}

func (i ToolInvocation) ctx() ToolCtx {
	return ToolCtx{Session: i.Session, Turn: i.Turn, CallID: i.CallID, ToolName: i.ToolName}
}

// ToolPayload is what a tool was called with: [FunctionPayload], [CustomPayload], [LocalShellPayload] or [McpPayload].
type ToolPayload interface{ payload() }

// FunctionPayload carries arguments as JSON.
type FunctionPayload struct{ Arguments string }

// CustomPayload carries raw input: for a command tool, the command line itself.
type CustomPayload struct{ Input string }

// LocalShellPayload carries arguments that were read already.
type LocalShellPayload struct{ Params ShellToolCallParams }

// McpPayload carries the same arguments as a [FunctionPayload], from an MCP client.
type McpPayload struct{ Server, Tool, RawArguments string }

func (FunctionPayload) payload()   {}
func (CustomPayload) payload()     {}
func (LocalShellPayload) payload() {}
func (McpPayload) payload()        {}

// ShellToolCallParams are the arguments of shell and container.exec.
type ShellToolCallParams struct {
	Command            []string                   `json:"command"`
	Workdir            string                     `json:"workdir,omitempty"`
	TimeoutMS          *int64                     `json:"timeout_ms,omitempty"`
	SandboxPermissions process.SandboxPermissions `json:"sandbox_permissions,omitempty"`
	Justification      string                     `json:"justification,omitempty"`
}

// arguments are the payload's as JSON; a custom one's input stands for the named argument.
func arguments(p ToolPayload, freeform string) (string, bool) {
	switch p := p.(type) {
	case FunctionPayload:
		return p.Arguments, true
	case McpPayload:
		return p.RawArguments, true
	case LocalShellPayload:
		text, err := json.Marshal(p.Params)
		return string(text), err == nil
	case CustomPayload:
		text, err := json.Marshal(map[string]string{freeform: p.Input})
		return string(text), err == nil && freeform != ""
	}
	return "", false
}
