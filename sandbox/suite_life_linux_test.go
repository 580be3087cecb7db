package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Ways in which a call's processes slip away. Each ends as "sleep NN", by which the host's process table shows it.
var slips = []string{
	"sleep NN &",
	"setsid sleep NN &",
	"setsid setsid sleep NN >/dev/null 2>&1 &",
	"nohup sleep NN >/dev/null 2>&1 &",
	"(setsid bash -c '(sleep NN &)' &);",
	"bash -c 'trap \"\" TERM HUP INT QUIT; sleep NN' &",
	"env -i setsid sleep NN &",
	"bash -c 'exec <&- >&- 2>&-; sleep NN' &",
	"perl -e 'fork; fork; exec \"sleep\", \"NN\"' &",
	"perl -e 'setpgrp; $0 = \"init\"; exit if fork; exit if fork; exec \"sleep\", \"NN\"' &",
	"bash -c 'sleep NN & disown -a; kill -STOP $$' &",
	"coproc sleep NN;",
}

// slipping is a script whose processes all try to outlive it.
func slipping(r *rand.Rand, mark int) string {
	var b strings.Builder
	for range 1 + r.IntN(5) {
		b.WriteString(slips[r.IntN(len(slips))] + " ")
	}
	b.WriteString("echo up; sleep NN")
	return strings.ReplaceAll(b.String(), "NN", strconv.Itoa(mark))
}

// nextMark numbers the sleeps of this run of the tests: no other has its own.
var nextMark atomic.Int64

func newMark() int { return 100_000_000 + os.Getpid()%10_000*10_000 + int(nextMark.Add(1)) }

// sleeping lists the host's processes that sleep by a mark; a dead one has no arguments.
func sleeping(mark int) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Equal(b, fmt.Appendf(nil, "sleep\x00%d\x00", mark)) {
			pids = append(pids, f)
		}
	}
	return pids
}

// server listens in its box and answers with its number. It is what a call leaves behind.
const server = `nohup perl -MIO::Socket::INET -e '
	my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1:0") or die;
	open my $f, ">", "$ENV{STATE}.new"; print $f $s->sockport, "\n"; close $f; rename "$ENV{STATE}.new", $ENV{STATE};
	while (my $c = $s->accept) { print $c "$$\n"; close $c }' >/dev/null 2>&1 &
while [ ! -e "$STATE" ]; do sleep 0.01; done`

func ask(t *testing.T, box *sandbox.Box, state string) string {
	t.Helper()
	c := bash(`exec 3<>/dev/tcp/127.0.0.1/$(cat "$STATE"); cat <&3`)
	c.Env = append([]string{"STATE=" + state}, c.Env...)
	got := run(t, box, c)
	if got.Code != 0 || got.out == "" {
		t.Errorf("the server does not answer: %+v", got)
	}
	return got.out
}

// A call that is ended by its time limit or by a cancel leaves nothing, and a server of an earlier call answers on.
func TestSuiteCallsEndWhole(t *testing.T) {
	t.Parallel()
	boxes := map[string]func(t *testing.T) (box *sandbox.Box, state string){
		"jail": func(t *testing.T) (*sandbox.Box, string) { return newPlace(t).open(t), "/mnt/data/port" },
		"none": func(t *testing.T) (*sandbox.Box, string) {
			box, base := unconfined(t)
			return box, filepath.Join(base, "port")
		},
	}
	for name, open := range boxes {
		t.Run(name, func(t *testing.T) {
			box, state := open(t)
			c := bash(server)
			c.Env = append([]string{"STATE=" + state}, c.Env...)
			if got := run(t, box, c); got.Code != 0 {
				t.Fatalf("the server: %+v", got)
			}
			before := ask(t, box, state)
			var slowest atomic.Int64
			play(t, 400, 3, func(i int, r *rand.Rand) {
				mark := newMark()
				c := bash(slipping(r, mark))
				timedOut := r.IntN(2) == 0
				if timedOut {
					c.Timeout = time.Second
				}
				job, err := box.Start(t.Context(), c)
				if err != nil {
					t.Error(err)
					return
				}
				if !timedOut {
					<-firstChunk(t, job)
					job.Kill()
				}
				exit, err := job.Wait(t.Context())
				ended := time.Now()
				if err != nil || exit.TimedOut != timedOut || exit.Cancelled == timedOut {
					note, _ := readAll(job, process.Stderr)
					t.Errorf("round %d: %+v, %v: %s\n%s", i, exit, err, c.Argv[2], note)
				}
				gone(t, mark, c.Argv[2])
				slowest.Store(max(slowest.Load(), int64(time.Since(ended))))
			})
			if after := ask(t, box, state); after != before {
				t.Errorf("the server was %q and is %q", before, after)
			}
			t.Logf("the last was seen gone %v after its call's end", time.Duration(slowest.Load()).Round(time.Millisecond))
		})
	}
}

func firstChunk(t *testing.T, job *process.Job) <-chan struct{} {
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for range job.Follow(t.Context()) {
			return
		}
	}()
	return seen
}

func gone(t *testing.T, mark int, script string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		left := sleeping(mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%d processes live on: %v\n%s", len(left), left, script)
			return
		}
	}
}

// The end of a box, in order or by kill -9 of its owner, leaves nothing of any call: ended, running or left behind.
func TestSuiteBoxesEndWhole(t *testing.T) {
	t.Parallel()
	ways := []string{"jail closed", "none closed", "jail, owner killed", "none, owner killed"}
	play(t, 400, 2, func(i int, r *rand.Rand) {
		way, mark := ways[i%len(ways)], newMark()
		spec := noneSpec(t)
		if strings.HasPrefix(way, "jail") {
			spec = newPlace(t).spec
		}
		script := slipping(r, mark)
		began := time.Now()
		if strings.HasSuffix(way, "killed") {
			c := bash(script)
			killedOwner(t, ownership{spec, c}, func() bool {
				b, _ := os.ReadFile(filepath.Join(spec.Dir, "jobs", c.Key, "0", "stdout"))
				return bytes.Contains(b, []byte("up"))
			})
		} else {
			box, err := sandbox.Open(t.Context(), spec)
			if err != nil {
				t.Errorf("%s: %v", way, err)
				return
			}
			run(t, box, bash(strings.TrimSuffix(script, "sleep "+strconv.Itoa(mark)))) // what an ended call left behind
			<-firstChunk(t, start(t, box, bash(script)))
			eventually(t, way+": something sleeps", func() bool { return len(sleeping(mark)) > 0 })
			began = time.Now()
			if err := box.Close(); err != nil {
				t.Errorf("%s: %v", way, err)
			}
		}
		gone(t, mark, way+": "+script)
		t.Logf("%s: gone %v later", way, time.Since(began).Round(time.Millisecond))
	})
}

func noneSpec(t *testing.T) sandbox.Spec {
	base := t.TempDir()
	return sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: base,
		Policy: sandbox.Policy{Mode: sandbox.DangerFullAccess, Network: sandbox.NetworkFull}}
}

// A number that the kernel gives to another process is not the call's any more. It takes a whole turn of the kernel's
// counter, so a normal run leaves it out; and in a namespace of its own the counter has four million steps.
func TestSuiteNumbersAreGivenAgain(t *testing.T) {
	if !suiteAll() {
		require.Feature(t, "all-suites", errors.New("only with HARDSHELL_SUITES=all"))
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(readFile(t, "/proc/sys/kernel/pid_max"))))
	must(t, err)
	if most > 1<<16 {
		err = fmt.Errorf("pid_max is %d", most)
	}
	require.Feature(t, "small-pid-max", err)
	box, _ := unconfined(t)
	first := start(t, box, bash("sleep 1000 & echo $!; kill -9 $!; wait $!; sleep 1000"))
	<-firstChunk(t, first)
	text, err := readAll(first, process.Stdout)
	must(t, err)
	number := strings.TrimSpace(string(text))
	second := bash(`exec perl -e '$| = 1; for (1..1_000_000) { my $p = fork; die "fork: $!" unless defined $p;
		if (!$p) { exit unless $$ == ` + number + `; print "mine\n"; exec "sleep", "1000" }
		if ($p == ` + number + `) { sleep 1000 } waitpid $p, 0 }'`)
	second.Timeout = 10 * time.Minute
	other := start(t, box, second)
	<-firstChunk(t, other)
	first.Kill()
	wait(t, first)
	if got := run(t, box, bash("kill -0 "+number)); got.Code != 0 || other.HasExited() {
		t.Errorf("the other call's process died: %+v", got)
	}
	other.Kill()
	wait(t, other)
}
