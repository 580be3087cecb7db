package runtimetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// reattachCases are for a runtime that is a container.Adopter. One that is not is not asked: what ran in its boxes is
// lost with their owner, and it says so by not being one.
var reattachCases = []testCase{
	{"a running command is found again", findsRunning},
	{"a command that ended alone is found again", findsEnded},
	{"a time limit needs no owner", limitWithoutOwner},
	{"a found command can be cancelled", cancelsFound},
	{"what never started stays fenced off", neverStaysFenced},
	{"a stale owner can do nothing", staleOwner},
	{"a lower fence adopts nothing", lowerFence},
	{"what is gone is told apart", goneAndKept},
	{"a box without its lease is not adopted", noLease},
	{"a settled command may be settled again", settling},
	{"a box in which nothing lives may rest", resting},
}

func runReattach(t *testing.T, factory func(t testing.TB) container.Runtime) {
	for _, c := range reattachCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newLeased(t, factory(t), 5*time.Minute)
			p.again = func() container.Runtime { return factory(t) }
			c.run(t, p)
		})
	}
}

// adopt makes the place another process's, as far as the runtime can tell: a fresh runtime with a higher fence.
func (p *place) adopt(t testing.TB) container.Keeper {
	t.Helper()
	p.runtime = p.again()
	p.spec.Fence++
	k, err := p.runtime.(container.Adopter).Adopt(wait(t), p.spec)
	if err != nil || k == nil {
		t.Fatalf("adopt: %v, %v", k, err)
	}
	p.box = k
	return k
}

// handOver lets the old owner go first.
func (p *place) handOver(t testing.TB) container.Keeper {
	t.Helper()
	if err := p.box.(container.Keeper).Detach(); err != nil {
		t.Fatal(err)
	}
	return p.adopt(t)
}

func find(t testing.TB, k container.Keeper, c process.Command, want container.CallState) container.Job {
	t.Helper()
	found, err := k.Reattach(wait(t), c)
	if err != nil || found.State != want || (found.Job == nil) != (want == container.NeverStarted) {
		t.Fatalf("reattach %s: %+v, %v, want %v", c.Key, found, err, want)
	}
	return found.Job
}

// chunks is a job's whole output in its order.
func chunks(t testing.TB, job container.Job) string {
	t.Helper()
	var all strings.Builder
	for c, err := range job.Follow(wait(t)) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%d:%s", c.Stream, c.Data)
	}
	return all.String()
}

const steps = `step() { until [ -e "go$1" ]; do sleep 0.01; done; }
echo ran >>runs; echo a; sleep 0.05; echo b >&2; touch up; step 1; echo c; sleep 0.05; echo d >&2; echo over >over; exit 7`

func findsRunning(t *testing.T, p *place) {
	c := p.command(steps)
	old := p.start(t, c)
	p.run(t, "sleep 7000011 >/dev/null 2>&1 &")
	p.until(t, "up", "")
	begun := time.Now()
	k := p.handOver(t)
	if _, err := old.Wait(wait(t)); fault.KindOf(err) != fault.Conflict {
		t.Errorf("the old owner was told %v", err)
	}
	if live := k.Live(); len(live) != 1 || live[0].Key() != c.Key {
		t.Errorf("%d calls live", len(live))
	}
	if k.LastEnd().IsZero() || k.LastEnd().After(begun) || k.Restarted() {
		t.Errorf("last end %v, restarted %v", k.LastEnd(), k.Restarted())
	}
	job := find(t, k, c, container.Started)
	p.put(t, "go1", nil)
	if got := chunks(t, job); got != "1:a\n2:b\n1:c\n2:d\n" {
		t.Errorf("got %q", got)
	}
	if o := p.end(t, job); o.Code != 7 || o.out != "a\nc\n" || o.err != "b\nd\n" {
		t.Errorf("got %+v", o)
	}
	if o := p.end(t, p.start(t, c)); o.Code != 7 { // the key is a key for every owner
		t.Errorf("started again: %+v", o)
	}
	p.want(t, "cat runs", "ran\n")
	p.untilCount(t, "7000011", "1")
}

func findsEnded(t *testing.T, p *place) {
	c := p.command(steps)
	p.start(t, c)
	p.until(t, "up", "")
	if err := p.box.(container.Keeper).Detach(); err != nil {
		t.Fatal(err)
	}
	p.put(t, "go1", nil)
	p.until(t, "over", "over")
	k := p.adopt(t)
	for deadline := time.Now().Add(patience); len(k.Live()) > 0; k = p.adopt(t) { // until it has ended without an owner
		if time.Now().After(deadline) {
			t.Fatal("it never ended")
		}
		k.Detach()
	}
	job := find(t, k, c, container.Started)
	if got := chunks(t, job); got != "1:a\n2:b\n1:c\n2:d\n" {
		t.Errorf("got %q", got)
	}
	if o := p.end(t, job); o.Code != 7 || o.out != "a\nc\n" || o.err != "b\nd\n" {
		t.Errorf("got %+v", o)
	}
}

func limitWithoutOwner(t *testing.T, p *place) {
	c := p.command("echo up >up; (setsid sleep 7000012 &); sleep 7000012")
	c.Timeout = 500 * time.Millisecond
	p.start(t, c)
	p.until(t, "up", "up")
	k := p.handOver(t)
	job := find(t, k, c, container.Started)
	if o := p.end(t, job); !o.TimedOut || o.Code != 124 {
		t.Errorf("got %+v", o)
	}
	p.untilCount(t, "7000012", "0")
}

func cancelsFound(t *testing.T, p *place) {
	c := p.command("echo up >up; echo said; (setsid sleep 7000013 &); sleep 7000013")
	p.start(t, c)
	p.until(t, "up", "up")
	k := p.handOver(t)
	job := find(t, k, c, container.Started)
	p.untilCount(t, "7000013", "2")
	job.Kill()
	if o := p.end(t, job); !o.Cancelled || o.out != "said\n" {
		t.Errorf("got %+v", o)
	}
	p.untilCount(t, "7000013", "0")
}

func neverStaysFenced(t *testing.T, p *place) {
	k := p.box.(container.Keeper)
	c := p.command("echo ran >>runs")
	c.Lease, c.Fence = "resp_1", 4
	find(t, k, c, container.NeverStarted)
	late := c
	late.Fence = 3
	if _, err := k.Start(wait(t), late); fault.KindOf(err) != fault.Conflict {
		t.Errorf("an earlier owner's start: %v", err)
	}
	if _, err := k.Reattach(wait(t), late); fault.KindOf(err) != fault.Conflict {
		t.Errorf("an earlier owner's question: %v", err)
	}
	other := p.command("echo other >>runs")
	other.Lease, other.Fence = "resp_2", 1 // a lease of its own
	p.end(t, p.start(t, other))
	p.handOver(t)
	if _, err := p.box.Start(wait(t), late); fault.KindOf(err) != fault.Conflict {
		t.Errorf("through another owner of the box: %v", err)
	}
	p.end(t, p.start(t, c))
	p.want(t, "cat runs", "other\nran\n")
}

func staleOwner(t *testing.T, p *place) {
	c := p.command(steps)
	mine := p.start(t, c)
	p.until(t, "up", "")
	stale := p.box.(container.Keeper)
	k := p.adopt(t)
	// It wakes, and does all that an owner can.
	if _, err := stale.Start(wait(t), p.command("echo stale >>runs")); err == nil {
		t.Error("it started a command")
	}
	mine.Kill()
	stale.Live()
	if err := stale.Detach(); err != nil {
		t.Error(err)
	}
	if err := stale.Close(wait(t)); err != nil {
		t.Error(err)
	}
	select {
	case <-stale.Done():
	case <-time.After(patience):
		t.Error("it does not know")
	}
	job := find(t, k, c, container.Started)
	p.put(t, "go1", nil)
	if o := p.end(t, job); o.Code != 7 || o.out != "a\nc\n" || o.Cancelled {
		t.Errorf("got %+v", o)
	}
	p.want(t, "cat runs", "ran\n")
	p.adopt(t) // a third one still finds the way
	p.want(t, "echo yes", "yes\n")
}

func lowerFence(t *testing.T, p *place) {
	p.handOver(t)
	spec := p.spec
	spec.Fence--
	if k, err := p.again().(container.Adopter).Adopt(wait(t), spec); k != nil || fault.KindOf(err) != fault.Conflict {
		t.Errorf("adopted: %v, %v", k, err)
	}
	if err := p.again().Remove(wait(t), spec); err == nil {
		t.Error("an earlier owner removed the container")
	}
	if _, err := os.Stat(p.ws.Dir); err != nil {
		t.Error(err)
	}
	p.want(t, "echo alive", "alive\n")
}

func goneAndKept(t *testing.T, p *place) {
	adopter := p.runtime.(container.Adopter)
	ended := p.command("echo kept; exit 5")
	p.end(t, p.start(t, ended))
	cut := p.command("echo partial; touch up; sleep 7000014")
	job := p.start(t, cut)
	p.until(t, "up", "")
	for c := range job.Follow(wait(t)) { // its first output is in the spool
		_ = c
		break
	}
	if err := p.box.Close(wait(t)); err != nil {
		t.Fatal(err)
	}
	p.spec.Fence++
	if k, err := adopter.Adopt(wait(t), p.spec); k != nil || err != nil {
		t.Fatalf("adopted what is closed: %v, %v", k, err)
	}
	found, err := adopter.Recall(wait(t), p.spec, ended)
	if err != nil || found.State != container.Started {
		t.Fatalf("%+v, %v", found, err)
	}
	if o := p.end(t, found.Job); o.Code != 5 || o.out != "kept\n" {
		t.Errorf("got %+v", o)
	}
	found, err = adopter.Recall(wait(t), p.spec, cut)
	if err != nil || found.State != container.Gone || found.Job == nil {
		t.Fatalf("%+v, %v", found, err)
	}
	if _, err := found.Job.Wait(wait(t)); err == nil {
		t.Error("an end that nobody saw is known")
	}
	if v, err := found.Job.View(process.Stdout, 100); err != nil || v.Text != "partial\n" {
		t.Errorf("kept %q, %v", v.Text, err)
	}
	found, err = adopter.Recall(wait(t), p.spec, p.command("never"))
	if err != nil || found.State != container.NeverStarted || found.Job != nil {
		t.Errorf("%+v, %v", found, err)
	}
	p.open(t)
	if k := p.box.(container.Keeper); !k.Restarted() {
		t.Error("the new box does not say that it stands for another")
	}
}

func noLease(t *testing.T, p *place) {
	other := newLeased(t, p.runtime, 0)
	held := other.held(t)
	if err := other.box.(container.Keeper).Detach(); err != nil {
		t.Fatal(err)
	}
	other.box = nil
	held.SetReadDeadline(time.Now().Add(patience))
	if _, err := held.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("a process outlived its owner: %v", err)
	}
	other.spec.Fence++
	if k, err := p.runtime.(container.Adopter).Adopt(wait(t), other.spec); k != nil || err != nil {
		t.Errorf("adopted: %v, %v", k, err)
	}
}

func settling(t *testing.T, p *place) {
	adopter := p.runtime.(container.Adopter)
	c := p.command("echo out")
	p.end(t, p.start(t, c))
	for range 2 {
		if err := adopter.Settle(wait(t), p.spec, c.Key, c.Index); err != nil {
			t.Error(err)
		}
	}
	if err := adopter.Settle(wait(t), p.spec, "never", 0); err != nil {
		t.Error(err)
	}
	if err := adopter.Settle(wait(t), p.spec, filepath.Join("..", "report.json"), 0); err == nil {
		t.Error("a path was taken for a key")
	}
}

func resting(t *testing.T, p *place) {
	k := p.box.(container.Keeper)
	c := p.command("echo ran >>runs; (setsid sleep 7000015 &) >/dev/null 2>&1; echo up")
	p.end(t, p.start(t, c))
	if ended, err := k.Rest(); ended || err != nil {
		t.Fatalf("it rested over a living process: %v, %v", ended, err)
	}
	p.untilCount(t, "7000015", "1")
	running := p.start(t, p.command("until [ -e go ]; do sleep 0.01; done"))
	if ended, err := k.Rest(); ended || err != nil {
		t.Fatalf("it rested over a call: %v, %v", ended, err)
	}
	p.put(t, "go", nil)
	p.end(t, running)
	p.run(t, "kill $(pgrep -f 'sleep 7000015' || grep -l 7000015 /proc/[0-9]*/cmdline | cut -d/ -f3)")
	deadline := time.Now().Add(patience)
	for ended := false; !ended; {
		var err error
		if ended, err = k.Rest(); err != nil || time.Now().After(deadline) {
			t.Fatalf("it never rested: %v", err)
		}
	}
	select {
	case <-k.Done():
	case <-time.After(patience):
		t.Error("it rests and is not done")
	}
	p.open(t)
	if p.box.(container.Keeper).Restarted() {
		t.Error("a rest is told as a loss")
	}
	p.end(t, p.start(t, c)) // the key is still a key
	p.want(t, "cat runs", "ran\n")
}
