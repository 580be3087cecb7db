package sandbox_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// neighbour runs short commands in a box of its own until it is stopped, and says how long the slowest took.
func neighbour(t *testing.T) (stop func() time.Duration) {
	t.Helper()
	box := newPlace(t).open(t)
	var over atomic.Bool
	slowest := make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for !over.Load() {
			began := time.Now()
			job, err := box.Start(t.Context(), bash("echo here"))
			if err == nil {
				_, err = job.Wait(t.Context())
			}
			if err != nil {
				t.Errorf("the neighbour: %v", err)
				break
			}
			most = max(most, time.Since(began))
			time.Sleep(20 * time.Millisecond)
		}
		slowest <- most
	}()
	return func() time.Duration { over.Store(true); return <-slowest }
}

const (
	memoryLimit  = 128 << 20
	processLimit = 64
)

func limited(t *testing.T) *sandbox.Box {
	t.Helper()
	p := newPlace(t)
	p.spec.Limits = sandbox.Limits{MemoryBytes: memoryLimit, Pids: processLimit}
	box := p.open(t)
	t.Logf("limits are %s, %v", box.Report().Limits, box.Report().Missing)
	if l := box.Report().Limits; l != "hard" && l != "soft" {
		t.Errorf("limits are %q", l)
	}
	return box
}

// What takes all it can get is ended, by the kernel's limit or by the watchdog, and the result names the limit. The
// time limit of the commands is far away. A neighbour goes on.
func TestLimitsEndACall(t *testing.T) {
	t.Parallel()
	perl := func(script string) []string { return []string{"perl", "-e", script} }
	cases := []struct {
		name  string
		argv  []string
		limit string
	}{
		{"a fork bomb", perl(`while (1) { fork }`), "processes"},
		{"a fork bomb of a shell's", []string{"bash", "-c", `:() { :|:& }; :; sleep 20`}, ""}, // it may give up by itself
		{"a fork bomb that moves", []string{"bash", "-c", `perl -e 'for (;;) { exit if fork; fork }'; sleep 1000`}, "processes"},
		{"a fork bomb of sessions", perl(`use POSIX; while (1) { if (!fork) { POSIX::setsid() } }`), "processes"},
		{"100 GB", perl(`push @a, "x" x (1 << 20) for 1 .. 100_000`), "memory"},
		{"100 GB in one piece", perl(`$a = "x" x (100 << 30); $a =~ tr/x/y/`), "memory"},
		{"100 GB in a pipeline", []string{"bash", "-c", "head -c 100G /dev/zero | tail"}, "memory"},
		{"100 GB beside files in memory", perl(`open F, ">", "/dev/shm/x"; print F "x" x (1 << 20) for 1 .. 63; push @a, "x" x (1 << 20) for 1 .. 100_000`), "memory"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			box, stop := limited(t), neighbour(t)
			command := process.Command{Key: newKey(), Argv: c.argv, Env: environment, Timeout: 2 * time.Minute}
			began := time.Now()
			got := run(t, box, command)
			took := time.Since(began)
			refused := c.limit == "memory" && strings.HasPrefix(got.err, "Out of memory") // the kernel gave none in the first place
			if c.limit != "" && !refused && (got.Limit != c.limit || got.Code != 137 || got.TimedOut || got.OutOfMemory != (c.limit == "memory")) {
				t.Errorf("got %+v", got)
			}
			t.Logf("ended after %v; the neighbour's slowest echo took %v", took.Round(time.Millisecond), stop().Round(time.Millisecond))
			if got := run(t, box, bash("echo alive")); got.out != "alive\n" {
				t.Errorf("the box after it: %+v", got)
			}
		})
	}
}

// The kernel kills some of many; the watchdog ends the call.
func TestLimitsCountAllOfACall(t *testing.T) {
	t.Parallel()
	box := limited(t)
	c := process.Command{Key: newKey(), Env: environment, Timeout: 2 * time.Minute, Argv: []string{"perl", "-e",
		`for (1 .. 20) { if (!fork) { $a = "x" x (20 << 20); $a .= "y"; sleep 2; exit } } 1 while wait > 0; print "over\n"`}}
	if got := run(t, box, c); !got.OutOfMemory || got.TimedOut || got.out == "" && got.Limit != "memory" {
		t.Errorf("got %+v", got)
	}
}

// A call that has ended and left a bomb behind is told in its later output.
func TestLimitsEndWhatACallLeftBehind(t *testing.T) {
	t.Parallel()
	box := limited(t)
	job := start(t, box, bash("perl -e 'while (1) { fork }' & echo up"))
	if got := wait(t, job); got.Code != 0 || got.out != "up\n" {
		t.Errorf("got %+v", got)
	}
	eventually(t, "a word about the limit", func() bool {
		b, err := readAll(job, process.Stderr)
		return err == nil && strings.Contains(string(b), "limit of processes was reached")
	})
	eventually(t, "an empty box", func() bool {
		return run(t, box, bash("n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; echo $n")).out == "2\n"
	})
}

// Processes that share their memory take it once, and a full table that empties again is no breach.
func TestLimitsLeaveTheInnocentAlone(t *testing.T) {
	t.Parallel()
	box := limited(t)
	shared := process.Command{Argv: []string{"perl", "-e", `$a = "x" x (60 << 20); for (1 .. 8) { if (!fork) { sleep 3; exit } } 1 while wait > 0; print "fine\n"`}}
	burst := process.Command{Argv: []string{"perl", "-e", `for (1 .. 100) { $p = fork; last unless defined $p; if (!$p) { sleep 1; exit } } 1 while wait > 0; print "fine\n"`}}
	for _, c := range []process.Command{shared, burst} {
		c.Key, c.Env, c.Timeout = newKey(), environment, time.Minute
		if got := run(t, box, c); got.out != "fine\n" || got.Code != 0 || got.Limit != "" || got.OutOfMemory {
			t.Errorf("got %+v", got)
		}
	}
}

// What the resident has as its priority, so that it can end its commands, they do not have.
func TestCommandsHaveTheUsualPriority(t *testing.T) {
	box := limited(t)
	if got := run(t, box, bash("nice; (nice); ulimit -e")); got.out != "0\n0\n0\n" {
		t.Errorf("got %+v", got)
	}
	if got := run(t, box, bash("nice -n -1 nice")); got.out != "0\n" {
		t.Errorf("it raised its priority: %+v", got)
	}
}
