package container

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// TestFollowFromFits reads outputs from every delta's end on: what comes fits to what was there.
func TestFollowFromFits(t *testing.T) {
	noise := func(p *proc) int {
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range 400 {
			b := make([]byte, 1+rng.IntN(40))
			for k := range b {
				b[k] = byte(rng.Uint32())
			}
			p.write(1+i%2, string(b)+"ä€😀")
		}
		return 0
	}
	flood := func(p *proc) int { // ends beyond the cut, whose place falls into a character and into any piece
		for i := range 40 {
			p.out("%s", strings.Repeat("€\xff", 9000+i))
		}
		return 0
	}
	for name, program := range map[string]func(*proc) int{"noise": noise, "flood": flood} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Limits{})
			b.fake.programs[name] = program
			e := b.exec(t, b.create(t).ID, name)
			if _, err := e.Wait(b.ctx); err != nil {
				t.Fatal(err)
			}
			var cursors []Cursor
			var at Cursor
			var out, errs strings.Builder
			for d, err := range e.Follow(b.ctx) {
				if err != nil {
					t.Fatal(err)
				}
				out.WriteString(d.Stdout)
				errs.WriteString(d.Stderr)
				at.Stdout += int64(len(d.Stdout))
				at.Stderr += int64(len(d.Stderr))
				cursors = append(cursors, at)
			}
			for i := 0; i < len(cursors); i += 1 + len(cursors)/20 {
				from := cursors[i]
				restOut, restErr := "", ""
				for d, err := range e.FollowFrom(b.ctx, from) {
					if err != nil {
						t.Fatal(err)
					}
					restOut, restErr = restOut+d.Stdout, restErr+d.Stderr
				}
				if restOut != out.String()[from.Stdout:] || restErr != errs.String()[from.Stderr:] {
					t.Fatalf("from %+v: %d and %d bytes, want %d and %d", from, len(restOut), len(restErr), int64(out.Len())-from.Stdout, int64(errs.Len())-from.Stderr)
				}
			}
			if !utf8.ValidString(out.String()) {
				t.Error("not UTF-8")
			}
		})
	}
}

// TestAStoppedReaderLeavesNoHalfCharacter: its successor goes on with the whole one.
func TestAStoppedReaderLeavesNoHalfCharacter(t *testing.T) {
	b := newBench(t, Limits{})
	goOn := make(chan struct{})
	b.fake.programs["halves"] = func(p *proc) int {
		p.out("a\xe2\x82")
		<-goOn
		p.out("\xacb")
		return 0
	}
	e := b.exec(t, b.create(t).ID, "halves")
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	seen := ""
	for d := range e.Follow(ctx) {
		seen += d.Stdout
		stop()
	}
	close(goOn)
	for d, err := range e.FollowFrom(b.ctx, Cursor{Stdout: int64(len(seen))}) {
		if err != nil {
			t.Fatal(err)
		}
		seen += d.Stdout
	}
	if seen != "a€b" {
		t.Errorf("both saw %q", seen)
	}
}

// keeping is the fake as an Adopter. Its boxes are adopted by the next service of the same test.
type keeping struct {
	*fake
	left    *keptBox // what Adopt finds
	folders map[string]CallState
	jobs    map[string]Job // what is left of them
	settled []string
}

type keptBox struct {
	*fakeBox
	lastEnd time.Time
	live    []Job
	alone   bool // nothing lives in it
	asked   int  // to rest
}

func (k *keeping) Adopt(context.Context, Spec) (Keeper, error) {
	if k.left == nil {
		return nil, nil
	}
	return k.left, nil
}

func (k *keeping) Recall(_ context.Context, _ Spec, c process.Command) (Found, error) {
	return Found{State: k.folders[c.Key], Job: k.jobs[c.Key]}, nil
}

func (k *keeping) Settle(_ context.Context, _ Spec, key string, index int) error {
	k.settled = append(k.settled, key+"/"+strconv.Itoa(index))
	return nil
}

func (b *keptBox) Reattach(_ context.Context, c process.Command) (Found, error) {
	for _, job := range b.live {
		if job.Key() == c.Key {
			return Found{State: Started, Job: job, Begun: time.Now()}, nil
		}
	}
	return Found{}, nil
}
func (b *keptBox) Live() []Job        { return b.live }
func (b *keptBox) LastEnd() time.Time { return b.lastEnd }
func (b *keptBox) Detach() error      { return nil }
func (b *keptBox) Restarted() bool    { return false }
func (b *keptBox) Rest() (bool, error) {
	b.asked++
	if b.alone {
		close(b.done)
	}
	return b.alone, nil
}

// restartKeeping makes a new service over a runtime that adopts.
func (b *bench) restartKeeping(t *testing.T, left *keptBox) *keeping {
	t.Helper()
	if err := b.Close(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.fake = &fake{t: t, programs: programs(), living: map[string]*fakeBox{}, opening: map[string]bool{}, specs: map[string]Spec{}}
	k := &keeping{fake: b.fake, left: left, folders: map[string]CallState{}}
	s, err := New(b.ctx, Options{DB: b.db, Runtime: k, Dir: b.dir, Clock: b.clock.time})
	if err != nil {
		t.Fatal(err)
	}
	b.Service = s
	t.Cleanup(func() { s.Close(b.ctx) })
	return k
}

// TestIdleTimeOfAnAdoptedContainer counts from the end of its last command, whoever saw that.
func TestIdleTimeOfAnAdoptedContainer(t *testing.T) {
	b := newBench(t, Limits{DefaultIdleTTL: 10 * time.Minute})
	c := b.create(t)
	b.run(t, c.ID, "true")
	dir := filepath.Join(b.dir, c.ID, "box", "jobs", "call", "0")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	job := process.New(dir, func() {})
	lastEnd := b.clock.time().Add(3 * time.Minute) // while nobody was there
	b.clock.advance(5 * time.Minute)
	box := &keptBox{fakeBox: &fakeBox{done: make(chan struct{}), jobs: map[*process.Job]func(){}}, lastEnd: lastEnd}
	b.restartKeeping(t, box)
	box.f = b.fake
	if got, err := b.Get(b.ctx, "org", c.ID); err != nil || !got.LastActive.Equal(lastEnd) {
		t.Errorf("last active %v, %v, want %v", got.LastActive, err, lastEnd)
	}

	// With a call that goes on it is active, for however long.
	box = &keptBox{fakeBox: &fakeBox{done: make(chan struct{}), jobs: map[*process.Job]func(){}}, lastEnd: lastEnd, live: []Job{job}}
	b.restartKeeping(t, box)
	box.f = b.fake
	b.clock.advance(time.Hour)
	if got, err := b.Get(b.ctx, "org", c.ID); err != nil || got.Status != Active {
		t.Errorf("with a call: %+v, %v", got, err)
	}
	job.End(process.Exit{Started: time.Now(), Ended: time.Now()})
	eventually(t, "the call is counted out", func() bool {
		p := b.known(c.ID)
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.running == 0
	})
	b.clock.advance(9 * time.Minute)
	if got, err := b.Get(b.ctx, "org", c.ID); err != nil || got.Status != Active {
		t.Errorf("before its time: %+v, %v", got, err)
	}
	b.clock.advance(2 * time.Minute)
	if got, err := b.Get(b.ctx, "org", c.ID); err != nil || got.Status != Expired {
		t.Errorf("after its time: %+v, %v", got, err)
	}
}

func TestReattachStates(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.run(t, c.ID, "true")
	state := func(key string) string {
		_, state, err := b.Reattach(b.ctx, "org", c.ID, Command{Key: key})
		return fmt.Sprint(state, err)
	}
	if got := state("call"); got != "gone <nil>" {
		t.Errorf("a runtime that can't reattach: %s", got)
	}
	k := b.restartKeeping(t, nil)
	k.folders["gone"] = Gone
	for key, want := range map[string]string{"never": "never started <nil>", "gone": "gone <nil>"} {
		if got := state(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	_, _, err := b.Reattach(b.ctx, "other", c.ID, Command{Key: "never"})
	wantFault(t, err, fault.NotFound, "container_not_found")
	if err := b.Acknowledge(b.ctx, "org", c.ID, "call", 2); err != nil || fmt.Sprint(k.settled) != "[call/2]" {
		t.Errorf("settled %v, %v", k.settled, err)
	}
	wantFault(t, b.Acknowledge(b.ctx, "other", c.ID, "call", 2), fault.NotFound, "container_not_found")

	// The machine went down: a folder that is not there may have been lost.
	if err := b.Close(b.ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, bootName), []byte("another run"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.restartKeeping(t, nil)
	if got := state("never"); got != "gone <nil>" {
		t.Errorf("after the machine's end: %s", got)
	}
	b.restartKeeping(t, nil) // in order this time
	if got := state("never"); got != "never started <nil>" {
		t.Errorf("after an end in order: %s", got)
	}
}

func TestAStaleOwnerStartsNothing(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	with := func(key, lease string, fence uint64) Command {
		return Command{Key: key, Lease: lease, Fence: fence, Script: "true"}
	}
	for _, step := range []struct {
		command Command
		ask     bool
		stale   bool
	}{
		{with("a", "resp_1", 2), false, false},
		{with("b", "resp_1", 1), false, true},
		{with("b", "resp_1", 3), true, false}, // a question raises the fence
		{with("b", "resp_1", 2), false, true},
		{with("c", "resp_2", 1), false, false}, // a lease of its own
		{with("d", "", 0), false, false},       // no fence at all
	} {
		var err error
		if step.ask {
			_, _, err = b.Reattach(b.ctx, "org", c.ID, step.command)
		} else {
			_, err = b.Exec(b.ctx, "org", c.ID, step.command)
		}
		if stale := err != nil; stale != step.stale {
			t.Errorf("%+v: %v", step, err)
		} else if stale {
			wantFault(t, err, fault.Conflict, CodeStaleOwner)
		}
	}
	other := b.create(t) // another container's leases are others
	if _, err := b.Exec(b.ctx, "org", other.ID, with("a", "resp_1", 1)); err != nil {
		t.Error(err)
	}

	// Another server claims the folder: this one boots nothing any more.
	third := b.create(t)
	if err := os.WriteFile(filepath.Join(b.dir, fenceName), []byte("9"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := b.Exec(b.ctx, "org", third.ID, Command{Script: "true"})
	wantFault(t, err, fault.Conflict, CodeHandedOver)
}

func TestFencesGrowWithEveryServer(t *testing.T) {
	b := newBench(t, Limits{})
	first := b.fence
	far := uint64(time.Now().Add(24 * time.Hour).UnixNano()) // a clock that went back since
	if err := os.WriteFile(filepath.Join(b.dir, fenceName), []byte(strconv.FormatUint(far, 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.restartKeeping(t, nil)
	if b.fence != far+1 || first >= far {
		t.Errorf("%d after %d", b.fence, far)
	}
}

func TestAContainerInWhichNothingLivesRests(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.run(t, c.ID, "true")
	box := &keptBox{fakeBox: &fakeBox{done: make(chan struct{}), jobs: map[*process.Job]func(){}}, lastEnd: b.clock.time()}
	b.restartKeeping(t, box)
	box.f = b.fake
	round := func(after time.Duration, asked int, over bool) {
		t.Helper()
		b.clock.advance(after)
		if err := b.reap(b.ctx); err != nil {
			t.Fatal(err)
		}
		p := b.known(c.ID)
		p.mu.Lock()
		defer p.mu.Unlock()
		if box.asked != asked || (p.boot == nil) != over {
			t.Errorf("asked %d times, want %d; box gone %v, want %v", box.asked, asked, p.boot == nil, over)
		}
	}
	round(restAfter-time.Second, 0, false)
	round(2*time.Second, 1, false) // something lives
	box.alone = true
	round(time.Second, 2, true)
	if got, err := b.Get(b.ctx, "org", c.ID); err != nil || got.Status != Active {
		t.Errorf("%+v, %v", got, err)
	}
	if r := b.run(t, c.ID, "hello"); r.Stdout.Text != "hello\n" || r.Restarted {
		t.Errorf("the next command: %+v", r)
	}
}
