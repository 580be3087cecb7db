package container

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// narrowBox is a box that knows what it may reach.
type narrowBox struct {
	*keptBox
	mu  sync.Mutex
	may string
}

func (b *narrowBox) Narrow(to egress.Policy) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.may = strings.Join(slices.Compact(to.Domains()), " ")
	return nil
}

func (b *narrowBox) reach() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.may
}

// reaching is a container that may reach a.test and b.test, with its box.
type reaching struct {
	*bench
	p    *place
	box  *narrowBox
	file string // in which it is written down who has less
}

func newReaching(t *testing.T) reaching {
	t.Helper()
	b := newBench(t, Limits{})
	policy, err := b.network.policy(toReach("a.test", "b.test"))
	if err != nil {
		t.Fatal(err)
	}
	box := &narrowBox{keptBox: &keptBox{fakeBox: &fakeBox{f: b.fake, done: make(chan struct{}), jobs: map[*process.Job]func(){}}}}
	dir := t.TempDir()
	p := &place{id: "cntr_1", spec: Spec{ID: "cntr_1", Dir: dir, Egress: &egress.Options{Policy: policy}}, ws: &Workspace{Dir: dir, Tmp: dir},
		boot: &boot{done: make(chan struct{}), box: box}}
	close(p.boot.done)
	if err := p.narrowing.entered(box); err != nil {
		t.Fatal(err)
	}
	return reaching{bench: b, p: p, box: box, file: filepath.Join(dir, narrowName)}
}

func toReach(domains ...string) *NetworkPolicy {
	return &NetworkPolicy{Type: networkAllowlist, AllowedDomains: domains}
}

// hold narrows the container for a call.
func (r reaching) hold(t *testing.T, call string, to *NetworkPolicy) (release func()) {
	t.Helper()
	release, err := r.narrow(r.p, call, to)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func (r reaching) written(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(r.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// quiet waits until nobody looks after a command any more.
func (r reaching) quiet(t *testing.T) {
	t.Helper()
	must(t, r.Close(r.ctx))
}

func runningJob(t *testing.T, key string) *process.Job {
	t.Helper()
	dir := filepath.Join(t.TempDir(), key, "0")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	job := process.New(dir, func() {})
	t.Cleanup(func() { job.Lost(nil) })
	return job
}

// TestWhoHasHandedABoxOverWidensNothing: of a command that was on its way in then nobody knows whether it runs.
func TestWhoHasHandedABoxOverWidensNothing(t *testing.T) {
	for name, away := range map[string]func(reaching) error{
		"handed over": func(r reaching) error { return r.letGo(r.ctx, r.p) },
		"taken over":  func(r reaching) error { return os.WriteFile(filepath.Join(r.dir, fenceName), []byte("9"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReaching(t)
			release := r.hold(t, "call", toReach("a.test"))
			if r.box.reach() != "a.test" || r.written(t) != `{"call":["a.test"]}` {
				t.Fatalf("it reaches %q; written %q", r.box.reach(), r.written(t))
			}
			if err := away(r); err != nil {
				t.Fatal(err)
			}
			release()
			_, err := r.narrow(r.p, "next", toReach("b.test"))
			wantFault(t, err, fault.Conflict, CodeHandedOver)
			if r.box.reach() != "a.test" || r.written(t) != `{"call":["a.test"]}` {
				t.Errorf("afterwards it reaches %q; written %q", r.box.reach(), r.written(t))
			}
		})
	}
}

// TestAnAdoptedHoldEndsWithItsCommand, and not with who adopted it.
func TestAnAdoptedHoldEndsWithItsCommand(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*process.Job)
		want string
	}{
		"it has ended":         {func(j *process.Job) { j.End(process.Exit{}) }, "a.test b.test"},
		"the box died":         {func(j *process.Job) { j.Lost(nil) }, "a.test b.test"},
		"it has another owner": {func(j *process.Job) { j.Lost(takenOver()) }, "a.test"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReaching(t)
			must(t, os.WriteFile(r.file, []byte(`{"call":["a.test"],"over":[]}`), 0o600))
			if to, err := r.p.narrowing.restore(r.p.spec); err != nil || !to.Disabled() {
				t.Fatalf("%v, %v", to.Domains(), err)
			}
			job := runningJob(t, "call")
			r.keep(r.p, r.box, []Job{job})
			if r.box.reach() != "a.test" || r.written(t) != `{"call":["a.test"]}` {
				t.Fatalf("it reaches %q; written %q", r.box.reach(), r.written(t))
			}
			c.end(job)
			r.quiet(t)
			if written := r.written(t); r.box.reach() != c.want || (written == "") != (c.want != "a.test") {
				t.Errorf("it reaches %q, want %q; written %q", r.box.reach(), c.want, written)
			}
		})
	}
}

// TestWhatIsNotReadLetsNothingThrough for as long as any command lives that it may be of, whatever others ask meanwhile.
func TestWhatIsNotReadLetsNothingThrough(t *testing.T) {
	for name, text := range map[string]string{"no JSON": `{"call":`, "no domain": `{"call":["a.test/path"],"other":["a.test"]}`} {
		t.Run(name, func(t *testing.T) {
			r := newReaching(t)
			must(t, os.WriteFile(r.file, []byte(text), 0o600))
			job := runningJob(t, "call")
			if to, err := r.p.narrowing.restore(r.p.spec); err == nil || !to.Disabled() {
				t.Fatalf("from the first moment on it reaches %q, %v", to.Domains(), err)
			}
			r.keep(r.p, r.box, []Job{job})
			if to, err := new(narrowing).restore(r.p.spec); err != nil || !to.Disabled() {
				t.Errorf("with the next gateway it reaches %q, %v", to.Domains(), err)
			}
			r.hold(t, "next", toReach("a.test"))()
			if r.box.reach() != "" {
				t.Errorf("after the next command it reaches %q", r.box.reach())
			}
			job.End(process.Exit{})
			eventually(t, "it reaches what its container may", func() bool { return r.box.reach() == "a.test b.test" })
		})
	}
}

// TestACommandThatMayRunElsewhereIsNotWidened: its start failed because its box went to another owner.
func TestACommandThatMayRunElsewhereIsNotWidened(t *testing.T) {
	r := newReaching(t)
	r.p.boot.box = goneElsewhere{r.box}
	_, err := r.start(r.ctx, r.p, *r.p.ws, Command{Key: "call", Script: "true", Network: toReach("a.test")})
	wantFault(t, err, fault.Conflict, CodeHandedOver)
	if r.box.reach() != "a.test" || r.written(t) != `{"call":["a.test"]}` {
		t.Errorf("it reaches %q; written %q", r.box.reach(), r.written(t))
	}
}

type goneElsewhere struct{ *narrowBox }

func (goneElsewhere) Start(context.Context, process.Command) (Job, error) { return nil, takenOver() }
