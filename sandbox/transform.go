package sandbox

import (
	"maps"
	"runtime"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// SelectType is the mechanism that a policy gets on an operating system, named as Go names it; SandboxNone where the
// policy restricts nothing, and where the system has no mechanism that we know.
func SelectType(p Policy, goos string) process.SandboxType {
	if !p.confines() {
		return process.SandboxNone
	}
	switch goos {
	case "linux":
		return process.SandboxLinuxSeccomp
	case "darwin":
		return process.SandboxMacosSeatbelt
	case "windows":
		return process.SandboxWindowsRestrictedToken
	}
	return process.SandboxNone
}

// PlatformType is SelectType for the system that we run on.
func PlatformType(p Policy) process.SandboxType { return SelectType(p, runtime.GOOS) }

// Transform makes a command ready for a mechanism. It only computes: it looks at no file and starts nothing, and its
// answer is the same on every system. Where the mechanism is a wrapper program (macOS) the command gets it; on Linux
// a [Box] confines the command as it stands, and on Windows the token of the process would. The environment
// gets the variables by which a command can know where it runs, and loses what the caller says of them.
//
// SandboxNone leaves the command unconfined whatever the policy: it is what a call gets whose escalation was
// approved. Any other type with a policy that restricts nothing is refused, since it would claim what is not so.
func Transform(spec process.ExecParams, p Policy, t process.SandboxType) (process.ExecEnv, error) {
	env := process.ExecEnv{Command: spec.Command, Cwd: spec.Cwd, Env: maps.Clone(spec.Env), Expiration: spec.Expiration, Sandbox: t,
		SandboxPermissions: spec.SandboxPermissions, Justification: spec.Justification, Arg0: spec.Arg0}
	if env.Env == nil {
		env.Env = map[string]string{}
	}
	for _, name := range []string{EnvSandbox, EnvMode, EnvNetworkOff, EnvSeedSandbox, EnvSeedNetworkOff} {
		delete(env.Env, name)
	}
	switch {
	case p.Mode < ReadOnly || p.Mode > ExternalSandbox:
		return process.ExecEnv{}, fault.New(fault.Invalid, "%d is not a sandbox mode", int(p.Mode))
	case len(spec.Command) == 0 || spec.Command[0] == "":
		return process.ExecEnv{}, fault.New(fault.Invalid, "the command is empty")
	case t == process.SandboxNone:
		if p.Mode == ExternalSandbox && p.Network == NetworkOff {
			env.Env[EnvNetworkOff], env.Env[EnvSeedNetworkOff] = "1", "1"
		}
		return env, nil
	case !p.confines():
		return process.ExecEnv{}, fault.New(fault.Invalid, "the mode %s has nothing for a %s sandbox to restrict", p.Mode, t)
	case p.Mode == ReadOnly && len(p.WritableRoots) > 0:
		return process.ExecEnv{}, fault.New(fault.Invalid, "writable roots need the mode workspace-write, not %s", p.Mode)
	}
	env.Env[EnvMode] = p.Mode.String()
	if p.Network == NetworkOff {
		env.Env[EnvNetworkOff], env.Env[EnvSeedNetworkOff] = "1", "1"
	}
	switch t {
	case process.SandboxLinuxSeccomp, process.SandboxWindowsRestrictedToken:
		return env, nil // the name of the rung is told by the box, which knows it
	case process.SandboxMacosSeatbelt:
		if !strings.HasPrefix(spec.Cwd, "/") { // whatever the system that computes this
			return process.ExecEnv{}, fault.New(fault.Invalid, "a command's folder is an absolute path, not %q", spec.Cwd)
		}
		env.Env[EnvSandbox], env.Env[EnvSeedSandbox] = "seatbelt", "seatbelt"
		env.Command = seatbelt(spec, p)
		return env, nil
	}
	return process.ExecEnv{}, fault.New(fault.Invalid, "%d is not a type of sandbox", int(t))
}
