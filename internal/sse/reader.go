package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxFrame bounds one line and the data of one frame. A captured file may travel as base64 in a single event;
// beyond it the stream ends with ErrTooLong.
const maxFrame = 32 << 20

// firstBuffer holds some tens of token-sized frames, so that one read of a busy stream yields many.
const firstBuffer = 8 << 10

// maxNames bounds the table of event names seen, which spares an allocation per frame.
const maxNames = 64

// ErrTooLong is the error for a line or a frame beyond 32 MiB.
var ErrTooLong = errors.New("sse: frame is longer than 32 MiB")

// Event is one dispatched frame. Data is valid until the next call of Next. ID is the last id seen on the stream,
// as the standard has it.
type Event struct {
	Name, ID string
	Data     []byte
}

// Reader splits a byte stream into events. It is for one goroutine.
type Reader struct {
	src   io.Reader
	buf   []byte
	pos   int // first byte not yet read as a line
	end   int // end of what src has given
	limit int
	err   error // what src ended with; told once the buffer is used up

	started bool // the byte order mark has been looked for
	skipLF  bool // the last line ended with CR: an LF that follows belongs to it

	name  string // the frame's event name
	id    string
	lines int    // data lines of the frame so far
	from  int    // the frame's only data line: buf[from:to]
	to    int    //
	data  []byte // the frame's data, from its second line on
	names map[string]string
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{src: r, buf: make([]byte, firstBuffer), limit: maxFrame}
}

// Next returns the next event that has data, and io.EOF at the end of the stream. A last frame whose lines are whole
// counts even without the blank line behind it; a last line that was cut does not.
func (r *Reader) Next() (Event, error) {
	r.name, r.lines, r.data = "", 0, r.data[:0]
	for {
		from, to, err := r.line()
		if err != nil {
			if err == io.EOF && r.lines > 0 {
				return r.event(), nil
			}
			return Event{}, err
		}
		if from == to {
			if r.lines > 0 {
				return r.event(), nil
			}
			r.name = ""
			continue
		}
		if err := r.field(from, to); err != nil {
			return Event{}, err
		}
	}
}

// event is the frame that has been gathered.
func (r *Reader) event() Event {
	data := r.data
	if r.lines == 1 {
		data = r.buf[r.from:r.to:r.to]
	}
	r.lines = 0
	return Event{Name: r.name, ID: r.id, Data: data}
}

// field takes one line that is not empty.
func (r *Reader) field(from, to int) error {
	line := r.buf[from:to]
	colon := bytes.IndexByte(line, ':')
	field, value := line, 0
	switch {
	case colon == 0:
		return nil // a comment
	case colon > 0:
		field, value = line[:colon], colon+1
		if value < len(line) && line[value] == ' ' {
			value++
		}
	default:
		value = len(line)
	}
	switch string(field) {
	case "data":
		return r.addData(from+value, to)
	case "event":
		r.name = r.intern(line[value:])
	case "id":
		if v := line[value:]; bytes.IndexByte(v, 0) < 0 && string(v) != r.id {
			r.id = string(v)
		}
	}
	return nil
}

// addData joins a data line to the frame. A single line, the common case, stays where it is in the buffer.
func (r *Reader) addData(from, to int) error {
	if to-from > r.limit {
		return ErrTooLong
	}
	switch r.lines {
	case 0:
		r.from, r.to = from, to
	case 1:
		r.data = append(r.data[:0], r.buf[r.from:r.to]...)
		fallthrough
	default:
		if len(r.data)+1+to-from > r.limit {
			return ErrTooLong
		}
		r.data = append(append(r.data, '\n'), r.buf[from:to]...)
	}
	r.lines++
	return nil
}

// intern returns name as a string, allocated once per name and stream.
func (r *Reader) intern(name []byte) string {
	if s, ok := r.names[string(name)]; ok {
		return s
	}
	s := string(name)
	if r.names == nil {
		r.names = make(map[string]string)
	}
	if len(r.names) < maxNames {
		r.names[s] = s
	}
	return s
}

// line returns the place of the next line, without its end.
func (r *Reader) line() (from, to int, err error) {
	scanned := 0 // bytes behind pos that hold no line end
	for {
		if !r.started && !r.begin() {
			if err := r.fill(); err != nil {
				return 0, 0, err
			}
			continue
		}
		if r.skipLF && r.pos < r.end {
			r.skipLF = false
			if r.buf[r.pos] == '\n' {
				r.pos++
			}
		}
		if n := lineEnd(r.buf[r.pos+scanned : r.end]); n >= 0 {
			from, to = r.pos, r.pos+scanned+n
			r.pos = to + 1
			r.skipLF = r.buf[to] == '\r'
			return from, to, nil
		}
		scanned = r.end - r.pos
		if scanned > r.limit {
			return 0, 0, ErrTooLong
		}
		if err := r.fill(); err != nil {
			return 0, 0, err
		}
	}
}

// begin drops a byte order mark. It says false while it needs more bytes to know.
func (r *Reader) begin() bool {
	const mark = "\xef\xbb\xbf"
	have := r.buf[r.pos:r.end]
	if len(have) < len(mark) && string(have) == mark[:len(have)] && r.err == nil {
		return false
	}
	if bytes.HasPrefix(have, []byte(mark)) {
		r.pos += len(mark)
	}
	r.started = true
	return true
}

// lineEnd is the index of the first CR or LF. Streams with CR are rare, so LF is looked for first.
func lineEnd(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	if n >= 0 {
		b = b[:n]
	}
	if c := bytes.IndexByte(b, '\r'); c >= 0 {
		return c
	}
	return n
}

// fill reads more. It first makes room: what was read is dropped, except the frame's only data line.
func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	keep := r.pos
	if r.lines == 1 {
		keep = r.from
	}
	switch {
	case keep == r.end:
		r.pos, r.end = 0, 0
	case r.end < len(r.buf):
	case keep > len(r.buf)/2:
		r.move(r.buf, keep)
	case len(r.buf) > 2*r.limit+firstBuffer: // a data line and the line behind it, both at the limit
		return ErrTooLong
	default:
		r.move(make([]byte, 2*len(r.buf)), keep)
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		if n < 0 || n > len(r.buf)-r.end {
			return errors.New("sse: reader returned a wrong count")
		}
		r.end += n
		if err != nil {
			r.err = err
			if err != io.EOF {
				r.err = fmt.Errorf("read event stream: %w", err)
			}
		}
		if n > 0 {
			return nil
		}
		if r.err != nil {
			return r.err
		}
	}
	return io.ErrNoProgress
}

// move copies what is kept to the start of to.
func (r *Reader) move(to []byte, keep int) {
	n := copy(to, r.buf[keep:r.end])
	r.buf, r.pos, r.end = to, r.pos-keep, n
	r.from, r.to = r.from-keep, r.to-keep
}

// Ready says that the next call of Next returns an event without reading: one with data is whole in the buffer. It may
// say no where that is so as well.
func (r *Reader) Ready() bool {
	have := r.buf[r.pos:r.end]
	if bytes.HasPrefix(have, nameField) {
		_, have, _ = bytes.Cut(have, newLine)
	}
	return r.started && bytes.HasPrefix(have, dataField) && bytes.Contains(have, blankLine)
}

var nameField, dataField, newLine, blankLine = []byte("event:"), []byte("data:"), []byte("\n"), []byte("\n\n")
