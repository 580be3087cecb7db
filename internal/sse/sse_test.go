package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// frame is an Event that owns its data.
type frame struct{ Name, ID, Data string }

// readAll reads all events of r.
func readAll(r *Reader) ([]frame, error) {
	var all []frame
	for {
		ev, err := r.Next()
		if err != nil {
			return all, err
		}
		all = append(all, frame{ev.Name, ev.ID, string(ev.Data)})
	}
}

var readerCases = []struct {
	name, in string
	want     []frame
}{
	{"nothing", "", nil},
	{"one", "data: a\n\n", []frame{{"", "", "a"}}},
	{"named", "event: x\ndata: a\n\n", []frame{{"x", "", "a"}}},
	{"name behind data", "data: a\nevent: x\n\n", []frame{{"x", "", "a"}}},
	{"name does not stay", "event: x\ndata: a\n\ndata: b\n\n", []frame{{"x", "", "a"}, {"", "", "b"}}},
	{"name without data is forgotten", "event: x\n\ndata: b\n\n", []frame{{"", "", "b"}}},
	{"last name wins", "event: x\nevent: y\ndata: a\n\n", []frame{{"y", "", "a"}}},
	{"no space", "data:a\n\n", []frame{{"", "", "a"}}},
	{"only one space goes", "data:  a \n\n", []frame{{"", "", " a "}}},
	{"several lines", "data: a\ndata:\ndata: c\n\n", []frame{{"", "", "a\n\nc"}}},
	{"lines with others between", "data: a\n: hi\nid: 7\ndata: b\nretry: 5\n\n", []frame{{"", "7", "a\nb"}}},
	{"empty data", "data:\n\n", []frame{{"", "", ""}}},
	{"field without colon", "data\ndata\n\n", []frame{{"", "", "\n"}}},
	{"unknown fields", "dat: x\ndatax: y\n data: z\ndata: a\n\n", []frame{{"", "", "a"}}},
	{"colon in the value", "data: a:b: c\n\n", []frame{{"", "", "a:b: c"}}},
	{"comments", ": hello\n\n:\n\ndata: a\n\n: bye\n\n", []frame{{"", "", "a"}}},
	{"id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []frame{{"", "1", "a"}, {"", "1", "b"}, {"", "", "c"}}},
	{"id with NUL is ignored", "id: 1\x002\ndata: a\n\n", []frame{{"", "", "a"}}},
	{"crlf", "event: x\r\ndata: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []frame{{"x", "", "a\nb"}, {"", "", "c"}}},
	{"cr", "event: x\rdata: a\rdata: b\r\rdata: c\r\r", []frame{{"x", "", "a\nb"}, {"", "", "c"}}},
	{"mixed ends", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\r", []frame{{"", "", "a\nb\nc"}, {"", "", "d"}}},
	{"many blank lines", "\n\r\n\r\r\ndata: a\n\n\n\n\ndata: b\n\n", []frame{{"", "", "a"}, {"", "", "b"}}},
	{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []frame{{"", "", "a"}}},
	{"byte order mark later", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []frame{{"", "", "a"}}},
	{"part of a mark", "\xef\xbbdata: a\n\ndata: b\n\n", []frame{{"", "", "b"}}},
	{"end without blank line", "data: a\n\ndata: b\n", []frame{{"", "", "a"}, {"", "", "b"}}},
	{"end in a line", "data: a\n\ndata: b", []frame{{"", "", "a"}}},
	{"end in a second line", "data: a\ndata: b", []frame{{"", "", "a"}}},
	{"bytes of any kind", "data: \xff\x00\x01ü\n\n", []frame{{"", "", "\xff\x00\x01ü"}}},
	{"done", "data: {\"a\":1}\n\ndata: [DONE]\n\n", []frame{{"", "", `{"a":1}`}, {"", "", "[DONE]"}}},
}

func TestReader(t *testing.T) {
	for _, tt := range readerCases {
		t.Run(tt.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"whole":         strings.NewReader(tt.in),
				"one byte":      iotest.OneByteReader(strings.NewReader(tt.in)),
				"end with data": iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				got, err := readAll(NewReader(r))
				if diff := cmp.Diff(tt.want, got); diff != "" || err != io.EOF {
					t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
				}
			}
		})
	}
}

// Every pair of cuts must give the same events, with a buffer so small that it moves and grows all the time.
func TestReaderSplitAnywhere(t *testing.T) {
	for _, tt := range readerCases {
		for cut := range len(tt.in) + 1 {
			r := NewReader(io.MultiReader(strings.NewReader(tt.in[:cut]), strings.NewReader(tt.in[cut:])))
			r.buf = make([]byte, 4)
			if got, err := readAll(r); !cmp.Equal(tt.want, got) || err != io.EOF {
				t.Fatalf("%s, cut at %d: %q, %v", tt.name, cut, got, err)
			}
		}
	}
}

// An event must be there as soon as its blank line is, without a byte behind it: CR included.
func TestReaderDoesNotWait(t *testing.T) {
	for _, in := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r\n", "\xef\xbb\xbfdata: a\r\n\r"} {
		pr, pw := io.Pipe()
		go func() { io.WriteString(pw, in) }()
		ev, err := NewReader(pr).Next()
		if err != nil || string(ev.Data) != "a" {
			t.Errorf("%q: %q, %v", in, ev.Data, err)
		}
		pw.Close()
		pr.Close()
	}
}

func TestReaderError(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	got, err := readAll(r)
	if !cmp.Equal(got, []frame{{"", "", "a"}}) || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := r.Next(); !errors.Is(err, broken) {
		t.Errorf("the error does not stay: %v", err)
	}
	if _, err := NewReader(stuck{}).Next(); err != io.ErrNoProgress {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestReaderLimit(t *testing.T) {
	const limit = 1000
	long := strings.Repeat("x", limit-6) // "data: " is part of the line
	half := strings.Repeat("y", limit/2)
	for _, tt := range []struct {
		name, in string
		events   int
		err      error
	}{
		{"a line at the limit", "data: " + long + "\n\n", 1, io.EOF},
		{"a line beyond it", "data: a\n\ndata: " + strings.Repeat("x", 10*limit) + "\n\n", 1, ErrTooLong},
		{"a comment beyond it", ":" + strings.Repeat("x", 10*limit), 0, ErrTooLong},
		{"a line that never ends", strings.Repeat("x", 100*limit), 0, ErrTooLong},
		{"a frame at the limit", "data: " + half[1:] + "\ndata: " + half + "\n\n", 1, io.EOF},
		{"a frame beyond it", "data: " + half + "\ndata: " + half + "\n\n", 0, ErrTooLong},
		{"empty lines without end", strings.Repeat("data\n", 10*limit), 0, ErrTooLong},
		{"one line, then a long one of no data", "data: " + long + "\n: " + long + "\n\n", 1, io.EOF},
	} {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(tt.in), "one byte": iotest.OneByteReader(strings.NewReader(tt.in))} {
			r := NewReader(in)
			r.limit = limit
			r.buf = make([]byte, 16)
			if got, err := readAll(r); len(got) != tt.events || err != tt.err {
				t.Errorf("%s, %s: %d events, %v", tt.name, name, len(got), err)
			}
			if len(r.buf) > 8*limit+2*firstBuffer {
				t.Errorf("%s: the buffer grew to %d", tt.name, len(r.buf))
			}
		}
	}
}

func TestReaderTakesABigFrame(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 2<<20-1) // just below 32 MiB with its field name
	ev, err := NewReader(bytes.NewReader(AppendFrame(nil, "big", data))).Next()
	if err != nil || !bytes.Equal(ev.Data, data) {
		t.Errorf("%d bytes, %v", len(ev.Data), err)
	}
}

func TestReaderAllocatesNothing(t *testing.T) {
	in := strings.Repeat("event: response.output_text.delta\nid: 7\ndata: {\"delta\":\"token \"}\n\nevent: other\ndata: a\ndata: b\n\n", 5000)
	r := NewReader(strings.NewReader(in))
	for range 10 {
		r.Next()
	}
	if n := testing.AllocsPerRun(5000, func() { r.Next() }); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

func TestAppendFrame(t *testing.T) {
	for _, tt := range []struct{ name, data, want string }{
		{"", "a", "data: a\n\n"},
		{"x", "a", "event: x\ndata: a\n\n"},
		{"x", "", "event: x\ndata: \n\n"},
		{"", "a\nb\r\nc\rd\n", "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
	} {
		if got := string(AppendFrame([]byte("<"), tt.name, []byte(tt.data))); got != "<"+tt.want {
			t.Errorf("%q %q: %q, want %q", tt.name, tt.data, got, tt.want)
		}
	}
	if got := string(AppendComment(nil, "a\nb")); got != ": a\n: b\n\n" {
		t.Errorf("comment %q", got)
	}
}

// FuzzReader holds that the split changes nothing, that no input panics, and that what is written is read back.
func FuzzReader(f *testing.F) {
	for _, tt := range readerCases {
		f.Add([]byte(tt.in), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		want, err := readAll(NewReader(bytes.NewReader(in)))
		if err != io.EOF {
			t.Fatal(err)
		}
		r := NewReader(chunked{bytes.NewReader(in), int(size%16) + 1})
		r.buf = make([]byte, int(size%8)+1)
		got, err := readAll(r)
		if err != io.EOF || !cmp.Equal(want, got) {
			t.Fatalf("split: %v\n%s", err, cmp.Diff(want, got))
		}
		var again []byte
		for _, w := range want {
			again = AppendFrame(again, w.Name, []byte(w.Data))
		}
		back, _ := readAll(NewReader(bytes.NewReader(again)))
		for i := range want {
			want[i].ID = ""
		}
		if !cmp.Equal(want, back) {
			t.Fatalf("written and read back:\n%s", cmp.Diff(want, back))
		}
	})
}

type chunked struct {
	r io.Reader
	n int
}

func (c chunked) Read(b []byte) (int, error) { return c.r.Read(b[:min(c.n, len(b))]) }

func BenchmarkReader(b *testing.B) {
	one := "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt-4o-mini\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"token \"},\"finish_reason\":null}]}\n\n"
	r := NewReader(&endless{[]byte(one), 0})
	b.SetBytes(int64(len(one)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

// endless gives the same bytes for ever.
type endless struct {
	data []byte
	pos  int
}

func (e *endless) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		c := copy(b[n:], e.data[e.pos:])
		n += c
		e.pos = (e.pos + c) % len(e.data)
	}
	return n, nil
}

func BenchmarkAppendFrame(b *testing.B) {
	data := []byte(`{"type":"response.output_text.delta","delta":"token "}`)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendFrame(buf[:0], "response.output_text.delta", data)
	}
}

// Where Ready says yes, the next event comes without a read.
func TestReadyKeepsItsWord(t *testing.T) {
	yes := 0
	for _, tt := range readerCases {
		for size := 1; size <= len(tt.in); size++ {
			src := &counted{r: strings.NewReader(tt.in), size: size}
			r := NewReader(src)
			for {
				ready, reads := r.Ready(), src.reads
				_, err := r.Next()
				if ready {
					yes++
					if err != nil || src.reads != reads {
						t.Fatalf("%s, %d bytes a read: ready, and then %d reads, %v", tt.name, size, src.reads-reads, err)
					}
				}
				if err != nil {
					break
				}
			}
		}
	}
	if yes == 0 {
		t.Error("never ready")
	}
}

// counted counts its reads, each of at most size bytes.
type counted struct {
	r     io.Reader
	size  int
	reads int
}

func (c *counted) Read(b []byte) (int, error) {
	c.reads++
	return c.r.Read(b[:min(c.size, len(b))])
}
