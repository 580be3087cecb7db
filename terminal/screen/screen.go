package screen

import (
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// The bounds of a screen when none are given.
const (
	DefaultRows = 24
	DefaultKeep = 1 << 20
)

const (
	mostRows = 500      // of a screen
	mostCols = 4 << 10  // of a screen with columns
	longest  = 16 << 10 // of a row of a screen without
)

// Options describe the terminal. The zero value is a pipe: as wide as the lines are.
type Options struct {
	Rows int // 0 is DefaultRows: how far up a command can write over its own lines
	Cols int // 0 is without an end: nothing is broken
	// Raw is for the bytes of a terminal, where the driver has made "\r\n" of each line's end and a lone "\n" only moves
	// down. Without it a "\n" begins a new line.
	Raw  bool
	Keep int // bytes of text kept between two takes, half from the start and half from the end; 0 is DefaultKeep
	// OSC is called with each operating system command, such as "133;A", up to 4 KiB of it, at its place in the output.
	OSC func(text string)
	// Line is called with each line that has left the screen and will not change any more. It is valid during the call.
	Line func(line []byte)
}

// A Screen is a terminal's, with what scrolled off it. It is not for several goroutines at once.
type Screen struct {
	o          Options
	rows, cols int

	main, alt grid
	on        *grid  // main or alt
	altText   string // what the last take gave of the other screen

	parser parser
	out    *process.HeadTailBuffer // text since the last take
	body   *process.HeadTailBuffer // text since Mark; nil without
	atLine bool                    // what out has ends with a line's end, or is empty
	line   []byte                  // a broken line's rows that have left, for Options.Line
}

// New returns an empty screen.
func New(o Options) *Screen {
	s := &Screen{o: o, atLine: true}
	if s.o.Keep <= 0 {
		s.o.Keep = DefaultKeep
	}
	s.out = process.NewHeadTailBuffer(s.o.Keep)
	s.Resize(o.Rows, o.Cols)
	s.on = &s.main
	s.main.reset(s)
	s.alt.reset(s)
	return s
}

// Resize gives the screen another size. Lines that stand are not broken anew.
func (s *Screen) Resize(rows, cols int) {
	if rows <= 0 {
		rows = DefaultRows
	}
	s.rows, s.cols = min(rows, mostRows), min(max(cols, 0), mostCols)
	if s.on == nil {
		return
	}
	for _, g := range []*grid{&s.main, &s.alt} {
		g.top, g.bottom = 0, s.rows-1
		for len(g.lines) > s.rows {
			if g == &s.main {
				s.leave(g.lines[0])
			}
			g.lines = g.lines[1:]
			g.y--
		}
		g.y = min(max(g.y, 0), s.rows-1)
		if s.cols > 0 {
			g.x = min(g.x, s.cols)
		}
	}
}

// width is how many columns a row may have.
func (s *Screen) width() int {
	if s.cols > 0 {
		return s.cols
	}
	return longest
}

// Write takes the next bytes of the output. It never fails.
func (s *Screen) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if s.parser.state == ground && s.parser.heldN == 0 {
			if k := s.plain(p); k > 0 {
				p = p[k:]
				continue
			}
		}
		p = p[s.parser.step(s, p):]
	}
	return n, nil
}

// plain takes the printable ASCII that p begins with, and line ends between, which is most of what is ever printed.
func (s *Screen) plain(p []byte) (n int) {
	g := s.on
	for n < len(p) {
		k := n
		for k < len(p) && p[k] >= ' ' && p[k] < 0x7f {
			k++
		}
		if k > n {
			if g.graphics() {
				return n
			}
			l := g.line(s)
			if g.x != l.len() || l.cells != nil || g.y >= s.rows {
				return n
			}
			room := s.width() - g.x
			if room <= 0 {
				return n
			}
			k = min(k, n+room)
			l.text = append(l.text, p[n:k]...)
			g.x += k - n
			g.last = rune(p[k-1])
			s.parser.broken = false
			n = k
			continue
		}
		if p[k] != '\n' || s.o.Raw {
			return n
		}
		g.x = 0
		s.parser.broken = false
		s.feed()
		n++
	}
	return n
}

// End tells that no more output comes: a character that was never completed is none.
func (s *Screen) End() {
	if s.parser.heldN > 0 {
		s.parser.heldN = 0
		s.parser.replace(s)
	}
}

// Take returns the text that is new since the last take.
func (s *Screen) Take() Text {
	s.settle()
	t := s.pending()
	s.out.Reset()
	s.atLine = true
	return t
}

// Peek returns what Take would, and takes nothing.
func (s *Screen) Peek() Text {
	s.settle()
	return s.pending()
}

func (s *Screen) pending() Text { return textOf(s.out) }

// Mark begins a passage: what is shown from here on.
func (s *Screen) Mark() {
	s.settle()
	s.body = process.NewHeadTailBuffer(s.o.Keep)
}

// Marked ends a passage and returns its text; ok is false when none was begun.
func (s *Screen) Marked() (text Text, ok bool) {
	if s.body == nil {
		return Text{}, false
	}
	s.settle()
	text = textOf(s.body)
	s.body = nil
	return text, true
}

// Line is the line that the cursor stands in, as it is shown.
func (s *Screen) Line() string {
	g := s.on
	if g.y >= len(g.lines) {
		return ""
	}
	first := g.y
	for first > 0 && g.lines[first-1].wrapped {
		first--
	}
	var b []byte
	for y := first; y <= g.y; y++ {
		b = g.lines[y].appendFrom(b, 0)
	}
	return strings.TrimRight(string(b), " ")
}

// Lines calls do with each line that stands on the screen and that no take has given in full, until it says false.
func (s *Screen) Lines(do func(line []byte) bool) {
	var b []byte
	for i := range s.on.lines {
		l := s.on.lines[i]
		if i == 0 || !s.on.lines[i-1].wrapped {
			b = b[:0]
		}
		b = l.appendFrom(b, 0)
		if l.wrapped && i+1 < len(s.on.lines) {
			continue
		}
		if (l.fresh() || s.on == &s.alt) && !do(b) {
			return
		}
	}
}

// Text is a bounded piece of text: all of it is Head, or its first part is Head, its last is Tail, and Omitted counts
// the bytes between.
type Text struct {
	Head, Tail string
	Omitted    int64
	Total      int64 // bytes of the whole text
}

// String joins the parts, with one line between them that counts what is not there.
func (t Text) String() string {
	if t.Omitted == 0 {
		return t.Head + t.Tail
	}
	return t.Head + "\n" + process.LeftOut(t.Omitted) + "\n" + t.Tail
}

// textOf is what a buffer holds, cut where characters end.
func textOf(b *process.HeadTailBuffer) Text {
	head, tail := b.Snapshot()
	t := Text{Omitted: b.Omitted(), Total: b.Total()}
	if t.Omitted == 0 {
		t.Head = string(append(head, tail...))
		return t
	}
	whole := len(head)
	for k := 1; k <= utf8.UTFMax && k <= len(head); k++ {
		if c := head[len(head)-k]; utf8.RuneStart(c) {
			if !utf8.FullRune(head[len(head)-k:]) {
				head = head[:len(head)-k]
			}
			break
		}
	}
	t.Omitted += int64(whole - len(head))
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
		t.Omitted++
	}
	t.Head, t.Tail = string(head), string(tail)
	return t
}

// Render is what a terminal would finally show of a command's whole output, of at most keep bytes (0 is DefaultKeep).
func Render(p []byte, keep int) Text {
	s := New(Options{Keep: keep})
	s.Write(p)
	return s.Take()
}
