package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// patience is for what must happen and usually takes milliseconds.
const patience = 20 * time.Second

// hostUID owns the folders of hosted boxes when the tests run as root.
const hostUID = 1_999_000_001

var environment = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/user", "LANG=C.UTF-8"}

// place is a hosted box's folders on the host.
type place struct {
	base string
	spec sandbox.Spec
}

func newPlace(t testing.TB) place {
	t.Helper()
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base := t.TempDir()
	h := &sandbox.Hosted{Workspace: filepath.Join(base, "data"), Tmp: filepath.Join(base, "tmp"), Home: filepath.Join(base, "home")}
	for _, d := range []string{h.Workspace, h.Tmp, h.Home} {
		must(t, os.Mkdir(d, 0o755))
	}
	if os.Geteuid() == 0 {
		h.UID = hostUID
		for _, d := range []string{h.Workspace, h.Tmp, h.Home} {
			must(t, os.Chown(d, hostUID, hostUID))
		}
	}
	return place{base, sandbox.Spec{Dir: filepath.Join(base, "box"), Hosted: h}}
}

func (p place) open(t testing.TB) *sandbox.Box {
	t.Helper()
	box, err := sandbox.Open(t.Context(), p.spec)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(p.spec.Dir, "log"))
		t.Fatalf("open: %v\n%s", err, log)
	}
	t.Cleanup(func() { box.Close() })
	return box
}

// data is the path of a workspace file on the host.
func (p place) data(name string) string { return filepath.Join(p.spec.Hosted.Workspace, name) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var serial struct {
	sync.Mutex
	n int
}

func newKey() string {
	serial.Lock()
	defer serial.Unlock()
	serial.n++
	return "k" + strconv.Itoa(serial.n)
}

func bash(script string) process.Command {
	return process.Command{Key: newKey(), Argv: []string{"bash", "-c", script}, Env: environment, Timeout: time.Minute}
}

func start(t testing.TB, box *sandbox.Box, c process.Command) *process.Job {
	t.Helper()
	job, err := box.Start(t.Context(), c)
	must(t, err)
	return job
}

// result is a command's end with its whole output.
type result struct {
	process.Exit
	out, err string
}

func wait(t testing.TB, job *process.Job) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	exit, err := job.Wait(ctx)
	must(t, err)
	out, err := io.ReadAll(job.Reader(process.Stdout))
	must(t, err)
	note, err := io.ReadAll(job.Reader(process.Stderr))
	must(t, err)
	return result{exit, string(out), string(note)}
}

func run(t testing.TB, box *sandbox.Box, c process.Command) result {
	t.Helper()
	return wait(t, start(t, box, c))
}

// eventually polls for something that must become true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func TestHowACommandEnds(t *testing.T) {
	p := newPlace(t)
	box := p.open(t)
	must(t, os.WriteFile(p.data("plain"), []byte("#!/bin/sh\necho no\n"), 0o644))
	must(t, os.WriteFile(p.data("script"), []byte("echo no first line $1\n"), 0o755))
	cases := []struct {
		name    string
		command process.Command
		code    int
		signal  string
		out     string
		err     string
	}{
		{name: "success", command: bash("echo hi; echo oops >&2"), out: "hi\n", err: "oops\n"},
		{name: "failure", command: bash("exit 3"), code: 3},
		{name: "a program's own 124", command: bash("exit 124"), code: 124},
		{name: "signal", command: bash("kill -TERM $$"), code: 143, signal: "SIGTERM"},
		{name: "killed", command: bash("kill -KILL $$"), code: 137, signal: "SIGKILL"},
		{name: "not found", command: process.Command{Argv: []string{"no-such-program"}}, code: 127, err: "no-such-program: command not found\n"},
		{name: "not executable", command: process.Command{Argv: []string{"/mnt/data/plain"}}, code: 126, err: "/mnt/data/plain: permission denied\n"},
		{name: "script without a first line", command: process.Command{Argv: []string{"/mnt/data/script", "x"}}, out: "no first line x\n"},
		{name: "relative to the folder", command: process.Command{Argv: []string{"./script", "y"}, Dir: "/mnt/data"}, out: "no first line y\n"},
		{name: "found in its own PATH", command: process.Command{Argv: []string{"script", "z"}, Env: []string{"PATH=/nowhere:/mnt/data"}}, out: "no first line z\n"},
		{name: "no such folder", command: process.Command{Argv: []string{"/bin/true"}, Dir: "/nowhere"}, code: 126, err: "cannot enter /nowhere\n"},
		{name: "empty input", command: bash("cat"), out: ""},
		{name: "input", command: process.Command{Argv: []string{"cat"}, Stdin: strings.NewReader("fed\n"), Env: environment}, out: "fed\n"},
		{name: "input by path", command: process.Command{Argv: []string{"cat", "/dev/stdin"}, Stdin: strings.NewReader("fed\n"), Env: environment}, out: "fed\n"},
		{name: "output by path", command: bash("echo x >/dev/stdout; echo y >/dev/stderr"), out: "x\n", err: "y\n"},
		{name: "its environment and no other", command: process.Command{Argv: []string{"/usr/bin/env"}, Env: []string{"A=1", "HARDSHELL_SANDBOX=a lie", "CODEX_SANDBOX_NETWORK_DISABLED=0"}},
			out: "A=1\nHARDSHELL_SANDBOX=jail\nHARDSHELL_SANDBOX_MODE=read-only\nHARDSHELL_SANDBOX_NETWORK_DISABLED=1\nCODEX_SANDBOX_NETWORK_DISABLED=1\n"},
		{name: "stands in the workspace", command: bash("pwd"), out: "/mnt/data\n"},
		{name: "is user 1000", command: bash("id -un; id -u; id -G"), out: "user\n1000\n1000\n"},
		{name: "has no capability", command: bash("grep -c '^Cap.*:.0000000000000000' /proc/self/status; grep NoNewPrivs /proc/self/status"), out: "5\nNoNewPrivs:\t1\n"},
		{name: "three descriptors only", command: bash("cd /proc/self/fd && echo *"), out: "0 1 2\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.command.Key = newKey()
			got := run(t, box, c.command)
			if strings.HasPrefix(c.name, "three") { // the glob itself holds the folder open
				got.out = strings.Replace(got.out, " 3\n", "\n", 1)
			}
			if got.Code != c.code || got.Signal != c.signal || got.out != c.out || got.err != c.err || got.TimedOut || got.Cancelled {
				t.Errorf("got %+v, want code %d signal %q out %q err %q", got, c.code, c.signal, c.out, c.err)
			}
			if got.Stdout != int64(len(got.out)) && !strings.HasPrefix(c.name, "three") || got.Stderr != int64(len(got.err)) {
				t.Errorf("counts %d and %d of %q and %q", got.Stdout, got.Stderr, got.out, got.err)
			}
		})
	}
}

func TestOutputIsByteExact(t *testing.T) {
	box := newPlace(t).open(t)
	var want bytes.Buffer
	for i := range 300_000 {
		fmt.Fprintf(&want, "%09d\n", i)
	}
	got := run(t, box, bash("seq -f %09.0f 0 299999"))
	if got.out != want.String() {
		t.Errorf("%d bytes, want %d", len(got.out), want.Len())
	}
	for _, size := range []int{1, 4095, 65536, 65537, 1 << 20} {
		if got := run(t, box, bash(fmt.Sprintf("head -c %d /dev/zero; head -c %d /dev/zero >&2", size, size))); len(got.out) != size || len(got.err) != size {
			t.Errorf("%d: got %d and %d", size, len(got.out), len(got.err))
		}
	}
}

func TestManyWritersLoseNothing(t *testing.T) {
	box := newPlace(t).open(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				if got := run(t, box, bash("echo -n 1; echo -n 2; printf 3 >&2")); got.out != "12" || got.err != "3" {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
	wg.Wait()
}

func TestSpoolIsCapped(t *testing.T) {
	p := newPlace(t)
	box := p.open(t)
	c := bash("head -c 200000000 /dev/zero | tr '\\0' x")
	got := start(t, box, c)
	exit, err := got.Wait(t.Context())
	must(t, err)
	if exit.Stdout != 200_000_000 {
		t.Errorf("counted %d bytes", exit.Stdout)
	}
	st, err := os.Stat(filepath.Join(p.spec.Dir, "jobs", c.Key, "0", "stdout"))
	must(t, err)
	if st.Size() != 200_000_000 {
		t.Errorf("the spool's size is %d: it is no longer the stream's offset", st.Size())
	}
	if used := blocks(st); used > 70<<20 {
		t.Errorf("the spool takes %d bytes of the disk", used)
	}
}

func TestTimeoutKeepsOutputAndNamesItself(t *testing.T) {
	box := newPlace(t).open(t)
	c := bash("echo before; sleep 1000")
	c.Timeout = 300 * time.Millisecond
	if got := run(t, box, c); got.Code != 124 || !got.TimedOut || got.out != "before\n" {
		t.Errorf("got %+v", got)
	}
}

func TestCancelKeepsOutput(t *testing.T) {
	box := newPlace(t).open(t)
	job := start(t, box, bash("echo before; sleep 1000"))
	eventually(t, "output", func() bool { return job.Reader(process.Stdout).Size() == 7 })
	job.Kill()
	if got := wait(t, job); got.Code != 137 || !got.Cancelled || got.TimedOut || got.out != "before\n" {
		t.Errorf("got %+v", got)
	}
}

// living counts processes of the box whose arguments hold a mark.
func living(t testing.TB, box *sandbox.Box, mark string) int {
	t.Helper()
	got := run(t, box, bash(fmt.Sprintf("n=0; for f in /proc/[0-9]*/cmdline; do if tr '\\0' ' ' <$f 2>/dev/null | grep -q '^sleep %s'; then n=$((n+1)); fi; done; echo $n", mark)))
	n, err := strconv.Atoi(strings.TrimSpace(got.out))
	must(t, err)
	return n
}

func TestTimeoutKillsItsOwnCallAndNoOther(t *testing.T) {
	box := newPlace(t).open(t)
	if got := run(t, box, bash("nohup setsid sleep 5001 >/dev/null 2>&1 & echo up")); got.out != "up\n" {
		t.Fatalf("server: %+v", got)
	}
	other := start(t, box, bash("sleep 5002"))
	escapees := "setsid sh -c 'setsid sleep 5003 & setsid sleep 5003 & exit 0'; (setsid bash -c '(sleep 5003 &)' &); nohup sleep 5003 & "
	c := bash(escapees + "sleep 5003")
	c.Timeout = time.Second
	if got := run(t, box, c); !got.TimedOut {
		t.Fatalf("got %+v", got)
	}
	if n := living(t, box, "5003"); n != 0 {
		t.Errorf("%d processes of the call that timed out live on", n)
	}
	if n := living(t, box, "5001"); n != 1 {
		t.Errorf("%d of the earlier call's server live, want 1", n)
	}
	if n := living(t, box, "5002"); n != 1 {
		t.Errorf("%d of the call beside it live, want 1", n)
	}
	other.Kill()
	wait(t, other)
}

func TestLaterOutputBelongsToTheJobNotTheCall(t *testing.T) {
	p := newPlace(t)
	box := p.open(t)
	job := start(t, box, bash("(while [ ! -e go ]; do sleep 0.01; done; echo late) & echo early"))
	if got := wait(t, job); got.out != "early\n" || got.Stdout != 6 {
		t.Errorf("got %+v", got)
	}
	must(t, os.WriteFile(p.data("go"), nil, 0o644))
	eventually(t, "late output", func() bool { return job.Reader(process.Stdout).Size() == 11 })
}

func TestAKeyRunsOnce(t *testing.T) {
	p := newPlace(t)
	box := p.open(t)
	c := process.Command{Key: "once", Index: 2, Argv: []string{"bash", "-c", "echo x >>count; echo done; exit 7"}, Env: environment}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if got := run(t, box, c); got.Code != 7 || got.out != "done\n" {
				t.Errorf("got %+v", got)
			}
		})
	}
	wg.Wait()
	if b, _ := os.ReadFile(p.data("count")); string(b) != "x\n" {
		t.Errorf("it ran: %q", b)
	}
	box.Close()
	again := p.open(t) // after a restart too
	if got := run(t, again, c); got.Code != 7 || got.out != "done\n" {
		t.Errorf("got %+v", got)
	}
	if b, _ := os.ReadFile(p.data("count")); string(b) != "x\n" {
		t.Errorf("it ran again: %q", b)
	}
}

func TestAnInterruptedCallSaysSo(t *testing.T) {
	p := newPlace(t)
	box := p.open(t)
	c := bash("sleep 1000")
	job := start(t, box, c)
	must(t, box.Close())
	if _, err := job.Wait(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("wait: %v", err)
	}
	again, err := p.open(t).Start(t.Context(), c)
	must(t, err)
	if _, err := again.Wait(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("after a restart: %v", err)
	}
}

func TestCloseLeavesNoProcess(t *testing.T) {
	p := newPlace(t)
	box := p.open(t)
	mark := "HARDSHELL_MARK=" + p.base
	c := bash("setsid sleep 1000 & setsid setsid sleep 1000 & sleep 0.1; exit 0")
	c.Env = append([]string{mark}, c.Env...)
	run(t, box, c)
	if len(marked(mark)) != 2 {
		t.Fatalf("%d processes, want 2", len(marked(mark)))
	}
	must(t, box.Close())
	if left := marked(mark); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	select {
	case <-box.Done():
	default:
		t.Error("the box is not done")
	}
	if _, err := box.Start(t.Context(), bash("true")); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("start after close: %v", err)
	}
}

// marked lists host processes with a mark in their environment.
func marked(mark string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(mark)) {
			pids = append(pids, f)
		}
	}
	return pids
}

func TestSignalsToTheResidentAreHarmless(t *testing.T) {
	box := newPlace(t).open(t)
	run(t, box, bash("for s in $(seq 1 64); do kill -$s 1 2>/dev/null; for t in /proc/1/task/*; do kill -$s ${t##*/} 2>/dev/null; done; done"))
	if got := run(t, box, bash("echo alive")); got.out != "alive\n" {
		t.Errorf("got %+v", got)
	}
}

func TestOrphansAreReaped(t *testing.T) {
	box := newPlace(t).open(t)
	run(t, box, bash("for i in $(seq 50); do setsid sh -c 'sleep 0.05 & exit 0' >/dev/null 2>&1; done"))
	eventually(t, "no zombie", func() bool {
		return run(t, box, bash("grep -ls '^State:.Z' /proc/[0-9]*/status | wc -l")).out == "0\n"
	})
}

func TestProcessLimit(t *testing.T) {
	p := newPlace(t)
	p.spec.Limits.Pids = 32
	box := p.open(t)
	bomb := bash(`exec perl -e '$|=1; for (1..500) { my $p = fork; last if !defined $p; if (!$p) { sleep 1000; exit } $n++ } print "$n\n"; sleep 1000'`)
	bomb.Timeout = 2 * time.Second
	job := start(t, box, bomb)
	eventually(t, "the bomb has filled the box", func() bool { return job.Reader(process.Stdout).Size() > 0 })
	for range 20 { // the resident lives, whatever the runtime wants of the kernel
		wait(t, start(t, box, bash("true")))
	}
	got := wait(t, job)
	if n, err := strconv.Atoi(strings.TrimSpace(got.out)); err != nil || n < 20 || n > 48 || !got.TimedOut {
		t.Errorf("got %+v", got)
	}
	if got := run(t, box, bash("echo alive")); got.out != "alive\n" {
		t.Errorf("got %+v", got)
	}
}

func TestMemoryLimit(t *testing.T) {
	p := newPlace(t)
	p.spec.Limits.MemoryBytes = 64 << 20
	box := p.open(t)
	if box.Report().Limits != "hard" {
		require.Feature(t, "cgroup", fmt.Errorf("%v", box.Report().Missing))
	}
	if got := run(t, box, bash("head -c 300m /dev/zero | tail -c 200m | wc -c")); got.Code != 0 || !got.OutOfMemory {
		t.Errorf("a pipeline whose end is well: got %+v", got)
	}
	if got := run(t, box, bash("ls /nope")); got.Code == 0 || got.OutOfMemory {
		t.Errorf("the call after it: got %+v", got)
	}
	late := bash("head -c 300m /dev/zero | tail -c 200m | wc -c; echo counted; sleep 1000")
	late.Timeout = 3 * time.Second
	if got := run(t, box, late); !got.TimedOut || strings.HasSuffix(got.out, "counted\n") && !got.OutOfMemory {
		t.Errorf("a call that ran into its time limit later: got %+v", got)
	}
	// What a call leaves behind may be killed when no call runs; the next one has nothing to do with it.
	if got := run(t, box, bash("(sleep 0.3; tail /dev/zero; echo killed >/mnt/data/killed) >/dev/null 2>&1 &")); got.OutOfMemory {
		t.Errorf("a call that left something behind: got %+v", got)
	}
	eventually(t, "what was left behind is killed", func() bool {
		_, err := os.Stat(p.data("killed"))
		return err == nil
	})
	if got := run(t, box, bash("ls /nope")); got.Code == 0 || got.OutOfMemory {
		t.Errorf("the call after what was left behind: got %+v", got)
	}
	alone := run(t, box, process.Command{Key: newKey(), Argv: []string{"tail", "/dev/zero"}, Env: environment, Timeout: time.Minute})
	if !alone.OutOfMemory || alone.Code != 137 {
		t.Errorf("got %+v", alone)
	}
	if got := run(t, box, bash("echo alive")); got.out != "alive\n" || got.OutOfMemory {
		t.Errorf("got %+v", got)
	}
}
