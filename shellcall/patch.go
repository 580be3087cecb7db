package shellcall

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

const (
	// maxPatched bounds a file that a patch changes, and the one that it makes.
	maxPatched = 16 << 20
	patchTool  = "apply_patch"
)

// Patch changes one file of the workspace: whole or not at all. The output says what became of it, whatever the error,
// which is the context's or a person's wish to end the turn.
func (e *Executor) Patch(ctx context.Context, p PatchCall) (PatchOutput, error) {
	out := PatchOutput{Type: TypePatchOutput, CallID: p.CallID, Status: PatchFailed}
	e.patches.Lock()
	defer e.patches.Unlock()
	change, err := e.prepare(ctx, p.Operation)
	defer change.close()
	if err == nil {
		err = e.mayPatch(ctx, p, change)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = change.commit()
	}
	added, removed := 0, 0
	switch {
	case err == nil:
		added, removed = change.added, change.removed
		out.Status, out.Output = PatchCompleted, change.String()
	default:
		out.Output = fmt.Sprintf("%s was not changed: %s", p.Operation.Path, cause(err))
	}
	told := terminal.ExecCommandEnd{CallID: p.CallID, Tool: patchTool, Cwd: e.cwd, Preview: terminal.TelemetryPreview(out.Output), Decision: terminal.Decided{By: "policy"}, At: time.Now()}
	if err != nil {
		told.ExitCode, told.Error, told.Message = 1, "rejected", out.Output
	}
	e.audit(terminal.ExecCommandBegin{CallID: p.CallID, Tool: patchTool, Command: []string{patchTool, p.Operation.Type, p.Operation.Path, p.Operation.Diff},
		Lines: []string{p.Operation.Type + " " + p.Operation.Path}, Cwd: e.cwd, Source: terminal.FromAgent, Attempt: 1, Sandbox: "none: it is written by us", Decision: told.Decision, At: time.Now()})
	e.audit(told)
	e.options.Observer.Observe(Patched{CallID: p.CallID, Operation: p.Operation, Output: out, Added: added, Removed: removed, At: time.Now()})
	if errors.Is(err, terminal.ErrTurnAborted) {
		return out, terminal.ErrTurnAborted
	}
	return out, context.Cause(ctx)
}

// cause is an error as the model reads it: of a path the reason alone, for the path has been named.
func cause(err error) string {
	var p *fs.PathError
	switch {
	case errors.As(err, &p):
		return p.Err.Error() + "."
	case isFault(err):
		return strings.TrimSuffix(public(err), ".") + "."
	}
	return err.Error() + "."
}

// change is a patch that is ready to be written.
type change struct {
	kind    string
	name    string  // in the workspace
	in      *folder // nil when it could not be opened
	text    string
	mode    fs.FileMode
	before  fs.FileInfo // of the file that is there; nil for a new one
	added   int
	removed int
}

// String is what the model is told.
func (c change) String() string {
	switch c.kind {
	case CreateFile:
		return fmt.Sprintf("Created %s (%d lines).", c.name, c.added)
	case DeleteFile:
		return fmt.Sprintf("Deleted %s.", c.name)
	}
	return fmt.Sprintf("Updated %s (+%d -%d).", c.name, c.added, c.removed)
}

// close lets go of the folder.
func (c change) close() {
	if c.in != nil {
		c.in.root.Close()
	}
}

// base is the file's name in its folder.
func (c change) base() string { return filepath.Base(c.name) }

// prepare reads the file and makes its new text. What it returns is to be closed, also beside an error.
func (e *Executor) prepare(ctx context.Context, o Operation) (c change, err error) {
	policy := e.session.TurnContext().SandboxPolicy
	if policy.Mode == sandbox.ReadOnly {
		return c, fault.New(fault.Forbidden, "the sandbox is read-only")
	}
	if c.name, err = e.inside(o.Path); err != nil {
		return c, err
	}
	if c.in, err = e.folderOf(c.name); err != nil {
		return c, err
	}
	real := c.in.file(c.name)
	if err := e.unhidden(c.name, real, policy.Hidden); err != nil {
		return c, err
	}
	if err := e.unprotected(ctx, real); err != nil {
		return c, err
	}
	absent := len(c.in.new) > 0 // its folder, and so the file
	if absent && (o.Type == UpdateFile || o.Type == DeleteFile) {
		return c, &fs.PathError{Op: "open", Path: c.name, Err: syscall.ENOENT}
	}
	c.kind, c.mode = o.Type, 0o666
	if len(o.Diff) > maxPatched {
		return c, fault.New(fault.TooLarge, "the diff has %d bytes; the limit is %d", len(o.Diff), maxPatched)
	}
	switch o.Type {
	case CreateFile:
		if !absent {
			if _, err := c.in.root.Lstat(c.base()); err == nil {
				return c, fault.New(fault.Conflict, "it is there already").WithTry("update_file")
			} else if !errors.Is(err, fs.ErrNotExist) {
				return c, err
			}
		}
		c.text, c.added, err = parseCreate(o.Diff)
		return c, err
	case UpdateFile:
		hunks, err := parseDiff(o.Diff)
		if err != nil {
			return c, err
		}
		text, info, err := read(c.in.root, c.base())
		if err != nil {
			return c, err
		}
		for _, h := range hunks {
			c.added, c.removed = c.added+h.added, c.removed+h.removed
		}
		c.before, c.mode = info, info.Mode().Perm()
		c.text, err = apply(text, hunks)
		if err == nil && len(c.text) > maxPatched {
			err = fault.New(fault.TooLarge, "it would have %d bytes; the limit is %d", len(c.text), maxPatched)
		}
		return c, err
	case DeleteFile:
		c.before, err = c.in.root.Lstat(c.base())
		if err == nil && !c.before.Mode().IsRegular() {
			err = fault.New(fault.Invalid, "it is %s and no file", kindOf(c.before.Mode()))
		}
		return c, err
	}
	return c, fault.New(fault.Invalid, "%q is no operation", o.Type).WithTry("create_file, update_file or delete_file")
}

// guarded are what the user's own git and agents obey; see package sandbox, whose commands cannot write them either.
var guarded = []string{".git", ".hardshell", ".codex", "hardshell.toml"}

// inside is a path's name in the workspace. That no link leads out of it is for folderOf to see to.
func (e *Executor) inside(name string) (string, error) {
	if name == "" || strings.IndexByte(name, 0) >= 0 || !utf8.ValidString(name) {
		return "", fault.New(fault.Invalid, "it is no path of a file")
	}
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(e.cwd, name)
		if err != nil || !filepath.IsLocal(rel) {
			return "", fault.New(fault.Forbidden, "it is outside of the workspace %s", e.cwd)
		}
		name = rel
	}
	if !filepath.IsLocal(name) {
		return "", fault.New(fault.Forbidden, "it is outside of the workspace %s", e.cwd)
	}
	trailing := strings.HasSuffix(name, "/")
	if name = filepath.Clean(name); name == "." || trailing {
		return "", fault.New(fault.Invalid, "it is a folder")
	}
	return name, unguarded(name)
}

// unhidden refuses what the sandbox's policy hides from commands and what is guarded, by the name that is asked for and by
// the real one.
func (e *Executor) unhidden(name, real string, hidden []string) error {
	for _, full := range []string{filepath.Join(e.cwd, name), real} {
		for _, h := range hidden {
			if rel, err := filepath.Rel(h, full); err == nil && filepath.IsLocal(rel) {
				return fault.New(fault.Forbidden, "it is hidden from agents")
			}
		}
		if err := unguarded(strings.TrimPrefix(full, e.cwd)); err != nil {
			return err
		}
	}
	return nil
}

// unguarded refuses a path with a guarded name in it.
func unguarded(name string) error {
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		for _, g := range guarded {
			if strings.EqualFold(part, g) {
				return fault.New(fault.Forbidden, "%s is not an agent's to change", g)
			}
		}
	}
	return nil
}

// unprotected refuses what the sandbox keeps from commands in the workspace, which it alone knows: where repositories lie,
// and what git obeys in them.
func (e *Executor) unprotected(ctx context.Context, real string) error {
	turn, err := e.session.Begin(ctx, e.session.TurnContext())
	if err != nil {
		return err
	}
	defer turn.End()
	h, err := terminal.Orchestrate(ctx, terminal.ToolRuntime[process.ExecParams, held](holding{}), process.ExecParams{Command: []string{"true"}, Cwd: e.cwd},
		terminal.ToolCtx{Session: e.session, Turn: turn, CallID: "patch", ToolName: patchTool})
	if err != nil {
		return err
	}
	defer h.release()
	for _, p := range h.place.Report().Protected {
		if rel, err := filepath.Rel(p, real); err == nil && filepath.IsLocal(rel) {
			return fault.New(fault.Forbidden, "the sandbox protects it")
		}
	}
	return nil
}

// read reads a file that is one.
func read(root *os.Root, name string) (string, fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", nil, fault.New(fault.Invalid, "it is %s and no file", kindOf(info.Mode()))
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", nil, fault.New(fault.Conflict, "it is being changed by somebody else")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPatched+1))
	switch {
	case err != nil:
		return "", nil, err
	case len(text) > maxPatched:
		return "", nil, fault.New(fault.TooLarge, "it has more than %d bytes", maxPatched)
	case strings.IndexByte(string(text), 0) >= 0:
		return "", nil, fault.New(fault.Invalid, "it is no text")
	}
	return string(text), info, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "something special"
}

// mayPatch asks where the policy asks about what is not proven harmless. In the sandbox's own bounds a patch is a command
// like another.
func (e *Executor) mayPatch(ctx context.Context, p PatchCall, c change) error {
	if len(e.options.Allow) > 0 && !allowsPatches(e.options.Allow) {
		return fault.New(fault.Forbidden, "apply_patch is not on the allow list")
	}
	if allowsPatches(e.options.Deny) {
		return fault.New(fault.Forbidden, "apply_patch is on the deny list")
	}
	t := e.session.TurnContext()
	if !t.ApprovalPolicy.AsksUntrusted() {
		return nil
	}
	approver := e.options.Terminal.Approver
	if approver == nil {
		return fault.New(fault.Forbidden, "it needs a person's approval, and there is nobody to ask")
	}
	lines := []string{p.Operation.Type + " " + c.name}
	if p.Operation.Diff != "" {
		lines = append(lines, diffLines(p.Operation.Diff)...)
	}
	review, err := approver.Approve(ctx, terminal.ApprovalRequest{CallID: p.CallID, Tool: patchTool, Lines: lines, Cwd: e.cwd,
		Reasons: []string{"It changes a file."}, Effect: "The file is changed, once.", Scopes: []approval.Scope{approval.Once}})
	switch {
	case err != nil:
		return err
	case review.Decision == terminal.Abort:
		return terminal.ErrTurnAborted
	case review.Decision == terminal.Denied:
		if review.Reason == "" {
			review.Reason = "the person said no"
		}
		return fault.New(fault.Forbidden, "%s", review.Reason)
	}
	return nil
}

func allowsPatches(list []string) bool {
	for _, entry := range list {
		if strings.TrimSpace(entry) == patchTool {
			return true
		}
	}
	return false
}

// commit writes the change: to a file beside, which then takes the place in one step.
func (c change) commit() error {
	if c.kind == DeleteFile {
		if err := c.unchanged(); err != nil {
			return err
		}
		return c.in.root.Remove(c.base())
	}
	whose := c.before
	if c.kind == CreateFile {
		var err error
		if whose, err = c.in.make(); err != nil {
			return err
		}
	}
	root := c.in.root
	beside := ".hardshell-" + strings.ToLower(rand.Text())
	f, err := root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, c.mode)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			root.Remove(beside)
		}
	}()
	_, err = f.WriteString(c.text)
	if err == nil {
		err = give(f, whose)
	}
	if err == nil && c.kind == UpdateFile {
		err = f.Chmod(c.mode)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if c.kind == CreateFile {
		switch err := root.Link(beside, c.base()); {
		case err == nil:
			return nil // the other name goes
		case errors.Is(err, fs.ErrExist):
			return fault.New(fault.Conflict, "it is there already")
		}
		if _, err := root.Lstat(c.base()); !errors.Is(err, fs.ErrNotExist) { // a disk without hard links
			return fault.New(fault.Conflict, "it is there already")
		}
	} else if err := c.unchanged(); err != nil {
		return err
	}
	if err := root.Rename(beside, c.base()); err != nil {
		return err
	}
	done = true
	return nil
}

// unchanged says whether the file is still the one that was read.
func (c change) unchanged() error {
	now, err := c.in.root.Lstat(c.base())
	if err != nil {
		return err
	}
	if !os.SameFile(now, c.before) || !now.ModTime().Equal(c.before.ModTime()) || now.Size() != c.before.Size() {
		return fault.New(fault.Conflict, "somebody else changed it meanwhile").WithTry("read it again")
	}
	return nil
}
