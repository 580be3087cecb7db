package shell

import (
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

func TestDeriveExecArgs(t *testing.T) {
	const grep = "grep -r 'TODO' src/"
	for _, c := range []struct {
		shell Shell
		login bool
		want  []string
	}{
		{Shell{Type: Zsh, Path: "/bin/zsh"}, true, []string{"/bin/zsh", "-lc", grep}},
		{Shell{Type: Zsh, Path: "/bin/zsh"}, false, []string{"/bin/zsh", "-c", grep}},
		{Shell{Type: Bash, Path: "/bin/bash"}, true, []string{"/bin/bash", "-lc", grep}},
		{Shell{Type: Bash, Path: "/bin/bash"}, false, []string{"/bin/bash", "-c", grep}},
		{Shell{Type: Sh, Path: "/bin/sh"}, true, []string{"/bin/sh", "-lc", grep}},
		{Shell{Type: Sh, Path: "/bin/sh"}, false, []string{"/bin/sh", "-c", grep}},
		{Shell{Type: PowerShell, Path: "pwsh"}, true, []string{"pwsh", "-Command", grep}},
		{Shell{Type: PowerShell, Path: "pwsh"}, false, []string{"pwsh", "-NoProfile", "-Command", grep}},
		{Shell{Type: Cmd, Path: "cmd.exe"}, true, []string{"cmd.exe", "/c", grep}},
		{Shell{Type: Cmd, Path: "cmd.exe"}, false, []string{"cmd.exe", "/c", grep}},
	} {
		if got := c.shell.DeriveExecArgs(grep, c.login); !slices.Equal(got, c.want) {
			t.Errorf("%v login=%v: %q, want %q", c.shell.Type, c.login, got, c.want)
		}
	}
}

func TestAScriptThatLooksLikeAnOptionStaysAScript(t *testing.T) {
	for _, script := range []string{"-o", "-foo", "--", "-", "+x", "--help"} {
		for _, login := range []bool{false, true} {
			args := Shell{Type: Bash, Path: "/bin/bash"}.DeriveExecArgs(script, login)
			if n := len(args); n != 4 || args[2] != "--" || args[3] != script {
				t.Errorf("%q: %q", script, args)
			}
		}
	}
}

func TestTypeOf(t *testing.T) {
	for path, want := range map[string]Type{
		"zsh": Zsh, "/bin/zsh": Zsh, "bash": Bash, "/usr/local/bin/bash": Bash, "sh": Sh, "/bin/sh": Sh, "dash": Sh,
		"pwsh": PowerShell, "powershell": PowerShell, "powershell.exe": PowerShell, "pwsh.exe": PowerShell,
		"/usr/local/bin/pwsh": PowerShell, `C:\windows\System32\WindowsPowerShell\v1.0\PowerShell.EXE`: PowerShell,
		"cmd": Cmd, "cmd.exe": Cmd, `C:\Windows\System32\cmd.exe`: Cmd,
	} {
		if got, ok := TypeOf(path); !ok || got != want {
			t.Errorf("%s: %v %v, want %v", path, got, ok, want)
		}
	}
	for _, path := range []string{"fish", "other", "", "/", "/bin/bash/", "bashful", "/opt/myshell"} {
		if got, ok := TypeOf(path); ok || got != Sh {
			t.Errorf("%s: %v %v, want an unknown that is treated as Sh", path, got, ok)
		}
	}
	if Type(-1).String() != "Sh" || Cmd.String() != "Cmd" || Type(9).String() != "Sh" {
		t.Error("names of types")
	}
}

func TestFind(t *testing.T) {
	linux := machine{files: []string{"/usr/bin/zsh", "/opt/own/bash", "/ws/node_modules/.bin/dash", "/usr/bin/dash"},
		env: map[string]string{"PATH": "/ws/node_modules/.bin:bin:.:/opt/own"}}.host("linux")
	windows := machine{files: []string{`C:\Windows\System32\cmd.exe`, `D:\tools\bash.exe`},
		env: map[string]string{"PATH": `tools;D:\tools\`}}.host("windows")
	for _, c := range []struct {
		host Host
		name string
		want string // path, or the kind of the error
	}{
		{linux, "zsh", "/usr/bin/zsh"},
		{linux, "bash", "/opt/own/bash"},
		{linux, "dash", "/usr/bin/dash"}, // the system's before a repository's
		{linux, "/opt/own/bash", "/opt/own/bash"},
		{linux, "/bin/bash", "not_found"}, // another bash exists: not the one named
		{linux, "pwsh", "not_found"},
		{linux, "./bash", "invalid"},
		{linux, "own/bash", "invalid"},
		{linux, "fish", "invalid"},
		{linux, "/ws/evil", "invalid"},
		{linux, "", "invalid"},
		{windows, "cmd", `C:\Windows\System32\cmd.exe`},
		{windows, "CMD.EXE", `C:\Windows\System32\cmd.exe`},
		{windows, "bash", `D:\tools\bash.exe`},
		{windows, `tools\bash.exe`, "invalid"},
		{windows, "zsh", "not_found"},
	} {
		got, err := Find(c.host, c.name)
		if err != nil {
			got.Path = fault.KindOf(err).String()
		}
		if got.Path != c.want {
			t.Errorf("%s: %q, want %q (%v)", c.name, got.Path, c.want, err)
		}
	}
}

func FuzzDeriveExecArgs(f *testing.F) {
	f.Add("echo hi", 0, true)
	f.Add("-c 'rm x'", 1, false)
	f.Add("\xff'\\\n$(x)", 2, true)
	f.Fuzz(func(t *testing.T, script string, kind int, login bool) {
		args := Shell{Type: Type(kind), Path: "/bin/x"}.DeriveExecArgs(script, login)
		if args[0] != "/bin/x" || args[len(args)-1] != script || len(args) < 3 || len(args) > 4 {
			t.Fatalf("%q became %q", script, args)
		}
		if Type(kind) <= Zsh && !strings.HasPrefix(args[1], "-") {
			t.Fatalf("no flag: %q", args)
		}
	})
}
