package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// A box of one command ends with it, and what is left is the command's output.
func TestABoxOfOneCommandEndsWithIt(t *testing.T) {
	confined := newPlace(t)
	confined.spec.Once = true
	box := confined.open(t)
	if got := run(t, box, bash("sleep 300 & echo out; echo err >&2; exit 3")); got.Code != 3 || got.out != "out\n" || got.err != "err\n" {
		t.Errorf("got %+v", got)
	}
	select {
	case <-box.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the box lives on")
	}
	_, err := box.Start(t.Context(), bash("true"))
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("another command: %v", err)
	}
	must(t, box.Close())
	if got := strings.Join(names(t, confined.spec.Dir), " "); got != "order stderr stdout" {
		t.Errorf("its folder holds %s", got)
	}
}

// Bytes that nobody has read yet are there after the box, however many.
func TestABoxOfOneCommandLosesNothing(t *testing.T) {
	p := newPlace(t)
	p.spec.Once = true
	job := start(t, p.open(t), bash("head -c 3000000 /dev/zero"))
	wait(t, job)
	size := int64(0)
	for chunk, err := range job.Follow(t.Context()) {
		must(t, err)
		size += int64(len(chunk.Data))
	}
	if size != 3_000_000 {
		t.Errorf("%d bytes of 3000000", size)
	}
}

func TestABoxOfOneCommandTakesNoSecond(t *testing.T) {
	p := newPlace(t)
	p.spec.Once = true
	box := p.open(t)
	first := start(t, box, process.Command{Key: "one", Argv: []string{"/bin/cat"}, OpenStdin: true})
	if _, err := box.Start(t.Context(), process.Command{Key: "two", Argv: []string{"/bin/true"}}); err == nil || !strings.Contains(err.Error(), "box of one") {
		t.Errorf("a second command: %v", err)
	}
	must(t, first.CloseInput(t.Context()))
	if exit := wait(t, first); exit.Code != 0 {
		t.Errorf("the first: %+v", exit)
	}
}

func TestABoxOfOneCommandHasNoGrace(t *testing.T) {
	_, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(t.TempDir(), "box"), Cwd: "/", Once: true, Grace: time.Second})
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
