package sandbox

import "strings"

// Rung is how strong a box really is.
type Rung string

// The rungs, strongest first.
const (
	RungJail       Rung = "jail"       // namespaces, read-only mounts, Landlock and seccomp
	RungRestricted Rung = "restricted" // Landlock and seccomp only
	RungExternal   Rung = "external"   // a box of hardshell's around this process, and nothing of ours inside it
	RungNone       Rung = "none"       // no restriction of ours
)

// Report says what was asked of a box and what was got. Nothing runs weaker than the policy accepts; Missing names
// what is less than it could be all the same.
type Report struct {
	Asked    Rung     `json:"asked"`
	Got      Rung     `json:"got"`
	Mode     string   `json:"mode"`
	Network  string   `json:"network"` // "off", "full", "proxied", or "external": that of the box around this one
	Missing  []string `json:"missing,omitempty"`
	Remedies []string `json:"remedies,omitempty"`
	Limits   string   `json:"limits"` // "hard" where the kernel enforces what was asked, "soft" where the resident looks from time to time, "none" where nothing was asked

	// What the box was furnished with, in its own paths. All are empty where nothing is restricted.
	Writable  []string `json:"writable,omitempty"`  // folders that can be written
	Protected []string `json:"protected,omitempty"` // what lies in them and can not
	Hidden    []string `json:"hidden,omitempty"`    // the host's paths that are covered or closed
	Shown     []string `json:"shown,omitempty"`     // what lies in those, or in a folder of the box's own, and can be read
}

// String is the report in one line: "jail, workspace-write, network off", and what is less than was asked.
func (r Report) String() string {
	var b strings.Builder
	b.WriteString(string(r.Got))
	if r.Asked != r.Got {
		b.WriteString(" (asked " + string(r.Asked) + ")")
	}
	if r.Mode != "" {
		b.WriteString(", " + r.Mode)
	}
	if r.Network != "" {
		b.WriteString(", network " + r.Network)
	}
	if len(r.Missing) > 0 {
		b.WriteString("; missing: " + strings.Join(r.Missing, "; "))
	}
	return b.String()
}

// The variables that tell a command where it runs. The second pair is known to tools of other agents.
const (
	EnvSandbox        = "HARDSHELL_SANDBOX"      // the rung
	EnvMode           = "HARDSHELL_SANDBOX_MODE" // the mode
	EnvNetworkOff     = "HARDSHELL_SANDBOX_NETWORK_DISABLED"
	EnvSeedSandbox    = "CODEX_SANDBOX"
	EnvSeedNetworkOff = "CODEX_SANDBOX_NETWORK_DISABLED"
)

// Variables are the entries, NAME=value, that every command of a confined box finds in its environment. They inform;
// nothing believes them. A box sets them itself.
func (r Report) Variables() []string {
	if r.Got == "" || r.Got == RungNone {
		return nil
	}
	out := []string{EnvSandbox + "=" + string(r.Got), EnvMode + "=" + r.Mode}
	if r.Network == NetworkOff.String() {
		out = append(out, EnvNetworkOff+"=1", EnvSeedNetworkOff+"=1")
	}
	return out
}

// informed is an environment with the variables in it. What a caller says of them does not count.
func (r Report) informed(env []string) []string {
	own := r.Variables()
	out := make([]string, 0, len(env)+len(own))
	for _, e := range env {
		if !strings.HasPrefix(e, EnvSandbox) && !strings.HasPrefix(e, EnvSeedSandbox) {
			out = append(out, e)
		}
	}
	return append(out, own...)
}
