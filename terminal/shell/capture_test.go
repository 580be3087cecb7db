//go:build unix

package shell

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
)

// spawn is the Runner of these tests: a session of its own, no input, and a kill of the group at the end.
func spawn(ctx context.Context, argv, env []string, dir string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 200 * time.Millisecond
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what a start-up file left behind
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return out.Bytes(), err
}

// installed is the shell of this name, or skips the test under it.
func installed(t testing.TB, name string) Shell {
	t.Helper()
	path, err := exec.LookPath(name)
	require.Feature(t, name, err)
	kind, _ := TypeOf(path)
	if name == "fish" {
		return Shell{Type: Sh, Path: "/bin/sh", Login: path}
	}
	return Shell{Type: kind, Path: path}
}

// home is a home directory that holds these files.
func home(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		mode := fs.FileMode(0o600)
		if strings.HasPrefix(text, "#!") {
			mode = 0o700
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func captured(t testing.TB, s Shell, home string, o LoginOptions) Snapshot {
	t.Helper()
	o.Environ = []string{"HOME=" + home, "USER=ann", "XDG_CONFIG_HOME=" + home + "/.config"}
	return NewLogin(t.Context(), s, spawn, o).Snapshot(t.Context())
}

// startUp are the start-up files of a shell, in the order it reads them, each setting what another shell would set.
func startUp(profile, rc string) map[string]map[string]string {
	return map[string]map[string]string{
		"bash": {".bash_profile": profile, ".bashrc": rc},
		"zsh":  {".zprofile": profile, ".zshrc": rc},
		"dash": {".profile": profile + "\n" + rc},
	}
}

const python = "#!/bin/sh\necho the one of pyenv\n"

func TestCaptureFindsTheUsersInterpreters(t *testing.T) {
	for name, files := range startUp(
		`export PROFILE=yes PATH="$HOME/bin:$PATH"`,
		`export RC=yes PATH="$HOME/.pyenv/shims:$PATH"; lost=1; alias python=false; mark() { :; }`,
	) {
		t.Run(name, func(t *testing.T) { checkInterpreters(t, name, files) })
	}
	t.Run("fish", func(t *testing.T) {
		checkInterpreters(t, "fish", map[string]string{".config/fish/config.fish": `set -gx PROFILE yes; set -gx RC yes
			set -gx PATH $HOME/.pyenv/shims $HOME/bin $PATH
			set -g lost 1; alias python=false; function mark; end`})
	})
}

func checkInterpreters(t *testing.T, name string, files map[string]string) {
	s := installed(t, name)
	files[".pyenv/shims/python"] = python
	dir := home(t, files)
	snap := captured(t, s, dir, LoginOptions{})
	if !snap.Usable() || snap.Warning != "" {
		t.Fatalf("%v: %s", snap, snap.Warning)
	}
	for variable, want := range map[string]string{"PROFILE": "yes", "RC": "yes", "HOME": dir, "lost": "(unset)", "mark": "(unset)", "PWD": "(unset)",
		"SHLVL": "(unset)", "_": "(unset)", "TERM": "(unset)", "VSCODE_RESOLVING_ENVIRONMENT": "(unset)", "DISABLE_AUTO_UPDATE": "(unset)"} {
		if got := lookup(snap.Environ(), variable); got != want {
			t.Errorf("%s is %q, want %q", variable, got, want)
		}
	}
	call, err := s.Prepare(Call{Command: "command -v python; python", Login: true, Snapshot: snap, Policy: DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	if call.Argv[1] != "-c" {
		t.Errorf("%q starts a login shell although there is a capture", call.Argv)
	}
	out, err := spawn(t.Context(), call.Argv, call.Env, "/")
	if want := dir + "/.pyenv/shims/python\nthe one of pyenv\n"; err != nil || string(out) != want {
		t.Errorf("%q %v, want %q", out, err, want)
	}
}

func TestCaptureStandsWhatStartUpFilesDo(t *testing.T) {
	for _, c := range []struct {
		name   string
		rc     string
		usable bool // for a shell that reads profile and rc as one
		warn   string
	}{
		{"chatter", `echo "PATH=/evil"; printf 'A=1\0B=2\0'; echo err >&2; export GOOD=1`, true, ""},
		{"fake marks", `for i in 1 2 3; do printf '%s' 0123456789abcdef0123456789abcdef; printf 'PATH=/evil\0'; done; export GOOD=1`, true, ""},
		{"fake dump on every descriptor", `for fd in 1 2 3 4 5 6 7 8 9; do printf 'EVIL=1\0' >&$fd; done 2>/dev/null; export GOOD=1`, true, ""},
		{"endless background chatter", `(while :; do echo noise; sleep 0.01; done) & export GOOD=1`, true, ""},
		{"syntax error in the middle", "export GOOD=1\nif fi (\n", true, ""},
		{"a command that is not there", "no-such-program-anywhere\nexport GOOD=1\n", true, ""},
		{"reads its input", "read answer; read -r more; cat; export GOOD=1", true, ""},
		{"nounset and errexit", "export GOOD=1; set -u", true, ""},
		{"exported functions and hooks", "export GOOD=1 BASH_ENV=/x ENV= PROMPT_COMMAND=x; f() { :; }; export -f f 2>/dev/null; true", true, ""},
		{"readonly and internal", "readonly RO=1; export GOOD=1 TMOUT=1 PS1=x HISTFILE=/x", true, ""},
		{"newline, quotes and marks in values", "export GOOD=1 ODD='a\n\"b\" =$x\\'", true, ""},
		{"all exported", "set -a; GOOD=1", true, ""},
		{"exits", "export GOOD=1; exit", false, "ends the shell or starts another program"},
		{"exits with a status", "export GOOD=1; exit 7", false, "exit status 7"},
		{"becomes another program", "exec true", false, "ends the shell or starts another program"},
		{"kills itself", "kill -9 $$", false, "could not be captured"},
		{"closes our descriptor", "exec 9>&-", false, "could not be captured"},
		{"sleeps", "sleep 600", false, "take longer than 1s"},
		{"never ends", "while :; do :; done", false, "take longer than 1s"},
	} {
		for name, files := range startUp(c.rc, "") {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := installed(t, name)
				o := LoginOptions{Limit: 20 * time.Second}
				if strings.Contains(c.warn, "longer") {
					o.Limit = time.Second
				}
				snap := captured(t, s, home(t, files), o)
				if snap.Usable() != c.usable || !strings.Contains(snap.Warning, c.warn) || (c.warn == "") != (snap.Warning == "") {
					t.Fatalf("%v, warning %q", snap, snap.Warning)
				}
				if !c.usable {
					return
				}
				env := snap.Environ()
				if lookup(env, "GOOD") != "1" || lookup(env, "EVIL") != "(unset)" || strings.HasPrefix(lookup(env, "PATH"), "/evil") || lookup(env, "A") != "(unset)" {
					t.Errorf("%q", env)
				}
				for _, entry := range env {
					variable, value, _ := strings.Cut(entry, "=")
					if internal(variable) || isFunction(variable, value) {
						t.Errorf("%q was captured", entry)
					}
				}
				if c.name == "newline, quotes and marks in values" && lookup(env, "ODD") != "a\n\"b\" =$x\\" {
					t.Errorf("ODD is %q", lookup(env, "ODD"))
				}
			})
		}
	}
}

func TestABashrcThatFailsLeavesTheProfile(t *testing.T) {
	t.Parallel()
	s := installed(t, "bash")
	for name, rc := range map[string]string{"exits": "exit 1", "becomes another shell": "exec true", "sleeps": "sleep 600"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := home(t, map[string]string{".bash_profile": "export PROFILE=yes", ".bashrc": "export RC=yes; " + rc})
			snap := captured(t, s, dir, LoginOptions{})
			if lookup(snap.Environ(), "PROFILE") != "yes" || lookup(snap.Environ(), "RC") != "(unset)" || !strings.Contains(snap.Warning, "interactive start-up file") {
				t.Errorf("%v %q: %q", snap, snap.Environ(), snap.Warning)
			}
		})
	}
}

func TestNothingOfTheCurrentFolderTakesPart(t *testing.T) {
	for name, files := range startUp(`export HERE="$(pwd)"`, `[ -f ./hook ] && . ./hook; true`) {
		t.Run(name, func(t *testing.T) {
			s := installed(t, name)
			repository := home(t, map[string]string{"hook": "export EVIL=1", ".bashrc": "export EVIL=1", ".profile": "export EVIL=1", ".env": "EVIL=1"})
			t.Chdir(repository)
			dir := home(t, files)
			snap := captured(t, s, dir, LoginOptions{})
			if lookup(snap.Environ(), "HERE") != dir || lookup(snap.Environ(), "EVIL") != "(unset)" {
				t.Errorf("%q %q", snap.Environ(), snap.Warning)
			}
		})
	}
}

func TestLoginWithoutACaptureReadsTheProfile(t *testing.T) {
	for name, files := range startUp("export PROFILE=yes", "") {
		t.Run(name, func(t *testing.T) {
			s := installed(t, name)
			for login, want := range map[bool]string{true: "yes\n", false: "no\n"} {
				call, err := s.Prepare(Call{Command: "echo ${PROFILE-no}", Login: login, Environ: []string{"HOME=" + home(t, files), "PATH=/usr/bin:/bin"}})
				if err != nil {
					t.Fatal(err)
				}
				if out, err := spawn(t.Context(), call.Argv, call.Env, "/"); err != nil || string(out) != want {
					t.Errorf("login %v: %q %v", login, out, err)
				}
			}
		})
	}
}

func TestShellsTakeAScriptThatLooksLikeAnOption(t *testing.T) {
	for _, name := range []string{"bash", "zsh", "dash"} {
		t.Run(name, func(t *testing.T) {
			s := installed(t, name)
			for _, login := range []bool{true, false} {
				for _, script := range []string{"-o", "-i", "--version", "+x", "-- echo x"} {
					args := s.DeriveExecArgs(script, login)
					out, err := spawn(t.Context(), args, []string{"HOME=/nonexistent", "PATH=/bin"}, "/")
					var exit *exec.ExitError
					if !errors.As(err, &exit) || exit.ExitCode() != 127 || len(out) > 0 {
						t.Errorf("%q: %q %v, want a command that is not found", args, out, err)
					}
				}
			}
		})
	}
}

func TestScriptsArriveByteForByte(t *testing.T) {
	scripts := []string{"echo '!' \"!x\"", "printf '%s|' a\\\nb \\\\ '{a,b}' ===", "cat <<'E'\n$x `y` \\\nE\n", "echo a\r", "echo \"$0\" $#", "echo \xff\xc3 é",
		" \t echo lead", "# only a comment", "echo 'it''s'; echo $'a\\tb'", ""}
	for _, name := range []string{"bash", "zsh", "dash"} {
		t.Run(name, func(t *testing.T) {
			s := installed(t, name)
			env := []string{"HOME=/nonexistent", "PATH=/usr/bin:/bin"}
			for _, script := range scripts {
				file := filepath.Join(t.TempDir(), s.Path[strings.LastIndex(s.Path, "/")+1:])
				if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
					t.Fatal(err)
				}
				want, wantErr := spawn(t.Context(), []string{s.Path, file}, env, "/")
				got, err := spawn(t.Context(), s.DeriveExecArgs(script, false), env, "/")
				want = bytes.ReplaceAll(want, []byte(file), []byte(s.Path)) // $0
				if !slices.Equal(got, want) || (err == nil) != (wantErr == nil) {
					t.Errorf("%q: %q %v, from a file %q %v", script, got, err, want, wantErr)
				}
			}
		})
	}
}

func TestADumpHasAChannelOfItsOwn(t *testing.T) {
	for name, files := range startUp("echo noise; cat >/dev/null; export GOOD=1", "printf noise; read x") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := installed(t, name)
			input, hold, err := os.Pipe() // a runner that leaves the input open must not hold the capture up
			if err != nil {
				t.Fatal(err)
			}
			defer input.Close()
			defer hold.Close()
			var seen []byte
			run := func(ctx context.Context, argv, env []string, dir string) ([]byte, error) {
				cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
				cmd.Env, cmd.Dir, cmd.Stdin = env, dir, input
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
				cmd.WaitDelay = 200 * time.Millisecond
				out, err := cmd.Output()
				seen = out
				return out, err
			}
			l := NewLogin(t.Context(), s, run, LoginOptions{Environ: []string{"HOME=" + home(t, files)}})
			if snap := l.Snapshot(t.Context()); lookup(snap.Environ(), "GOOD") != "1" || snap.Warning != "" {
				t.Errorf("%v %q", snap, snap.Warning)
			}
			if bytes.Contains(seen, []byte("noise")) {
				t.Errorf("start-up files write into the dump's stream: %q", seen)
			}
		})
	}
}
