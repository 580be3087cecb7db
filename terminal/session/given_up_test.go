package session

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// A killed command whose sandbox says nothing any more is given up, and its name and number are free; one whose sandbox
// answers is waited for.
func TestAKilledSessionThatNobodyAnswersFor(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		var lost error
		spec := inTTY(box, "python3")
		spec.ID, spec.Name, spec.Value = 1001, "build", "mine"
		spec.Ended = func(_ int, _ process.Exit, err error) { lost = err }
		s := start(t, store, spec)
		box.last().mute, box.last().lasting = true, true
		began := time.Now()
		s.Kill()
		<-s.Done()
		if took := time.Since(began); took != killLimit || !unknown(lost) || s.Value() != "mine" || s.State(t.Context()) != Exited {
			t.Errorf("after %v: %v, %v", took, lost, s.State(t.Context()))
		}
		if got := collect(t, s, Wait{Yield: time.Minute}); !unknown(got.Lost) || got.State != Exited {
			t.Errorf("%+v", got)
		}
		wantKind(t, s.Write(t.Context(), []byte("x")), fault.Conflict)
		again := start(t, store, spec)
		box.last().lasting = true
		again.Kill()
		time.Sleep(time.Minute)
		if again.Over() {
			t.Error("what still answers was given up")
		}
		box.last().exits(9)
		<-again.Done()
		if got := collect(t, again, Wait{}); got.Exit.Code != 9 {
			t.Errorf("%+v", got)
		}
	})
}

func unknown(err error) bool {
	f, ok := fault.As(err)
	return ok && f.Code == CodeInfrastructure && strings.Contains(f.Message, "kill")
}

// What is just being started has its number and its name already.
func TestASessionThatIsBeingStartedHasItsName(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		box.hang = make(chan struct{})
		spec := inPipe(box, "serve")
		spec.ID, spec.Name = 1001, "web"
		var first *Session
		var started sync.WaitGroup
		started.Go(func() { first = start(t, store, spec) })
		synctest.Wait()
		for _, same := range []Spec{{ID: 1001, Starter: box}, {Name: "web", Starter: box}} {
			same.Command = spec.Command
			_, err := store.Start(t.Context(), same)
			wantKind(t, err, fault.Conflict)
		}
		close(box.hang)
		started.Wait()
		if got, err := store.Named("web"); err != nil || got != first || len(store.List()) != 1 {
			t.Errorf("%v, %+v", err, store.List())
		}
		box.hang = nil
		start(t, store, inPipe(box, "other"))
	})
}

// Each session tells its own listeners, and the store's of all.
func TestASessionsOwnListeners(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		var mine strings.Builder
		var ended []int
		spec := inPipe(box, "job")
		spec.Output = func(_ int, p []byte) { mine.Write(p) }
		spec.Ended = func(id int, exit process.Exit, _ error) { ended = append(ended, id, exit.Code) }
		one := start(t, store, spec)
		job := box.last()
		start(t, store, inPipe(box, "job"))
		box.last().says("of the other")
		job.says("mine")
		job.exits(3)
		<-one.Done()
		if mine.String() != "mine" || len(ended) != 2 || ended[0] != one.ID() || ended[1] != 3 {
			t.Errorf("%q, %v", mine.String(), ended)
		}
	})
}

// R39: what is mostly no text is one line; what replaces bytes is counted.
func TestOutputThatIsNoText(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inPipe(box, "cat", "image.png"))
		job := box.last()
		job.says("\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\x01\xfe\xff", 100))
		got := collect(t, s, Wait{Yield: time.Second})
		if got.Data.Type != "image/png" || got.Data.Bytes != 408 || got.Text() != got.Data.String() || got.TextBytes != int64(len(got.Text())) || got.Bytes != 408 {
			t.Errorf("%+v", got)
		}
		job.says("text, \xc3")
		job.says("\xa9 and \xff\xfe\n")
		got = collect(t, s, Wait{Yield: time.Second})
		if got.Data.Type != "" || got.Replaced != 2 || got.Text() != "text, é and \ufffd\n" {
			t.Errorf("%+v", got)
		}
		job.says("\xe2\x82")
		job.exits(0)
		if got = collect(t, s, Wait{Yield: time.Second}); got.Replaced != 2 {
			t.Errorf("%+v", got)
		}
	})
}
