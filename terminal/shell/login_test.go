package shell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var zsh = Shell{Type: Zsh, Path: "/bin/zsh"}

// dumped answers as a shell would: it finds the marks in the script that it is given and prints one dump per stage.
func dumped(argv []string, bodies ...string) []byte {
	script := strings.Join(argv, " ")
	var out []byte
	for _, body := range bodies {
		var halves []string
		for range 2 {
			_, rest, _ := strings.Cut(script, "printf %s%s ")
			halves = append(halves, rest[:16]+rest[17:33])
			script = rest
		}
		out = append(out, "chatter"+halves[0]+body+halves[1]+"chatter"...)
	}
	return out
}

func TestLoginCapturesOnceHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		l := NewLogin(t.Context(), zsh, func(_ context.Context, argv, _ []string, _ string) ([]byte, error) {
			runs.Add(1)
			time.Sleep(time.Second)
			return dumped(argv, "PATH=/nvm/bin\x00"), nil
		}, LoginOptions{})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if s := l.Snapshot(t.Context()); !s.Usable() || s.Warning != "" || !slices.Equal(s.Environ(), []string{"PATH=/nvm/bin"}) {
					t.Errorf("%v %q", s, s.Warning)
				}
			})
		}
		wg.Wait()
		if s := l.Snapshot(t.Context()); s.Took != time.Second || runs.Load() != 1 {
			t.Errorf("took %v, %d runs", s.Took, runs.Load())
		}
	})
}

func TestLoginRemembersThatItFailed(t *testing.T) {
	runs := 0
	l := NewLogin(t.Context(), zsh, func(context.Context, []string, []string, string) ([]byte, error) {
		runs++
		return []byte("PATH=/fake\x00"), errors.New("exit status 3")
	}, LoginOptions{})
	for range 3 {
		s := l.Snapshot(t.Context())
		if s.Usable() || !strings.Contains(s.Warning, "exit status 3") || !strings.Contains(s.Warning, "/bin/zsh") {
			t.Errorf("%v %q", s, s.Warning)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestLoginEndsInTimeWhateverTheRunnerDoes(t *testing.T) {
	for name, run := range map[string]Runner{
		"kills at the end of its context": func(ctx context.Context, _, _ []string, _ string) ([]byte, error) {
			<-ctx.Done()
			return nil, errors.New("signal: killed")
		},
		"does not heed its context": func(context.Context, []string, []string, string) ([]byte, error) {
			time.Sleep(time.Hour)
			return nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := NewLogin(t.Context(), zsh, run, LoginOptions{Limit: time.Minute}).Snapshot(t.Context())
				if took := time.Since(began); took > MaxCapture || s.Usable() || !strings.Contains(s.Warning, "longer than 5s") {
					t.Errorf("%v after %v: %q", s, took, s.Warning)
				}
				time.Sleep(2 * time.Hour) // the late runner ends too, and nobody hangs on its answer
			})
		})
	}
}

func TestLoginUsesWhatASlowStartUpFilePrintedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLogin(t.Context(), Shell{Type: Bash, Path: "/bin/bash"}, func(ctx context.Context, argv, _ []string, _ string) ([]byte, error) {
			<-ctx.Done()
			return dumped(argv, "PATH=/profile\x00"), errors.New("signal: killed")
		}, LoginOptions{Limit: 2 * time.Second})
		s := l.Snapshot(t.Context())
		if !slices.Equal(s.Environ(), []string{"PATH=/profile"}) || !strings.Contains(s.Warning, "interactive start-up file") || !strings.Contains(s.Warning, "2s") {
			t.Errorf("%q %q", s.Environ(), s.Warning)
		}
	})
}

func TestACallerWhoLeavesDoesNotEndTheCapture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLogin(t.Context(), zsh, func(ctx context.Context, argv, _ []string, _ string) ([]byte, error) {
			time.Sleep(2 * time.Second)
			return dumped(argv, "A=1\x00"), ctx.Err()
		}, LoginOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if s := l.Snapshot(ctx); s.Usable() || !strings.Contains(s.Warning, "not waited for") {
			t.Errorf("%v %q", s, s.Warning)
		}
		if s := l.Snapshot(t.Context()); !s.Usable() {
			t.Errorf("%v %q", s, s.Warning)
		}
		if s := l.Snapshot(ctx); !s.Usable() {
			t.Error("what is there is given to a caller who cannot wait")
		}
	})
}

func TestTheSessionsEndEndsTheCapture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, end := context.WithCancel(t.Context())
		l := NewLogin(session, zsh, func(ctx context.Context, _, _ []string, _ string) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, LoginOptions{})
		time.AfterFunc(time.Second, end)
		if s := l.Snapshot(t.Context()); s.Usable() || !strings.Contains(s.Warning, "the session ended") {
			t.Errorf("%v %q", s, s.Warning)
		}
	})
}

func TestCapturePlan(t *testing.T) {
	environ := []string{"HOME=/home/ann", "USER=ann", "LC_TIME=de", "XDG_RUNTIME_DIR=/run/u", "PATH=/ws/bin:/bin", "GITHUB_TOKEN=x",
		"NVM_DIR=/already/loaded", "BASH_ENV=/ws/x", "PROMPT_COMMAND=x", "HARDSHELL_API_KEY=x", "BASH_FUNC_ls%%=() { :; }", "LC_A\x00=x"}
	p, err := planCapture(Shell{Type: Bash, Path: "/opt/it's/bash"}, environ, "linux")
	if err != nil {
		t.Fatal(err)
	}
	if p.dir != "/home/ann" || len(p.stages) != 2 || p.argv[0] != "/bin/sh" {
		t.Errorf("%+v", p)
	}
	if !strings.Contains(p.argv[len(p.argv)-1], `; exec '/opt/it'\''s/bash' -i -c '`) {
		t.Errorf("%q", p.argv)
	}
	for _, entry := range p.env {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains([]string{"GITHUB_TOKEN", "NVM_DIR", "BASH_ENV", "PROMPT_COMMAND", "HARDSHELL_API_KEY", "BASH_FUNC_ls%%"}, name) ||
			strings.Contains(value, "/ws") {
			t.Errorf("%s reaches the start-up files", entry)
		}
	}
	for _, entry := range []string{"HOME=/home/ann", "USER=ann", "LC_TIME=de", "XDG_RUNTIME_DIR=/run/u", "SHELL=/opt/it's/bash"} {
		if !slices.Contains(p.env, entry) {
			t.Errorf("%s is missing", entry)
		}
	}
	for _, c := range []struct {
		shell  Shell
		goos   string
		stages int // 0: not possible
	}{
		{Shell{Type: Bash, Path: "/bin/bash"}, "darwin", 1},
		{Shell{Type: Zsh, Path: "/bin/zsh"}, "linux", 1},
		{Shell{Type: Sh, Path: "/bin/sh"}, "linux", 1},
		{Shell{Type: Bash, Path: "/bin/bash", Login: "/usr/bin/fish"}, "linux", 1},
		{Shell{Type: Bash, Path: "/bin/bash", Login: "/usr/bin/nu"}, "linux", 0},
		{Shell{Type: PowerShell, Path: "/usr/bin/pwsh"}, "linux", 0},
		{Shell{Type: Cmd, Path: `C:\cmd.exe`}, "windows", 0},
	} {
		p, err := planCapture(c.shell, nil, c.goos)
		if (err == nil) != (c.stages > 0) || err == nil && len(p.stages) != c.stages {
			t.Errorf("%+v on %s: %d stages, %v", c.shell, c.goos, len(p.stages), err)
		}
	}
	if p, _ := planCapture(zsh, []string{"HOME=relative"}, "linux"); p.dir != "/" {
		t.Errorf("starts in %q", p.dir)
	}
}

func TestASnapshotDoesNotPrintItsValues(t *testing.T) {
	s := Snapshot{Shell: "/bin/zsh", vars: []string{"TOKEN=hunter2"}}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("captured", "env", s)
	for _, text := range []string{s.String(), fmt.Sprintf("%v %+v %#v %s %q %x", s, s, s, s, s, s), fmt.Sprint(&s), log.String()} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") {
			t.Errorf("%s", text)
		}
	}
	if got := (Snapshot{}).String(); got != "no login environment" {
		t.Error(got)
	}
	s.Environ()[0] = "changed"
	if s.Environ()[0] != "TOKEN=hunter2" {
		t.Error("the snapshot can be changed from outside")
	}
}

func TestOver(t *testing.T) {
	s := Snapshot{vars: []string{"JAVA_HOME=/jdk21", "PATH=/nvm:/usr/bin:/bin"}}
	got := s.Over([]string{"PATH=/venv/bin:/usr/bin:/extra", "VIRTUAL_ENV=/venv", "JAVA_HOME=/jdk8", "noentry"})
	want := []string{"JAVA_HOME=/jdk21", "PATH=/venv/bin:/nvm:/usr/bin:/bin:/extra", "VIRTUAL_ENV=/venv"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, c := range [][3]string{ // session, login, joined
		{"/usr/bin:/bin", "/pyenv:/usr/bin:/bin", "/pyenv:/usr/bin:/bin"},
		{"", "/bin", "/bin"},
		{"/bin", "", "/bin"},
		{".:bin::/venv:/bin", "/bin", "/venv:/bin"},
		{"/a:/a:/bin:/b:/b:/a", "/bin", "/a:/bin:/b"},
		{"/opt/x", "/bin", "/bin:/opt/x"},
		{"/bin", ".:/bin", ".:/bin"},
	} {
		if got := joinPath(c[0], c[1]); got != c[2] {
			t.Errorf("joinPath(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
