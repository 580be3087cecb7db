package terminal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// bubble runs a test in time of its own, with fake sandboxes.
func bubble(t *testing.T, change func(*SessionConfig), test func(t *testing.T, r *rig, b *fakeBackend)) {
	t.Helper()
	base := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r, b := newFakeRig(t, base, change)
		test(t, r, b)
		if err := r.session.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// soon runs a call beside the test.
func (r *rig) soon(tool, arguments string) chan *ExecResult {
	out := make(chan *ExecResult, 1)
	i := r.invocation(tool, arguments)
	go func() {
		answer, err := r.tools.Dispatch(r.t.Context(), i)
		if err != nil {
			r.t.Errorf("%s: %v", arguments, err)
			out <- &ExecResult{}
			return
		}
		out <- answer.(FunctionOutput).Result
	}()
	return out
}

var both = []string{ToolShellCommand, ToolExecCommand}

// R40: a sandbox that is not there in five seconds ends the call, says where it was, and serves no further one.
func TestASandboxThatIsNeverMade(t *testing.T) {
	for _, tool := range both {
		var events recorder
		bubble(t, func(c *SessionConfig) { c.Observer = &events }, func(t *testing.T, r *rig, b *fakeBackend) {
			b.hang = make(chan struct{})
			began := time.Now()
			got := r.call(tool, `{"command":"true"}`)
			if took := time.Since(began); got.Failure != "io" || got.Stage != "sandbox" || took != openLimit || !strings.Contains(got.Format(Labelled), "infrastructure: sandbox: ") {
				t.Errorf("%s after %v: %+v", tool, took, got)
			}
			if ends := eventsOf[ExecCommandEnd](&events); len(ends) != 1 || ends[0].Error != "io" {
				t.Errorf("%s: nobody was told: %+v", tool, ends)
			}
			b.mu.Lock()
			late := b.hang
			b.hang = nil
			b.mu.Unlock()
			next := r.soon(tool, `{"command":"true"}`)
			synctest.Wait()
			if len(b.made()) != 2 {
				t.Fatalf("%d places", len(b.made()))
			}
			b.made()[1].last().exits(0)
			if got := <-next; code(got) != 0 {
				t.Errorf("%+v", got)
			}
			close(late)
			synctest.Wait()
			if !b.made()[0].closed || b.made()[1].closed {
				t.Error("a sandbox that came too late is kept, or another one is not")
			}
		})
	}
}

func TestACommandThatIsNeverStarted(t *testing.T) {
	for _, tool := range both {
		bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) {
			b.starts = make(chan struct{})
			began := time.Now()
			got := r.call(tool, `{"command":"true"}`)
			if took := time.Since(began); got.Failure != "io" || got.Stage != "start" || took != session.SpawnLimit {
				t.Errorf("%s after %v: %+v", tool, took, got)
			}
			close(b.starts)
			synctest.Wait()
			if j := b.made()[0].last(); !j.HasExited() {
				t.Errorf("%s: what was started late lives on", tool)
			}
			next := r.soon(tool, `{"command":"true"}`)
			synctest.Wait()
			if len(b.made()) != 2 {
				t.Fatalf("%s: %d places", tool, len(b.made()))
			}
			b.made()[1].last().exits(0)
			<-next
		})
	}
}

// A one-shot call ends although nobody says that its command has.
func TestAOneShotCommandWhoseEndNobodyTells(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) {
		got := r.soon(ToolShellCommand, `{"command":"sleep 600","timeout_ms":1000}`)
		synctest.Wait()
		b.made()[0].last().says(process.Stdout, "begun\n")
		b.made()[0].silence()
		began := time.Now()
		if got := <-got; got.Failure != "io" || got.Stage != "output" || got.Text() != "begun\n" || time.Since(began) > 5*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}

		next := r.soon(ToolShellCommand, `{"command":"true"}`)
		synctest.Wait()
		if len(b.made()) != 2 {
			t.Fatalf("%d places", len(b.made()))
		}
		b.made()[1].last().exits(0)
		<-next

		ctx, cancel := context.WithCancel(t.Context())
		i := r.invocation(ToolShellCommand, `{"command":"sleep 600"}`)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.tools.Dispatch(ctx, i)
		}()
		synctest.Wait()
		b.made()[1].silence()
		began = time.Now()
		cancel()
		<-ended
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a cancelled call took %v", took)
		}
	})
}

// R40: whatever a sandbox does, one of its sessions can be started again in three seconds, under its name, and the other
// ones are not touched.
func TestARestartAlwaysWorks(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) {
		start := func(name string) *ExecResult {
			return r.call(ToolExecCommand, `{"cmd":"python3","tty":true,"process_id":"`+name+`","yield_time_ms":250}`)
		}
		start("sick")
		start("other")
		if len(b.made()) != 1 {
			t.Fatalf("%d places", len(b.made()))
		}
		b.made()[0].silence()
		began := time.Now()
		if got := r.call(ToolWriteStdin, `{"process_id":"sick","yield_time_ms":1000}`); got.Failure != "io" || got.Stage != "probe" || time.Since(began) > 4*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}
		old, err := r.session.Live().Named("sick")
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		old.Kill()
		<-old.Done()
		if got := start("sick"); !got.living() || len(b.made()) != 2 || time.Since(began) > 3*time.Second {
			t.Errorf("after %v in place %d: %+v", time.Since(began), len(b.made()), got)
		}
		if other, err := r.session.Live().Named("other"); err != nil || other.Over() {
			t.Errorf("the other session was touched: %v", err)
		}
		other, _ := r.session.Live().Named("other")
		other.Kill() // its sandbox cannot say that it ended
	})
	bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) { // also when nobody has noticed yet
		first := r.call(ToolExecCommand, `{"cmd":"python3","process_id":"sick","yield_time_ms":250}`)
		b.made()[0].silence()
		old, err := r.session.Live().Get(first.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		old.Kill()
		<-old.Done()
		if got := r.call(ToolExecCommand, `{"cmd":"python3","process_id":"sick","yield_time_ms":250}`); !got.living() || len(b.made()) != 2 || time.Since(began) > 3*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}
	})
}

// A call that ends while its command is started was ended, and nothing is wrong with the sandbox.
func TestAnEndedCallIsNoInfrastructureError(t *testing.T) {
	for _, tool := range both {
		bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) {
			b.starts = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if out, err := r.tools.Dispatch(ctx, r.invocation(tool, `{"command":"true"}`)); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %+v, %v", tool, out, err)
			}
			close(b.starts)
		})
	}
}

// Two calls with one name: one has it, the other is told, and what is known of the first is not lost.
func TestTwoCallsOfOneName(t *testing.T) {
	var events recorder
	p := &person{answer: Approved}
	bubble(t, func(c *SessionConfig) { c.Observer, c.Approver = &events, p }, func(t *testing.T, r *rig, b *fakeBackend) {
		b.starts = make(chan struct{})
		outside := r.soon(ToolExecCommand, `{"cmd":"serve","process_id":"1001","sandbox_permissions":"require_escalated","yield_time_ms":250}`)
		synctest.Wait()
		inside := r.invocation(ToolExecCommand, `{"cmd":"other","process_id":"1001","yield_time_ms":250}`)
		if out, err := r.tools.Dispatch(t.Context(), inside); err != nil || !strings.Contains(out.Text(), "just being started") {
			t.Errorf("%v, %v", out, err)
		}
		close(b.starts)
		if got := <-outside; !got.living() || got.SessionID != 1001 || !got.Outside {
			t.Fatalf("%+v", got)
		}
		if r.call(ToolWriteStdin, `{"session_id":1001,"chars":"\u0003"}`); p.questions() != 1 {
			t.Errorf("%d questions", p.questions())
		}
		r.text(ToolWriteStdin, `{"session_id":1001,"chars":"rm"}`)
		if p.questions() != 2 {
			t.Error("what is typed outside was not asked about")
		}
		for _, place := range b.made() {
			for _, j := range place.jobs {
				j.exits(7)
			}
		}
		synctest.Wait()
		ends := eventsOf[ExecCommandEnd](&events)
		if len(ends) != 2 || ends[1].CallID != "call_1" || ends[1].ExitCode != 7 || ends[1].Session != 1001 {
			t.Errorf("%+v", ends)
		}
	})
}
