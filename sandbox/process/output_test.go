package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

func TestOutputIsCutInTheMiddleAndCounted(t *testing.T) {
	w := newWriter(t)
	for i := range 100 {
		w.write(Stdout, fmt.Sprintf("line %02d äöü\n", i)) // 15 bytes each
	}
	w.end()
	got, err := w.job.Output(t.Context(), 100) // the cut goes through a character
	if err != nil {
		t.Fatal(err)
	}
	head, tail := "line 00 äöü\nline 01 äöü\nline 02 äöü\nline ", "ü\nline 97 äöü\nline 98 äöü\nline 99 äöü\n"
	o := got.Stdout
	if !o.Truncated || o.TruncatedAfterLines != 3 || o.Bytes != 1500 || o.ReplacedBytes != 0 || !utf8.ValidString(o.Text) {
		t.Errorf("got %+v", o)
	}
	if !strings.HasPrefix(o.Text, head) || !strings.HasSuffix(o.Text, tail) {
		t.Errorf("got %q", o.Text)
	}
	first, rest, _ := strings.Cut(o.Text, "\n[…")
	_, last, _ := strings.Cut(rest, "…]\n")
	if shown := int64(len(first) + len(last)); shown+o.OmittedBytes != o.Bytes {
		t.Errorf("%d bytes shown and %d left out of %d", shown, o.OmittedBytes, o.Bytes)
	}
	if want := LeftOut(o.OmittedBytes); !strings.Contains(o.Text, want) {
		t.Errorf("no %q in %q", want, o.Text)
	}
	if got.AggregatedOutput != o {
		t.Errorf("together: %+v", got.AggregatedOutput)
	}
}

func TestOutputCountsTheSpoolsGap(t *testing.T) {
	w := newWriter(t)
	const size = 100 << 20
	f, err := os.Create(filepath.Join(w.dir, resident.FileStdout)) // a hole, but for its ends
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteAt([]byte("begin\n"), 0)
	f.WriteAt([]byte("end\n"), size-4)
	w.append(resident.FileOrder, resident.AppendOrder(nil, Stdout, size))
	w.job.Grew(resident.OrderSize)
	w.job.End(Exit{Stdout: size})
	got, err := w.job.Output(t.Context(), 0)
	if err != nil || got.Stdout.Bytes != size || got.Stdout.OmittedBytes != size-HeadTailMax || got.Stdout.TruncatedAfterLines != 1 {
		t.Errorf("%d bytes, %d left out, %d lines, %v", got.Stdout.Bytes, got.Stdout.OmittedBytes, got.Stdout.TruncatedAfterLines, err)
	}
	if !strings.HasPrefix(got.Stdout.Text, "begin\n") || !strings.HasSuffix(got.Stdout.Text, "end\n") {
		t.Error("the ends are not there")
	}
}

func TestASkippedPartEndsTheHead(t *testing.T) {
	b := NewHeadTailBuffer(20)
	b.Write([]byte("head"))
	b.Skip(0) // nothing
	b.Write([]byte("er"))
	b.Skip(1000)
	b.Write([]byte("tail"))
	head, tail := b.Snapshot()
	if string(head) != "header" || string(tail) != "tail" || b.Omitted() != 1000 || b.Total() != 1010 {
		t.Errorf("head %q, tail %q, omitted %d of %d", head, tail, b.Omitted(), b.Total())
	}
	b.Skip(1)
	b.Write([]byte("later"))
	if _, tail := b.Snapshot(); string(tail) != "later" || b.Omitted() != 1005 {
		t.Errorf("tail %q, omitted %d", tail, b.Omitted())
	}
}

// A full disk may take a stream's bytes and not the record of their arrival: they are shown all the same.
func TestOutputShowsWhatNoRecordNames(t *testing.T) {
	w := newWriter(t)
	w.write(Stdout, "named\n")
	w.append(resident.FileStdout, []byte("rest"))
	w.job.End(Exit{Stdout: 10, StdoutLost: 3})
	got, err := w.job.Output(t.Context(), 0)
	want := StreamOutput{Text: "named\nrest", Bytes: 10, LostBytes: 3}
	if err != nil || got.Stdout != want {
		t.Errorf("got %+v, %v, want %+v", got.Stdout, err, want)
	}
}
