package sandbox_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

func TestWhichMechanismAPolicyGets(t *testing.T) {
	confined, free := sandbox.Policy{Mode: sandbox.WorkspaceWrite}, sandbox.Policy{Mode: sandbox.DangerFullAccess}
	for _, c := range []struct {
		policy sandbox.Policy
		goos   string
		want   process.SandboxType
	}{
		{confined, "linux", process.SandboxLinuxSeccomp},
		{confined, "darwin", process.SandboxMacosSeatbelt},
		{confined, "windows", process.SandboxWindowsRestrictedToken},
		{confined, "plan9", process.SandboxNone},
		{sandbox.Policy{}, "linux", process.SandboxLinuxSeccomp},
		{free, "linux", process.SandboxNone},
		{free, "darwin", process.SandboxNone},
		{sandbox.Policy{Mode: sandbox.ExternalSandbox}, "windows", process.SandboxNone},
	} {
		if got := sandbox.SelectType(c.policy, c.goos); got != c.want {
			t.Errorf("%s on %s: %v, want %v", c.policy.Mode, c.goos, got, c.want)
		}
	}
}

// off are the variables of a box without a network.
func off(mode string) map[string]string {
	return map[string]string{"A": "1", sandbox.EnvMode: mode, sandbox.EnvNetworkOff: "1", sandbox.EnvSeedNetworkOff: "1"}
}

func TestTransform(t *testing.T) {
	spec := process.ExecParams{Command: []string{"make", "-j2"}, Cwd: "/w", Env: map[string]string{"A": "1", sandbox.EnvSandbox: "a lie", sandbox.EnvSeedNetworkOff: "0"},
		Expiration: process.ExecExpiration{Type: process.ExpirationTimeout, Duration: time.Second}, Arg0: "gmake", Justification: "because",
		SandboxPermissions: process.RequireEscalated}
	write := sandbox.Policy{Mode: sandbox.WorkspaceWrite}
	cases := []struct {
		name   string
		policy sandbox.Policy
		kind   process.SandboxType
		env    map[string]string
	}{
		{"linux, read-only", sandbox.Policy{}, process.SandboxLinuxSeccomp, off("read-only")},
		{"linux, workspace", write, process.SandboxLinuxSeccomp, off("workspace-write")},
		{"linux, network", sandbox.Policy{Mode: sandbox.WorkspaceWrite, Network: sandbox.NetworkFull}, process.SandboxLinuxSeccomp, map[string]string{"A": "1", sandbox.EnvMode: "workspace-write"}},
		{"windows", write, process.SandboxWindowsRestrictedToken, off("workspace-write")},
		{"escalated", write, process.SandboxNone, map[string]string{"A": "1"}},
		{"full access", sandbox.Policy{Mode: sandbox.DangerFullAccess}, process.SandboxNone, map[string]string{"A": "1"}},
		{"external", sandbox.Policy{Mode: sandbox.ExternalSandbox}, process.SandboxNone, map[string]string{"A": "1", sandbox.EnvNetworkOff: "1", sandbox.EnvSeedNetworkOff: "1"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := sandbox.Transform(spec, c.policy, c.kind)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Command, spec.Command) || got.Sandbox != c.kind || !maps.Equal(got.Env, c.env) {
				t.Errorf("got %+v", got)
			}
			if got.Cwd != spec.Cwd || got.Expiration != spec.Expiration || got.Arg0 != spec.Arg0 || got.Justification != spec.Justification || got.SandboxPermissions != spec.SandboxPermissions {
				t.Errorf("something was lost: %+v", got)
			}
		})
	}
	if len(spec.Env) != 3 {
		t.Errorf("the caller's environment was changed: %v", spec.Env)
	}
}

func TestTransformForMacOS(t *testing.T) {
	spec := process.ExecParams{Command: []string{"/bin/zsh", "-lc", "make"}, Cwd: "/Users/u/a(b) \"c\"", Env: map[string]string{"HOME": "/Users/u", "TMPDIR": "/var/folders/x/"}}
	cases := []struct {
		name   string
		policy sandbox.Policy
		has    []string
		hasNot []string
	}{
		{"read-only", sandbox.Policy{}, []string{"(deny default)", "-DHIDDEN_0="}, []string{"(allow file-write* (require-all (subpath", "WRITABLE_ROOT", "network-inbound"}},
		{"workspace", sandbox.Policy{Mode: sandbox.WorkspaceWrite, WritableRoots: []string{"/data"}},
			[]string{"-DWRITABLE_ROOT_0=/Users/u/a(b) \"c\"", "-DWRITABLE_ROOT_1=/data", "-DWRITABLE_ROOT_0_RO_0=/Users/u/a(b) \"c\"/.git/hooks", `(require-not (subpath (param "WRITABLE_ROOT_1_RO_0")))`},
			[]string{"/private/tmp", "network-inbound"}},
		{"network", sandbox.Policy{Network: sandbox.NetworkFull}, []string{"(allow network-outbound)"}, nil},
		{"shared tmp", sandbox.Policy{Mode: sandbox.WorkspaceWrite, SharedTmp: true}, []string{"=/private/tmp", "=/var/folders/x"}, nil},
		{"hidden", sandbox.Policy{Hidden: []string{"/srv/keys"}}, []string{"=/srv/keys", "=/Users/u/.ssh", `^/Users/[^/]+/\.ssh(/|$)`}, nil},
		{"shown", sandbox.Policy{Shown: []string{"~/.ssh"}}, []string{"=/Users/u/.aws"}, []string{"/.ssh", `/\.ssh`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := sandbox.Transform(spec, c.policy, process.SandboxMacosSeatbelt)
			if err != nil {
				t.Fatal(err)
			}
			if got.Command[0] != "/usr/bin/sandbox-exec" || got.Command[1] != "-p" || !slices.Equal(got.Command[len(got.Command)-4:], append([]string{"--"}, spec.Command...)) {
				t.Errorf("got %q", got.Command)
			}
			profile := got.Command[2]
			if strings.Contains(profile, "a(b)") || strings.Count(profile, "(") != strings.Count(profile, ")") {
				t.Errorf("a path in the profile, or unbalanced:\n%s", profile)
			}
			if got.Env[sandbox.EnvSeedSandbox] != "seatbelt" || got.Env[sandbox.EnvSandbox] != "seatbelt" {
				t.Errorf("env %v", got.Env)
			}
			text := strings.Join(got.Command, "\n")
			for _, want := range c.has {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			for _, no := range c.hasNot {
				if strings.Contains(text, no) {
					t.Errorf("%q in\n%s", no, text)
				}
			}
		})
	}
}

func TestTransformRefuses(t *testing.T) {
	good := process.ExecParams{Command: []string{"true"}, Cwd: "/w"}
	for name, c := range map[string]struct {
		spec   process.ExecParams
		policy sandbox.Policy
		kind   process.SandboxType
	}{
		"an unknown mode":                     {good, sandbox.Policy{Mode: 9}, process.SandboxNone},
		"an unknown type":                     {good, sandbox.Policy{}, 9},
		"an empty command":                    {process.ExecParams{Cwd: "/w"}, sandbox.Policy{}, process.SandboxLinuxSeccomp},
		"a claim of what is not so":           {good, sandbox.Policy{Mode: sandbox.DangerFullAccess}, process.SandboxLinuxSeccomp},
		"an external one with a type":         {good, sandbox.Policy{Mode: sandbox.ExternalSandbox}, process.SandboxMacosSeatbelt},
		"roots of a read-only policy":         {good, sandbox.Policy{WritableRoots: []string{"/w"}}, process.SandboxLinuxSeccomp},
		"a relative folder, where it matters": {process.ExecParams{Command: []string{"true"}, Cwd: "w"}, sandbox.Policy{}, process.SandboxMacosSeatbelt},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := sandbox.Transform(c.spec, c.policy, c.kind); fault.KindOf(err) != fault.Invalid {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestReportInOneLine(t *testing.T) {
	for want, r := range map[string]sandbox.Report{
		"jail, workspace-write, network off":                                           {Asked: sandbox.RungJail, Got: sandbox.RungJail, Mode: "workspace-write", Network: "off"},
		"restricted (asked jail), read-only, network off; missing: namespaces; a /tmp": {Asked: sandbox.RungJail, Got: sandbox.RungRestricted, Mode: "read-only", Network: "off", Missing: []string{"namespaces", "a /tmp"}},
		"none": {Asked: sandbox.RungNone, Got: sandbox.RungNone},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMasksNameTheirReason(t *testing.T) {
	all := sandbox.Masks()
	for _, m := range all {
		if m.Why == "" || !strings.HasPrefix(m.Path, "/") && !strings.HasPrefix(m.Path, "~/") {
			t.Errorf("mask %+v", m)
		}
	}
	all[0].Path = "changed"
	if sandbox.Masks()[0].Path == "changed" {
		t.Error("the list can be changed from outside")
	}
}
