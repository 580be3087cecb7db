package shell

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// machine is a made-up host.
type machine struct {
	passwd string
	uid    int
	env    map[string]string
	files  []string // that can be run
}

func (m machine) host(goos string) Host {
	return Host{
		GOOS: goos, UID: m.uid,
		Getenv: func(name string) string { return m.env[name] },
		ReadFile: func(path string) ([]byte, error) {
			if path != "/etc/passwd" || m.passwd == "" {
				return nil, fs.ErrNotExist
			}
			return []byte(m.passwd), nil
		},
		Executable: func(path string) bool { return slices.Contains(m.files, path) },
	}
}

const users = `root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
# ann:x:1000:1000::/home/ann:/bin/dash
broken:x:1000
ann:x:1000:1000:Ann,,,:/home/ann:/usr/bin/zsh
ann2:x:1000:1000::/home/ann:/bin/bash
fay:x:1001:1001::/home/fay:/usr/bin/fish
eve:x:1002:1002::/home/eve:
kim:x:1003:1003::/home/kim:/bin/ksh
nut:x:1004:1004::/home/nut:/usr/bin/nu
odd:x:1005:1005::/home/odd:/opt/oddsh
rel:x:1006:1006::/home/rel:bash
`

func TestDetect(t *testing.T) {
	all := []string{"/bin/bash", "/bin/sh", "/usr/bin/zsh", "/usr/bin/fish", "/bin/ksh", "/usr/bin/nu", "/opt/oddsh", "/usr/sbin/nologin"}
	without := func(gone ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(gone, p) })
	}
	shellEnv := func(path string) map[string]string { return map[string]string{"SHELL": path} }
	for _, c := range []struct {
		name string
		goos string
		m    machine
		want Shell  // Note apart
		note string // a part of it; "" is none
	}{
		{"passwd", "linux", machine{passwd: users, uid: 1000, files: all}, Shell{Type: Zsh, Path: "/usr/bin/zsh"}, ""},
		{"passwd before $SHELL", "linux", machine{passwd: users, files: all, env: shellEnv("/usr/bin/zsh")}, Shell{Type: Bash, Path: "/bin/bash"}, ""},
		{"no entry: $SHELL", "linux", machine{passwd: users, uid: 7777, files: all, env: shellEnv("/usr/bin/zsh")}, Shell{Type: Zsh, Path: "/usr/bin/zsh"}, ""},
		{"no passwd file: $SHELL", "darwin", machine{uid: 501, files: all, env: shellEnv("/bin/bash")}, Shell{Type: Bash, Path: "/bin/bash"}, ""},
		{"relative $SHELL is not followed", "linux", machine{uid: 7777, files: append(all, "zsh"), env: shellEnv("zsh")}, Shell{Type: Bash, Path: "/bin/bash"}, ""},
		{"relative passwd shell is not followed", "linux", machine{passwd: users, uid: 1006, files: all}, Shell{Type: Bash, Path: "/bin/bash"}, ""},
		{"nothing said", "linux", machine{uid: 7777, files: all}, Shell{Type: Bash, Path: "/bin/bash"}, ""},
		{"nothing said on macOS", "darwin", machine{uid: 501, files: all}, Shell{Type: Zsh, Path: "/usr/bin/zsh"}, ""},
		{"empty field is sh", "linux", machine{passwd: users, uid: 1002, files: all}, Shell{Type: Sh, Path: "/bin/sh"}, ""},
		{"ksh is Sh", "linux", machine{passwd: users, uid: 1003, files: all}, Shell{Type: Sh, Path: "/bin/ksh"}, ""},
		{"unknown is Sh", "linux", machine{passwd: users, uid: 1005, files: all}, Shell{Type: Sh, Path: "/opt/oddsh"}, ""},
		{"moved zsh", "linux", machine{passwd: users, uid: 1000, files: append(without("/usr/bin/zsh"), "/usr/local/bin/zsh")}, Shell{Type: Zsh, Path: "/usr/local/bin/zsh"}, "/usr/bin/zsh is not there"},
		{"zsh gone, $SHELL there", "linux", machine{passwd: users, uid: 1000, files: without("/usr/bin/zsh"), env: shellEnv("/bin/ksh")}, Shell{Type: Sh, Path: "/bin/ksh"}, "/usr/bin/zsh is not there"},
		{"zsh gone", "linux", machine{passwd: users, uid: 1000, files: without("/usr/bin/zsh")}, Shell{Type: Bash, Path: "/bin/bash"}, "/usr/bin/zsh is not there"},
		{"bash gone", "linux", machine{passwd: users, files: without("/bin/bash")}, Shell{Type: Sh, Path: "/bin/sh"}, "/bin/bash is not there"},
		{"bash and sh gone", "linux", machine{passwd: users, files: without("/bin/bash", "/bin/sh")}, Shell{Type: Zsh, Path: "/usr/bin/zsh"}, "is not there"},
		{"fish keeps its environment", "linux", machine{passwd: users, uid: 1001, files: all}, Shell{Type: Bash, Path: "/bin/bash", Login: "/usr/bin/fish"}, "does not speak POSIX"},
		{"fish, and $SHELL is bash", "linux", machine{passwd: users, uid: 1001, files: all, env: shellEnv("/bin/sh")}, Shell{Type: Sh, Path: "/bin/sh", Login: "/usr/bin/fish"}, "does not speak POSIX"},
		{"nushell", "linux", machine{passwd: users, uid: 1004, files: all}, Shell{Type: Bash, Path: "/bin/bash", Login: "/usr/bin/nu"}, "does not speak POSIX"},
		{"nologin", "linux", machine{passwd: users, uid: 1, files: all}, Shell{Type: Bash, Path: "/bin/bash"}, "runs no commands"},
		{"Windows", "windows", machine{uid: -1, files: []string{`C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe`, `C:\Windows\System32\cmd.exe`}}, Shell{Type: PowerShell, Path: `C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe`}, ""},
		{"Windows with pwsh", "windows", machine{uid: -1, files: []string{`E:\P\PowerShell\7\pwsh.exe`, `C:\Windows\System32\cmd.exe`}, env: map[string]string{"ProgramFiles": `E:\P`}}, Shell{Type: PowerShell, Path: `E:\P\PowerShell\7\pwsh.exe`}, ""},
		{"Windows with pwsh on PATH", "windows", machine{uid: -1, files: []string{`D:\x\pwsh.exe`, `C:\Windows\System32\cmd.exe`}, env: map[string]string{"PATH": `.;D:\x`}}, Shell{Type: PowerShell, Path: `D:\x\pwsh.exe`}, ""},
		{"Windows without PowerShell", "windows", machine{uid: -1, files: []string{`C:\Windows\System32\cmd.exe`}}, Shell{Type: Cmd, Path: `C:\Windows\System32\cmd.exe`}, "PowerShell is not there"},
		{"Windows, ComSpec", "windows", machine{uid: -1, files: []string{`D:\W\cmd.exe`}, env: map[string]string{"ComSpec": `D:\W\cmd.exe`}}, Shell{Type: Cmd, Path: `D:\W\cmd.exe`}, "PowerShell is not there"},
		{"Windows, $SHELL of Git Bash is not asked", "windows", machine{uid: -1, files: []string{`C:\Windows\System32\cmd.exe`, "/usr/bin/bash"}, env: shellEnv("/usr/bin/bash")}, Shell{Type: Cmd, Path: `C:\Windows\System32\cmd.exe`}, "PowerShell"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Detect(c.m.host(c.goos))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.Note, c.note) || (c.note == "") != (got.Note == "") {
				t.Errorf("note %q, want one with %q", got.Note, c.note)
			}
			got.Note = ""
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestDetectWithoutAnyShell(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		if got, err := Detect(machine{passwd: users}.host(goos)); err == nil {
			t.Errorf("%s: %+v", goos, got)
		}
	}
}

func TestDetectHere(t *testing.T) {
	got, err := Detect(ThisHost())
	if err != nil {
		t.Fatal(err)
	}
	if !executable(got.Path) {
		t.Errorf("%+v cannot be run", got)
	}
	if executable("/") || executable("/etc/passwd") || executable("/nowhere") {
		t.Error("what is no program passes for one")
	}
}

func FuzzParsePasswd(f *testing.F) {
	f.Add([]byte(users), 1000)
	f.Add([]byte(":x:0:0:::/bin/sh\r\nroot:x:4294967296:0:::\n"), 0)
	f.Fuzz(func(t *testing.T, data []byte, uid int) {
		shell, ok := parsePasswd(data, uid)
		if ok == (shell == "") || strings.ContainsAny(shell, ":\n") {
			t.Fatalf("%q %v", shell, ok)
		}
		if ok && uid < 0 {
			t.Fatalf("a negative user has a shell")
		}
	})
}
