package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// The password goes from this command to the one that asks, and stands in nothing that either says.
func TestAnswer(t *testing.T) {
	data := t.TempDir()
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(t.TempDir(), "box"), Cwd: "/", Policy: sandbox.Policy{Mode: sandbox.DangerFullAccess}})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	store := session.New(session.Options{})
	defer store.Close()
	ctx, cancel := context.WithCancel(t.Context())
	closed, err := store.Door(ctx, filepath.Join(data, answersFolder))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); <-closed }()
	s, err := store.Start(ctx, session.Spec{Starter: box, Command: process.Command{Dir: "/", TTY: &process.Size{}, Env: []string{"PATH=/usr/bin:/bin"},
		Argv: []string{"bash", "-c", `read -rsp "Password: " p; echo; [ "${#p}" = 11 ] && echo right`}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Collect(ctx, session.Wait{Yield: time.Minute}); err != nil || !got.Password {
		t.Fatalf("%+v, %v", got, err)
	}
	code, out, errs := says(t, data, "canary-word\n", "answer")
	if code != exitDone || out != "" || !strings.Contains(errs, "Password:") || !strings.HasSuffix(errs, "answered\n") {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
	got, err := s.Collect(ctx, session.Wait{Yield: time.Minute})
	if err != nil || !strings.HasSuffix(got.Text(), "right\n") {
		t.Errorf("%+v, %v", got, err)
	}
	if bytes.Contains([]byte(errs+got.Text()), []byte("canary")) {
		t.Errorf("%q, %q", errs, got.Text())
	}
}
