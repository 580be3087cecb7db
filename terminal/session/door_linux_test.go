package session_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// A person answers from another process; here, from beside.
func TestAPersonAnswersThroughTheDoor(t *testing.T) {
	at := newPlace(t, sandbox.DangerFullAccess)
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30), "answers")
	ctx, cancel := context.WithCancel(t.Context())
	closed, err := at.store.Door(ctx, dir)
	must(t, err)
	s := at.tty("bash", "-c", `read -rsp "Passphrase for key: " p; echo; echo "${#p}"; sleep 0.1`)
	at.tty("sleep", "1000")
	var all []session.Waiting
	for end := time.Now().Add(patience); len(all) == 0 || all[0].Prompt == ""; time.Sleep(20 * time.Millisecond) { // echo goes off before the prompt comes
		if time.Now().After(end) {
			t.Fatal("nobody waits")
		}
		all, err = session.AllWaiting(ctx, dir)
		must(t, err)
	}
	if len(all) != 1 || all[0].Session != s.ID() || all[0].Prompt != "Passphrase for key:" || !strings.HasPrefix(all[0].Command, "bash -c") {
		t.Errorf("%+v", all)
	}
	secret := []byte("canary-word")
	must(t, session.Give(ctx, all[0], secret))
	if string(secret) != strings.Repeat("\x00", len(secret)) {
		t.Errorf("left %q", secret)
	}
	if got := collect(t, s, session.Wait{Until: session.Until{Exit: true}, Ceiling: patience}); !strings.HasSuffix(got.Text(), "\n11\n") {
		t.Errorf("%q", got.Text())
	}
	if err := session.Give(ctx, all[0], []byte("again")); fault.KindOf(err) != fault.Conflict {
		t.Errorf("%v", err)
	}
	if err := session.Give(ctx, all[0], make([]byte, 5<<10)); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("%v", err)
	}
	cancel()
	<-closed
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestADoorIsTheUsersAlone(t *testing.T) {
	at := newPlace(t, sandbox.DangerFullAccess)
	dir := filepath.Join(t.TempDir(), "answers")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Chmod(dir, 0o755))
	if _, err := at.store.Door(t.Context(), dir); fault.KindOf(err) != fault.Invalid {
		t.Errorf("%v", err)
	}
	if _, err := session.AllWaiting(t.Context(), dir); fault.KindOf(err) != fault.Invalid {
		t.Errorf("%v", err)
	}
	if all, err := session.AllWaiting(t.Context(), filepath.Join(dir, "absent")); err != nil || all != nil {
		t.Errorf("%v, %v", all, err)
	}
	must(t, os.Chmod(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "1-gone.answers"), nil, 0o600)) // of a process that is gone
	if all, err := session.AllWaiting(t.Context(), dir); err != nil || all != nil {
		t.Errorf("%v, %v", all, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}
