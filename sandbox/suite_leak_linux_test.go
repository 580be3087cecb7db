package sandbox_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// held is what could leak: of this process and of its children.
type held struct{ goroutines, files, children, childFiles int }

func holding(t testing.TB) (h held) {
	h.goroutines, h.files = runtime.NumGoroutine(), countDir("/proc/self/fd")
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	parent := fmt.Sprintf(" %d ", os.Getpid())
	for _, name := range stats {
		b, _ := os.ReadFile(name)
		if _, rest, ok := strings.Cut(string(b), ") "); ok && strings.HasPrefix(rest[1:], parent) {
			h.children++
			h.childFiles += countDir(filepath.Dir(name) + "/fd") // 0 where it is not ours to see
		}
	}
	return h
}

func countDir(dir string) int {
	entries, _ := os.ReadDir(dir)
	return len(entries)
}

// within allows two more descriptors of a child's: the runtime's poller, which it makes late and once.
func (h held) within(most held) bool {
	return h.goroutines <= most.goroutines && h.files <= most.files && h.children <= most.children && h.childFiles <= most.childFiles+2
}

// nothingMore waits until no more is held than before.
func nothingMore(t *testing.T, before held) {
	t.Helper()
	after := holding(t)
	for end := time.Now().Add(patience); !after.within(before); after = holding(t) {
		if time.Now().After(end) {
			stacks := make([]byte, 64<<10)
			t.Fatalf("before %+v, after %+v\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("before %+v, after %+v", before, after)
}

// 10,000 runs leave no goroutine, descriptor or process behind: here, in the resident, and in the box.
func TestSuiteRunsLeakNothing(t *testing.T) {
	box := newPlace(t).open(t)
	one := func(i int, r *rand.Rand) {
		c := bash([]string{"true", "echo x; echo y >&2", "kill -9 $$", "(true &)", "cat", "exit 9", "setsid true &"}[r.IntN(7)])
		switch r.IntN(6) {
		case 0:
			c.Stdin = strings.NewReader("fed")
		case 1:
			c.OpenStdin = true
		case 2:
			c.TTY = &process.Size{}
		case 3:
			c.Argv = []string{"/bin/no-such-program"}
		}
		job, err := box.Start(t.Context(), c)
		if err != nil {
			t.Error(err)
			return
		}
		spawned := job.Spawned(t.Context())
		switch {
		case c.OpenStdin:
			job.Write(t.Context(), []byte("typed"))
			job.CloseInput(t.Context())
		case c.TTY != nil:
			job.Write(t.Context(), []byte("\x04"))
		}
		if r.IntN(10) == 0 {
			job.Kill()
		}
		for range spawned.Output {
		}
		<-spawned.Exit
	}
	for i := range 50 {
		one(i, rand.New(rand.NewPCG(1, uint64(i))))
	}
	before := holding(t)
	play(t, 10_000, 4, one)
	nothingMore(t, before)
	eventually(t, "an empty box", func() bool {
		return run(t, box, bash("n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; echo $n")).out == "2\n" // the resident and the asking shell
	})
	must(t, box.Close())
}

// Boxes leave nothing behind either.
func TestSuiteBoxesLeakNothing(t *testing.T) {
	p := newPlace(t)
	one := func(i int) {
		spec := p.spec
		spec.Dir = filepath.Join(p.base, fmt.Sprint("box", i))
		box, err := sandbox.Open(t.Context(), spec)
		if err != nil {
			t.Error(err)
			return
		}
		run(t, box, bash("setsid sleep 1000 & echo x"))
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}
	one(-1)
	before := holding(t)
	play(t, 400, 1, func(i int, _ *rand.Rand) { one(i) })
	nothingMore(t, before)
}
