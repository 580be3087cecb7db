package terminal

import (
	"context"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// SandboxBackend is what confines commands. [LocalBackend] is the one of package sandbox; another one may wrap it, or
// put commands somewhere else altogether.
type SandboxBackend interface {
	// Select chooses the mechanism for a policy. SandboxNone for a policy that restricts something refuses the call.
	Select(p sandbox.Policy, preference SandboxPreference) process.SandboxType
	// Transform makes a command ready for the mechanism. It only computes.
	Transform(spec process.ExecParams, p sandbox.Policy, t process.SandboxType) (process.ExecEnv, error)
	// Open makes a place in which commands of one policy run.
	Open(ctx context.Context, spec PlaceSpec) (Place, error)
	// Denial says what a place kept a command from that has failed with a code, if it was the place that did. dir is
	// where the command ran and said the end of what it wrote.
	Denial(place Place, spec PlaceSpec, dir string, code int, said []byte) (sandbox.Denial, bool)
}

// ElsewhereBackend is a backend whose commands see other folders than this process does, so that it judges them itself.
type ElsewhereBackend interface {
	SandboxBackend
	// Folder is a session's or a turn's folder as commands name it, or says why there can be none.
	Folder(dir string) (string, error)
}

// folder is a working folder as a backend's commands know it.
func folder(b SandboxBackend, dir string) (string, error) {
	if elsewhere, ok := b.(ElsewhereBackend); ok {
		return elsewhere.Folder(dir)
	}
	return realFolder(dir)
}

// Place is a sandbox in which commands run. A *sandbox.Box is one.
type Place interface {
	process.Starter
	Report() sandbox.Report
	// Done is closed when the place is gone, and every command in it; nil is never.
	Done() <-chan struct{}
	Close() error
}

// PlaceSpec is what a place is made for. Calls with equal ones share it.
type PlaceSpec struct {
	Dir        string // the place's own state folder, private to us
	Cwd        string // the workspace
	Policy     sandbox.Policy
	Sandbox    process.SandboxType
	Executable string // the program that confines, where it is not this one
}

// LocalBackend confines by package sandbox: on Linux a jail, or what the policy accepts below it.
type LocalBackend struct{}

// Select is [sandbox.PlatformType].
func (LocalBackend) Select(p sandbox.Policy, _ SandboxPreference) process.SandboxType {
	return sandbox.PlatformType(p)
}

// Transform is [sandbox.Transform].
func (LocalBackend) Transform(spec process.ExecParams, p sandbox.Policy, t process.SandboxType) (process.ExecEnv, error) {
	return sandbox.Transform(spec, p, t)
}

// Open makes a box.
func (LocalBackend) Open(ctx context.Context, spec PlaceSpec) (Place, error) {
	if spec.Executable != "" {
		return nil, fault.New(fault.Unsupported, "a box is made by this same program, not by %s", spec.Executable).
			WithTry("leave the sandbox executable empty, or give the session a backend that uses it")
	}
	return sandbox.Open(ctx, sandbox.Spec{Dir: spec.Dir, Cwd: spec.Cwd, Policy: spec.Policy})
}

// Denial is [sandbox.Explain].
func (LocalBackend) Denial(place Place, spec PlaceSpec, dir string, code int, said []byte) (sandbox.Denial, bool) {
	return sandbox.Explain(place.Report(), spec.Policy, dir, code, said)
}
