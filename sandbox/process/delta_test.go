package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

func deltas(t *testing.T, j *Job, l DeltaLimits) (all []Delta, text [3]string, omitted [3]int64) {
	t.Helper()
	for d, err := range j.Deltas(t.Context(), l) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
		text[d.Stream] += d.Text
		omitted[d.Stream] += d.Omitted
	}
	return all, text, omitted
}

func TestDeltasShowAll(t *testing.T) {
	w := newWriter(t)
	w.write(Stdout, "aé漢")
	w.write(Stderr, "no\xff")
	w.write(Stdout, "🦀")
	w.write(Stdout, "\xe6\xbc") // never completed
	w.end()
	all, text, omitted := deltas(t, w.job, DeltaLimits{Size: 4})
	if text[Stdout] != "aé漢🦀\uFFFD" || text[Stderr] != "no\uFFFD" || omitted != [3]int64{} {
		t.Errorf("%q %v: %+v", text, omitted, all)
	}
}

func TestDeltasAreBounded(t *testing.T) {
	const rounds = 300
	w := newWriter(t)
	for i := range rounds {
		w.write(Stdout, fmt.Sprintf("%04d漢", i))
		w.write(Stderr, "e")
	}
	w.end()
	out := rounds * 7
	for _, l := range []DeltaLimits{{Count: 10}, {Count: 100}, {Bytes: 50}, {Bytes: 51}, {Bytes: 1}, {Count: 1}, {Count: 601}, {Size: 4, Count: 90}} {
		all, text, omitted := deltas(t, w.job, l)
		if l.Count > 0 && len(all) > max(l.Count, 4) {
			t.Errorf("%+v: %d deltas", l, len(all))
		}
		if len(text[Stdout])+int(omitted[Stdout]) != out || len(text[Stderr])+int(omitted[Stderr]) != rounds || strings.Contains(text[Stdout], "\uFFFD") {
			t.Errorf("%+v: %d and %d bytes shown, %v left out", l, len(text[Stdout]), len(text[Stderr]), omitted)
		}
		if l.Bytes > 0 && len(text[Stdout]) > int(l.Bytes) {
			t.Errorf("%+v: %d bytes", l, len(text[Stdout]))
		}
	}
	if got, _ := io.ReadAll(w.job.Reader(Stdout)); len(got) != out { // what was left out is captured
		t.Errorf("the spool has %d bytes", len(got))
	}
}

func TestDeltasOfALostJobEndWithItsError(t *testing.T) {
	w := newWriter(t)
	w.write(Stdout, "partial")
	w.job.Lost(nil)
	var text string
	var last error
	for d, err := range w.job.Deltas(t.Context(), DeltaLimits{}) {
		text, last = text+d.Text, err
	}
	if text != "partial" || fault.KindOf(last) != fault.Unavailable {
		t.Errorf("%q, %v", text, last)
	}
}

// FuzzDeltas holds the sender to two laws, however a stream is cut: it shows and counts every byte once, and it stays
// within its limits.
func FuzzDeltas(f *testing.F) {
	f.Add([]byte("aé漢🦀"), 3, 5, 7, 9)
	f.Add([]byte("\xff\xe6\xbc\xf0\x9f"), 1, 4, 4, 100)
	f.Fuzz(func(t *testing.T, data []byte, step, size, count, limit int) {
		step = 1 + int(uint(step)%32)
		l := DeltaLimits{Size: 4 + int(uint(size)%16), Count: 4 + int(uint(count)%32), Bytes: 1 + int64(uint(limit)%64)}
		n, omitted := 0, int64(0)
		var text strings.Builder
		s := sender{limits: l.orDefault(), yield: func(d Delta, _ error) bool {
			n++
			omitted += d.Omitted
			text.WriteString(d.Text)
			return true
		}}
		for off := 0; off < len(data); off += step {
			s.take(Chunk{Stream: Stdout, Offset: int64(off), Data: data[off:min(off+step, len(data))]})
		}
		s.finish()
		shown := len(data) - int(omitted)
		if n > l.Count || omitted < 0 || shown < 0 || text.String() != strings.ToValidUTF8(string(data[:shown]), "\uFFFD") {
			t.Fatalf("%+v: %d deltas, %d left out, %q of %q", l, n, omitted, text.String(), data)
		}
	})
}

func TestAJobWithoutControlIsNotFed(t *testing.T) {
	w := newWriter(t)
	_, err := w.job.Write(t.Context(), []byte("x"))
	for _, err := range []error{err, w.job.CloseInput(t.Context()), w.job.Resize(t.Context(), Size{})} {
		if fault.KindOf(err) != fault.Unsupported || err == nil {
			t.Errorf("running: %v", err)
		}
	}
	w.job.Terminate() // kills nothing
	w.end()
	if err := w.job.CloseInput(t.Context()); fault.KindOf(err) != fault.Conflict {
		t.Errorf("ended: %v", err)
	}
}

// control records what a job passes on.
type control struct {
	mu    sync.Mutex
	said  []string
	write error
}

func (c *control) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

func (c *control) Kill() { c.say("kill") }
func (c *control) Write(_ context.Context, p []byte) (int, error) {
	c.say("write %s", p)
	return len(p), c.write
}
func (c *control) CloseInput(context.Context) error { c.say("close"); return nil }
func (c *control) Resize(_ context.Context, s Size) error {
	c.say("resize %d %d", s.Rows, s.Cols)
	return nil
}

func TestAJobPassesOn(t *testing.T) {
	c := &control{}
	j := Controlled(t.TempDir(), c)
	in := j.Input(t.Context())
	io.WriteString(in, "a")
	in.Close()
	j.Resize(t.Context(), Size{Cols: 100})
	j.Kill()
	if got := strings.Join(c.said, ", "); got != "write a, close, resize 24 100, kill" {
		t.Errorf("got %s", got)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := j.Write(gone, nil); err != cause {
		t.Errorf("got %v", err)
	}
}

func TestHandleOfALostJob(t *testing.T) {
	w := newWriter(t)
	s := w.job.Spawned(t.Context())
	w.job.Lost(nil)
	if _, ok := <-s.Exit; ok {
		t.Error("a lost job gave a code")
	}
	if _, ok := s.Session.ExitCode(); ok || !s.Session.HasExited() {
		t.Error("a lost job has exited, without a code")
	}
}
