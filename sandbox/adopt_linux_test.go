package sandbox_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// leased is a box that outlives its owner.
func leased(t *testing.T, protocol uint32) (place, *sandbox.Box) {
	t.Helper()
	p := newPlace(t)
	p.spec.Grace, p.spec.Fence, p.spec.Protocol = 5*time.Minute, 10, protocol
	t.Cleanup(func() { sandbox.End(t.Context(), p.spec.Dir, 1<<60) })
	return p, p.open(t)
}

// TestProtocolStamps adopts residents of every version that is spoken, and what runs in them.
func TestProtocolStamps(t *testing.T) {
	for version := uint32(resident.Oldest); version <= resident.Version; version++ {
		p, old := leased(t, version)
		running, ended := bash("echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; exit 9"), bash("echo kept; exit 4")
		wait(t, start(t, old, ended))
		start(t, old, running)
		eventually(t, "the first line", func() bool { return p.spool(running, "stdout") == "one\n" })
		must(t, old.Detach())
		box, err := sandbox.Attach(t.Context(), p.spec.Dir, 11)
		must(t, err)
		job, what, err := box.Find(t.Context(), running)
		if err != nil || what != sandbox.Running || len(box.Live()) != 1 {
			t.Fatalf("version %d: %v, %v", version, what, err)
		}
		must(t, os.WriteFile(p.data("go"), nil, 0o644))
		if got := wait(t, job); got.Code != 9 || got.out != "one\n" || got.err != "two\n" {
			t.Errorf("version %d: %+v", version, got)
		}
		for _, c := range []process.Command{ended, running} {
			job, what, err := box.Find(t.Context(), c)
			if err != nil || what != sandbox.Ended || wait(t, job).Code < 4 {
				t.Errorf("version %d: %v, %v", version, what, err)
			}
		}
		if _, what, err := box.Find(t.Context(), bash("")); err != nil || what != sandbox.Never {
			t.Errorf("version %d: %v, %v", version, what, err)
		}
		if got := run(t, box, bash("echo more")); got.out != "more\n" {
			t.Errorf("version %d: %+v", version, got)
		}
		must(t, box.Close())
	}
}

// restamp makes a box's report one of another version.
func restamp(t *testing.T, p place, version uint32) {
	t.Helper()
	at := filepath.Join(p.spec.Dir, "report.json")
	text, err := os.ReadFile(at)
	must(t, err)
	var all map[string]any
	must(t, json.Unmarshal(text, &all))
	all["version"] = version
	text, err = json.Marshal(all)
	must(t, err)
	must(t, os.WriteFile(at, text, 0o600))
}

func TestAnUnknownVersionIsEndedAndNotAdopted(t *testing.T) {
	for _, version := range []uint32{resident.Oldest - 1, resident.Version + 1} {
		p, old := leased(t, 0)
		mark := "HARDSHELL_MARK=" + p.base
		c := bash("echo partial; setsid sleep 1000 & sleep 1000")
		c.Env = append([]string{mark}, c.Env...)
		start(t, old, c)
		eventually(t, "its processes", func() bool { return p.spool(c, "stdout") == "partial\n" && len(marked(mark)) >= 3 })
		must(t, old.Detach())
		restamp(t, p, version)
		if _, err := sandbox.Attach(t.Context(), p.spec.Dir, 11); fault.KindOf(err) != fault.Unsupported {
			t.Errorf("version %d: attach: %v", version, err)
		}
		if err := sandbox.End(t.Context(), p.spec.Dir, 9); fault.KindOf(err) != fault.Conflict {
			t.Errorf("version %d: ended by an earlier owner: %v", version, err)
		}
		if len(marked(mark)) < 3 {
			t.Errorf("version %d: an earlier owner killed something", version)
		}
		must(t, sandbox.End(t.Context(), p.spec.Dir, 11))
		if left := marked(mark); len(left) != 0 {
			t.Errorf("version %d: left %v", version, left)
		}
		must(t, sandbox.End(t.Context(), p.spec.Dir, 11)) // once more, with nothing left
		job, what, err := sandbox.Recall(p.spec.Dir, c.Key, c.Index)
		if err != nil || what != sandbox.Interrupted {
			t.Fatalf("version %d: %v, %v", version, what, err)
		}
		if got, err := job.View(process.Stdout, 100); err != nil || got.Text != "partial\n" {
			t.Errorf("version %d: kept %+v, %v", version, got, err)
		}
	}
}

// wire is an owner that says what it likes.
type wire struct {
	t    *testing.T
	conn *net.UnixConn
}

func (w wire) say(message []byte) {
	w.t.Helper()
	_, err := w.conn.Write(message)
	must(w.t, err)
}

// hear returns the next message of a kind, or nil when the resident has hung up.
func (w wire) hear(kind resident.Kind) []byte {
	w.t.Helper()
	for buf := make([]byte, resident.MaxPacket); ; {
		n, err := w.conn.Read(buf)
		if err != nil || n == 0 {
			return nil
		}
		if resident.Kind(buf[0]) == kind {
			return buf[1:n]
		}
	}
}

func (w wire) state(message []byte) resident.State {
	w.t.Helper()
	w.say(message)
	m, err := resident.ParseStarted(w.hear(resident.KindStarted))
	must(w.t, err)
	return m.State
}

// TestFencesOnTheWire says to a resident what an owner of ours never would.
func TestFencesOnTheWire(t *testing.T) {
	p, old := leased(t, 0)
	must(t, old.Detach())
	hello := func(fence uint64) wire {
		w := wire{t, dial(t, p)}
		w.say(resident.Hello{Version: resident.Version, Fence: fence}.Append(nil))
		return w
	}
	if hello(9).hear(resident.KindRefused) == nil {
		t.Error("a lower fence than the first owner's was taken")
	}
	w := hello(12)
	if w.hear(resident.KindReady) == nil {
		t.Fatal("no welcome")
	}
	if hello(11).hear(resident.KindRefused) == nil {
		t.Error("a lower fence than the second owner's was taken")
	}
	guest := wire{t, dial(t, p)}
	guest.say(resident.End{Fence: 11}.Append(nil))
	if guest.hear(resident.KindRefused) == nil {
		t.Error("an earlier owner's end was not refused")
	}
	for _, message := range [][]byte{{byte(resident.KindShutdown)}, resident.AppendKill(nil, 1), {byte(resident.KindKeep)}} {
		guest := wire{t, dial(t, p)}
		guest.say(message)
		if got := guest.hear(resident.KindReady); got != nil {
			t.Errorf("a guest's %x was heard", message)
		}
	}
	command := func(key, lease string, fence uint64) []byte {
		return resident.Start{Request: 1, Key: key, Lease: lease, Fence: fence, Argv: []string{"bash", "-c", "echo $0 >>" + "ran", key}, Env: environment}.
			Append(nil, resident.Version)
	}
	ask := func(key, lease string, fence uint64) []byte {
		return resident.Find{Request: 2, Key: key, Lease: lease, Fence: fence}.Append(nil)
	}
	for _, step := range []struct {
		what    string
		message []byte
		want    resident.State
	}{
		{"a first start", command("a", "resp_1", 5), resident.StateNew},
		{"a lower fence", command("b", "resp_1", 4), resident.StateStale},
		{"the same fence", command("c", "resp_1", 5), resident.StateNew},
		{"another lease", command("d", "resp_2", 1), resident.StateNew},
		{"a question raises it", ask("e", "resp_1", 7), resident.StateNever},
		{"the key it asked for", command("e", "resp_1", 6), resident.StateStale},
		{"any key of the lease", command("f", "resp_1", 5), resident.StateStale},
		{"a lower question", ask("a", "resp_1", 6), resident.StateStale},
		{"a key without a lease", ask("g", "", 3), resident.StateNever},
		{"the same, lower", command("g", "", 2), resident.StateStale},
		{"the newest owner", command("e", "resp_1", 7), resident.StateNew},
		{"a path for a key", ask("../control", "resp_1", 7), resident.StateFailed},
	} {
		if got := w.state(step.message); got != step.want {
			t.Errorf("%s: %d, want %d", step.what, got, step.want)
		}
	}
	box, err := sandbox.Attach(t.Context(), p.spec.Dir, 13)
	must(t, err)
	defer box.Close()
	if w.hear(resident.KindRefused) == nil {
		t.Error("the replaced owner was not told")
	}
	c := bash("echo never")
	c.Lease, c.Fence = "resp_1", 6
	if _, err := box.Start(t.Context(), c); fault.KindOf(err) != fault.Conflict {
		t.Errorf("the lease's fence was lost with its owner: %v", err)
	}
	if got := run(t, box, bash("sort ran | tr '\\n' ' '")); got.out != "a c d e " {
		t.Errorf("ran %q", got.out)
	}
}

// TestGraceIsTimeWithoutACall gives a resident less time than its call takes.
func TestGraceIsTimeWithoutACall(t *testing.T) {
	p := newPlace(t)
	p.spec.Grace = 200 * time.Millisecond
	old := p.open(t)
	mark := "HARDSHELL_MARK=" + p.base
	c := bash("sleep 1000 >/dev/null 2>&1 & until [ -e go ]; do sleep 0.01; done; echo done")
	c.Env = append([]string{mark}, c.Env...)
	start(t, old, c)
	idle := newPlace(t)
	idle.spec.Grace = p.spec.Grace
	other := idle.open(t)
	left := bash("sleep 1000 >/dev/null 2>&1 &")
	left.Env = append([]string{"HARDSHELL_MARK=" + idle.base}, left.Env...)
	run(t, other, left)
	must(t, old.Detach())
	must(t, other.Detach())
	eventually(t, "the idle one's end", func() bool { return len(marked("HARDSHELL_MARK="+idle.base)) == 0 })
	if len(marked(mark)) == 0 {
		t.Error("a call that ends by its own limit was cut short")
	}
	must(t, os.WriteFile(p.data("go"), nil, 0o644))
	eventually(t, "no process left", func() bool { return len(marked(mark)) == 0 })
	job, what, err := sandbox.Recall(p.spec.Dir, c.Key, c.Index)
	if err != nil || what != sandbox.Ended {
		t.Fatalf("%v, %v", what, err)
	}
	if got := wait(t, job); got.out != "done\n" || got.Code != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestEndLeavesABoxThatEndsWithItsOwner(t *testing.T) {
	p := newPlace(t)
	box := p.open(t)
	if err := sandbox.End(t.Context(), p.spec.Dir, 99); fault.KindOf(err) != fault.Conflict {
		t.Errorf("got %v", err)
	}
	if got := run(t, box, bash("echo mine")); got.out != "mine\n" {
		t.Errorf("got %+v", got)
	}
}

// TestAnEndThatTheDiskDidNotTake is kept by the resident until its next owner asks.
func TestAnEndThatTheDiskDidNotTake(t *testing.T) {
	p, disk := newSmallPlace(t)
	p.spec.Grace, p.spec.Fence = 5*time.Minute, 1
	old := p.open(t)
	c := bash("touch up; until [ -e go ]; do sleep 0.01; done; touch over; exit 6")
	c.Dir = "/mnt/data"
	start(t, old, c)
	eventually(t, "the command", func() bool { _, err := os.Stat(p.data("up")); return err == nil })
	free := fillDisk(t, disk)
	must(t, old.Detach())
	must(t, os.WriteFile(p.data("go"), nil, 0o644))
	eventually(t, "its end", func() bool { _, err := os.Stat(p.data("over")); return err == nil })
	for fence := uint64(2); fence < 4; fence++ { // every owner hears it
		box, err := sandbox.Attach(t.Context(), p.spec.Dir, fence)
		must(t, err)
		job, what, err := box.Find(t.Context(), c)
		if err != nil || what != sandbox.Running && what != sandbox.Ended {
			t.Fatalf("%v, %v", what, err)
		}
		if got, err := job.Wait(t.Context()); err != nil || got.Code != 6 {
			t.Errorf("got %+v, %v", got, err)
		}
		must(t, box.Detach())
	}
	free()
	box, err := sandbox.Attach(t.Context(), p.spec.Dir, 9)
	must(t, err)
	must(t, box.Close())
}
