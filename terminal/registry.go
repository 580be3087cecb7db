package terminal

import (
	"context"
	"errors"
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
)

// Registry serves tools by name. The zero value is not ready; see [NewRegistry].
type Registry struct{ handlers map[string]ToolHandler }

// The tools of a new registry.
const (
	ToolShell        = "shell"
	ToolContainer    = "container.exec"
	ToolShellCommand = "shell_command"
	ToolExecCommand  = "exec_command"
	ToolWriteStdin   = "write_stdin"
)

// NewRegistry serves shell, container.exec, shell_command, exec_command and write_stdin.
func NewRegistry() *Registry {
	r := &Registry{handlers: map[string]ToolHandler{}}
	r.Register(ToolShell, shellHandler{})
	r.Register(ToolContainer, shellHandler{})
	r.Register(ToolShellCommand, shellHandler{freeform: true})
	r.Register(ToolExecCommand, execHandler{})
	r.Register(ToolWriteStdin, stdinHandler{})
	return r
}

// Register adds a tool, or replaces one. It is for the time before the first call.
func (r *Registry) Register(name string, h ToolHandler) { r.handlers[name] = h }

// Names are those of the tools, sorted.
func (r *Registry) Names() []string {
	var names []string
	for name := range r.handlers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Dispatch serves one call. What a model did wrong comes back as an output that tells it so; an error is for the
// caller: the context's, or [ErrTurnAborted] when a person has ended the turn.
func (r *Registry) Dispatch(ctx context.Context, i ToolInvocation) (ToolOutput, error) {
	h := r.handlers[i.ToolName]
	if h == nil {
		return answer(i, "unsupported call: "+i.ToolName, false, nil), nil
	}
	if !h.MatchesKind(i.Payload) {
		return answer(i, i.ToolName+" cannot be called this way", false, nil), nil
	}
	ctx, done := i.Turn.within(ctx)
	defer done()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if i.Tracker == nil {
		i.Tracker = i.Turn.Tracker
	}
	if i.Tracker != nil && h.IsMutating(ctx, i) {
		if err := i.Tracker.Baseline(); err != nil {
			return nil, err
		}
	}
	out, err := h.Handle(ctx, i)
	if err == nil {
		return out, nil
	}
	if i.Turn.Aborted() {
		return out, ErrTurnAborted
	}
	if cause := context.Cause(ctx); cause != nil {
		return out, cause
	}
	var unread argumentError
	if errors.As(err, &unread) {
		return answer(i, "failed to parse function arguments: "+unread.Error(), false, nil), nil
	}
	if f, ok := fault.As(err); ok {
		return answer(i, i.ToolName+" failed: "+f.Public(), false, nil), nil
	}
	return nil, err
}
