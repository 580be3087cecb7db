package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// writer plays the resident: bytes to the spool, then the record, then the word to the job.
type writer struct {
	t     testing.TB
	dir   string
	job   *Job
	order int64
	size  [3]int64
}

func newWriter(t testing.TB) *writer {
	dir := filepath.Join(t.TempDir(), "call_1", "0")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return &writer{t: t, dir: dir, job: New(dir, nil)}
}

func (w *writer) append(name string, p []byte) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(p)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) write(stream int, text string) {
	w.t.Helper()
	w.append([]string{Stdout: resident.FileStdout, Stderr: resident.FileStderr}[stream], []byte(text))
	w.append(resident.FileOrder, resident.AppendOrder(nil, stream, int64(len(text))))
	w.order += resident.OrderSize
	w.size[stream] += int64(len(text))
	w.job.Grew(w.order)
}

func (w *writer) end() {
	w.job.End(Exit{Code: 3, Stdout: w.size[Stdout], Stderr: w.size[Stderr]})
}

// read follows the job and writes down what comes: o for stdout, e for stderr.
func read(ctx context.Context, j *Job) (string, error) {
	var b strings.Builder
	for c, err := range j.Follow(ctx) {
		if err != nil {
			return b.String(), err
		}
		fmt.Fprintf(&b, "%c@%d:%s|", " oe"[c.Stream], c.Offset, c.Data)
	}
	return b.String(), nil
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestFollowKeepsArrivalOrder(t *testing.T) {
	w := newWriter(t)
	w.write(Stdout, "one ")
	w.write(Stdout, "two ")
	w.write(Stderr, "bad ")
	w.write(Stdout, "three")
	w.end()
	w.write(Stdout, "after the end")
	got, err := read(testContext(t), w.job)
	if want := "o@0:one two |e@0:bad |o@8:three|"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	exit, err := w.job.Wait(testContext(t))
	if exit.Code != 3 || err != nil {
		t.Errorf("Wait() = %+v, %v", exit, err)
	}
	later, err := io.ReadAll(w.job.Reader(Stdout))
	if string(later) != "one two threeafter the end" || err != nil {
		t.Errorf("Reader gave %q, %v", later, err)
	}
	if w.job.Key() != "call_1" {
		t.Errorf("Key() = %q", w.job.Key())
	}
}

// The order file needs room too: a spool may have taken the last of a disk.
func TestFollowYieldsWhatNoRecordNames(t *testing.T) {
	for name, named := range map[string]bool{"no record": false, "some records": true} {
		t.Run(name, func(t *testing.T) {
			w := newWriter(t)
			want := ""
			if named {
				w.write(Stdout, "one ")
				w.write(Stderr, "bad ")
				want = "o@0:one |e@0:bad |"
			}
			w.append(resident.FileStdout, []byte("two "))
			w.append(resident.FileStderr, []byte("worse "))
			want += fmt.Sprintf("o@%d:two |e@%d:worse |", w.size[Stdout], w.size[Stderr])
			w.size[Stdout] += 4
			w.size[Stderr] += 6
			w.end()
			w.append(resident.FileStdout, []byte("after the end"))
			if got, err := read(testContext(t), w.job); got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestFollowIsLiveForEveryReader(t *testing.T) {
	w := newWriter(t)
	ctx := testContext(t)
	var wg sync.WaitGroup
	results := make([]string, 4)
	first := make(chan struct{}, len(results))
	for i := range results {
		wg.Go(func() {
			for c, err := range w.job.Follow(ctx) {
				if err != nil {
					t.Errorf("reader %d: %v", i, err)
					return
				}
				if results[i] == "" {
					first <- struct{}{}
				}
				results[i] += string(c.Data)
			}
		})
	}
	w.write(Stdout, "begin ")
	for range results {
		<-first // each has seen it while the call runs
	}
	var want strings.Builder
	want.WriteString("begin ")
	for i := range 500 {
		text := fmt.Sprintf("line %d\n", i)
		want.WriteString(text)
		w.write(Stdout, text)
	}
	w.end()
	wg.Wait()
	for i, got := range results {
		if got != want.String() {
			t.Errorf("reader %d has %d bytes, want %d", i, len(got), want.Len())
		}
	}
}

func TestFollowCutsLargePieces(t *testing.T) {
	w := newWriter(t)
	text := strings.Repeat("0123456789abcdef", 20_000) // one record of 320,000 bytes
	w.write(Stdout, text)
	w.end()
	var got strings.Builder
	for c, err := range w.job.Follow(testContext(t)) {
		if err != nil || len(c.Data) > followBuffer || c.Offset != int64(got.Len()) {
			t.Fatalf("chunk of %d at %d, %v", len(c.Data), c.Offset, err)
		}
		got.Write(c.Data)
	}
	if got.String() != text {
		t.Errorf("got %d bytes, want %d", got.Len(), len(text))
	}
}

func TestFollowManyRecords(t *testing.T) {
	w := newWriter(t)
	var want [3]int
	for i := range 300 { // more than a block of records
		w.write(1+i%2, strings.Repeat("x", i+1))
		want[1+i%2] += i + 1
	}
	w.end()
	var got [3]int
	chunks := 0
	for c, err := range w.job.Follow(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		got[c.Stream] += len(c.Data)
		chunks++
	}
	if got != want || chunks != 300 {
		t.Errorf("got %v in %d chunks, want %v in 300", got, chunks, want)
	}
}

func TestFollowEndsEarly(t *testing.T) {
	t.Run("context", func(t *testing.T) {
		w := newWriter(t)
		w.write(Stdout, "x")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		gone := errors.New("client went away")
		var seen strings.Builder
		var last error
		for c, err := range w.job.Follow(ctx) {
			if last = err; err == nil {
				seen.WriteString(string(c.Data))
				cancel(gone)
			}
		}
		if seen.String() != "x" || !errors.Is(last, gone) {
			t.Errorf("saw %q, %v", seen.String(), last)
		}
		if _, err := w.job.Wait(ctx); !errors.Is(err, gone) {
			t.Errorf("Wait() = %v", err)
		}
	})
	t.Run("lost", func(t *testing.T) {
		w := newWriter(t)
		w.write(Stdout, "x")
		w.job.Lost(nil)
		w.job.End(Exit{}) // too late to count
		got, err := read(testContext(t), w.job)
		if got != "o@0:x|" || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := w.job.Wait(testContext(t)); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("Wait() = %v", err)
		}
		if v, err := w.job.View(Stdout, 0); v.Text != "x" || err != nil {
			t.Errorf("View() = %+v, %v", v, err)
		}
	})
	t.Run("no output", func(t *testing.T) {
		w := newWriter(t)
		w.end()
		got, err := read(testContext(t), w.job)
		if got != "" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if v, err := w.job.View(Stderr, 0); v != (View{}) || err != nil {
			t.Errorf("View() = %+v, %v", v, err)
		}
		if n := w.job.Reader(Stdout).Size(); n != 0 {
			t.Errorf("Reader has %d bytes", n)
		}
	})
}

func TestViewOfAJob(t *testing.T) {
	w := newWriter(t)
	w.write(Stdout, "half a character: \xe2\x82")
	v, err := w.job.View(Stdout, 0)
	if v.Text != "half a character: " || v.Replaced != 0 || err != nil {
		t.Errorf("while it runs: %+v, %v", v, err)
	}
	w.end()
	w.write(Stdout, "later")
	v, err = w.job.View(Stdout, 0)
	if v.Text != "half a character: \uFFFD" || v.Replaced != 2 || v.Bytes != 20 || err != nil {
		t.Errorf("at the end: %+v, %v", v, err)
	}
}

// A stream beyond the spool's cap: its middle is a hole, which no reader shows as output.
func TestPunchedMiddle(t *testing.T) {
	w := newWriter(t)
	const size = 100 << 20
	from, to := resident.Gap(size)
	if from == to {
		t.Fatal("the layout keeps all of 100 MiB; make the stream longer")
	}
	f, err := os.Create(filepath.Join(w.dir, resident.FileStdout))
	if err == nil {
		defer f.Close()
		_, err = f.WriteAt([]byte("first"), 0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte("\x82\xacof the tail"), to) // a character's rest
	}
	if err == nil {
		_, err = f.WriteAt([]byte("last"), size-4)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.append(resident.FileOrder, resident.AppendOrder(nil, Stdout, size))
	w.job.Grew(resident.OrderSize)
	w.job.End(Exit{Stdout: size})

	v, err := w.job.View(Stdout, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if lost := to - from + 2; v.Bytes != size || v.LostBytes != lost || v.OmittedChars != size-lost-1000 ||
		!strings.HasPrefix(v.Text, "first") || !strings.HasSuffix(v.Text, "last") || !strings.Contains(v.Text, "no longer kept") {
		t.Errorf("view of %d bytes, %d lost (want %d), %d left out", v.Bytes, v.LostBytes, lost, v.OmittedChars)
	}
	var got, jumps int64
	offset := int64(0)
	for c, err := range w.job.Follow(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Offset != offset {
			jumps++
			if offset != from || c.Offset != to {
				t.Errorf("jump from %d to %d, want %d to %d", offset, c.Offset, from, to)
			}
		}
		offset = c.Offset + int64(len(c.Data))
		got += int64(len(c.Data))
	}
	if got != size-(to-from) || jumps != 1 {
		t.Errorf("followed %d bytes with %d jumps", got, jumps)
	}
}

func TestKill(t *testing.T) {
	killed := 0
	j := New(t.TempDir(), func() { killed++ })
	j.Kill()
	j.Kill()
	if killed != 2 {
		t.Errorf("killed %d times", killed)
	}
	New(t.TempDir(), nil).Kill()
}
