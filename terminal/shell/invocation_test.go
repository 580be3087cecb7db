package shell

import (
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

func lookup(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return "(unset)"
}

func TestPrepare(t *testing.T) {
	bash := Shell{Type: Bash, Path: "/bin/bash"}
	snap := Snapshot{vars: []string{"API_TOKEN=x", "NVM_DIR=/nvm", "PAGER=less", "PATH=/nvm/bin:/bin"}}
	base := []string{"PATH=/bin", "HOME=/h", "GIT_EDITOR=vim", "AWS_SECRET_ACCESS_KEY=x"}
	for _, c := range []struct {
		name string
		call Call
		flag string
		env  map[string]string
	}{
		{"plain", Call{}, "-c", map[string]string{"PATH": "/bin", "PAGER": "cat", "TERM": "dumb", "NVM_DIR": "(unset)", "AWS_SECRET_ACCESS_KEY": "(unset)"}},
		{"login without a snapshot", Call{Login: true}, "-lc", map[string]string{"PATH": "/bin"}},
		{"login with a failed snapshot", Call{Login: true, Snapshot: Snapshot{Warning: "slow"}}, "-lc", map[string]string{"PATH": "/bin"}},
		{"login with a snapshot", Call{Login: true, Snapshot: snap, Policy: DefaultPolicy()}, "-c",
			map[string]string{"PATH": "/nvm/bin:/bin", "NVM_DIR": "/nvm", "HOME": "/h", "PAGER": "cat", "API_TOKEN": "(unset)"}},
		{"no login does not look at the snapshot", Call{Snapshot: snap}, "-c", map[string]string{"PATH": "/bin"}},
		{"ours go over what is inherited", Call{Policy: Policy{Inherit: InheritAll}, Login: true, Snapshot: snap}, "-c",
			map[string]string{"PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive"}},
		{"and under what the policy sets", Call{Policy: Policy{Set: map[string]string{"PAGER": "more", "LC_ALL": "de_DE.UTF-8"}}}, "-c",
			map[string]string{"PAGER": "more", "LC_ALL": "de_DE.UTF-8", "GIT_PAGER": "cat"}},
		{"unless include only took it out", Call{Policy: Policy{Set: map[string]string{"PAGER": "more"}, IncludeOnly: []string{"PATH"}}}, "-c",
			map[string]string{"PAGER": "cat", "PATH": "/bin", "HOME": "(unset)"}},
		{"and under what the call sets", Call{Set: map[string]string{"GIT_EDITOR": "true", "MY_KEY": "k"}}, "-c",
			map[string]string{"GIT_EDITOR": "true", "MY_KEY": "k"}},
		{"with a terminal editors are the user's", Call{TTY: true, Policy: Policy{Inherit: InheritAll}}, "-c",
			map[string]string{"GIT_EDITOR": "vim", "GIT_TERMINAL_PROMPT": "(unset)", "TERM": "dumb", "NO_COLOR": "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.call.Command, c.call.Environ = "echo hi", base
			got, err := bash.prepare(c.call, "linux")
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{"/bin/bash", c.flag, "echo hi"}; !slices.Equal(got.Argv, want) {
				t.Errorf("%q, want %q", got.Argv, want)
			}
			if !slices.IsSorted(got.Env) {
				t.Error("not sorted")
			}
			for name, want := range c.env {
				if value := lookup(got.Env, name); value != want {
					t.Errorf("%s is %q, want %q", name, value, want)
				}
			}
		})
	}
}

func TestUnifiedExecIsTheSeeds(t *testing.T) {
	got := UnifiedExec()
	for name, want := range map[string]string{"NO_COLOR": "1", "TERM": "dumb", "LANG": "C.UTF-8", "LC_CTYPE": "C.UTF-8", "LC_ALL": "C.UTF-8",
		"COLORTERM": "", "PAGER": "cat", "GIT_PAGER": "cat", "GH_PAGER": "cat", "CODEX_CI": "1"} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	bash := Shell{Type: Bash, Path: "/bin/bash"}
	for name, c := range map[string]struct {
		shell Shell
		call  Call
	}{
		"no path":    {Shell{}, Call{}},
		"bad policy": {bash, Call{Policy: Policy{Inherit: "x"}}},
		"bad name":   {bash, Call{Set: map[string]string{"": "x"}}},
		"NUL":        {bash, Call{Set: map[string]string{"A": "\x00"}}},
	} {
		if _, err := c.shell.Prepare(c.call); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkPrepare(b *testing.B) {
	var environ []string
	for _, name := range append(ToolchainNames()[:20], "PATH", "HOME", "USER", "LANG", "DISPLAY", "A", "B", "C", "D", "E") {
		environ = append(environ, name+"=/some/where")
	}
	s, c := Shell{Type: Bash, Path: "/bin/bash"}, Call{Command: "true", Environ: environ, Policy: DefaultPolicy()}
	for b.Loop() {
		if _, err := s.Prepare(c); err != nil {
			b.Fatal(err)
		}
	}
}
