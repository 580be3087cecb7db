package screen

import "unicode/utf8"

// cell is what stands in one column: a character, or one of these.
type cell uint32

const (
	wideRest cell = 1 << 30   // the second half of a wide character
	tabRest  cell = 1<<30 + 1 // a column that a tab skips
	cluster  cell = 1 << 29   // a character with others on top of it: the line's cluster of that number
)

// mostMarks bounds what is put on top of one character.
const mostMarks = 8

// line is a row. As long as it holds nothing but printable ASCII it is text, a byte a column, else cells.
type line struct {
	text     []byte
	cells    []cell // nil while it is plain
	clusters []string

	wrapped bool // it goes on in the next row, for want of room

	// What the takes know of it.
	shown    int  // columns that were given
	over     bool // one of those was changed since
	ended    bool // its end was given
	smudged  bool // something was written over something: blanks at its end were only for wiping
	lettered bool // a take has given some of it, or its end
}

func (l *line) len() int {
	if l.cells != nil {
		return len(l.cells)
	}
	return len(l.text)
}

// fresh says whether there is something that no take has given.
func (l *line) fresh() bool { return l.over || l.len() > l.shown || !l.lettered }

// reset makes an empty line, and keeps the memory.
func (l *line) reset() { *l = line{text: l.text[:0]} }

// spread turns plain text into cells.
func (l *line) spread() {
	if l.cells != nil {
		return
	}
	l.cells = make([]cell, len(l.text), max(2*len(l.text), 32))
	for i, c := range l.text {
		l.cells[i] = cell(c)
	}
	l.text = l.text[:0]
}

// touch notes that columns from x on change.
func (l *line) touch(x int) {
	if x < l.shown {
		l.over = true
	}
	if x < l.len() {
		l.smudged = true
	}
}

// pad makes the line at least n columns long.
func (l *line) pad(n int) {
	if l.cells != nil {
		for len(l.cells) < n {
			l.cells = append(l.cells, ' ')
		}
		return
	}
	for len(l.text) < n {
		l.text = append(l.text, ' ')
	}
}

// put writes a character of w columns at x.
func (l *line) put(x int, r rune, w int) {
	l.touch(x)
	if l.cells == nil && r < utf8.RuneSelf && r != '\t' {
		l.pad(x)
		if x < len(l.text) {
			l.text[x] = byte(r)
		} else {
			l.text = append(l.text, byte(r))
		}
		return
	}
	l.spread()
	l.pad(x)
	rest := wideRest
	if r == '\t' {
		rest = tabRest
	}
	for i := range w {
		l.free(x + i)
		c := rest
		if i == 0 {
			c = cell(r)
		}
		if x+i < len(l.cells) {
			l.cells[x+i] = c
		} else {
			l.cells = append(l.cells, c)
		}
	}
	l.tidy(x + w)
}

// free makes blanks of a wide character or tab of which column x is about to be written.
func (l *line) free(x int) {
	if x >= len(l.cells) || l.cells[x] != wideRest && l.cells[x] != tabRest {
		return
	}
	for i := x - 1; i >= 0; i-- {
		c := l.cells[i]
		l.cells[i] = ' '
		if c != wideRest && c != tabRest {
			break
		}
	}
	l.cells[x] = ' '
}

// tidy makes blanks of what is left, from x on, of a wide character or tab whose start is gone.
func (l *line) tidy(x int) {
	for ; x < len(l.cells) && (l.cells[x] == wideRest || l.cells[x] == tabRest); x++ {
		l.cells[x] = ' '
	}
}

// mark puts a character that takes no column of its own on the one before x.
func (l *line) mark(x int, r rune) {
	if x = min(x, l.len()); x == 0 {
		return
	}
	l.spread()
	for x--; x > 0 && (l.cells[x] == wideRest || l.cells[x] == tabRest); x-- {
	}
	l.touchMark(x)
	c := l.cells[x]
	if c&cluster != 0 {
		if s := l.clusters[c&^cluster]; utf8.RuneCountInString(s) < mostMarks {
			l.clusters[c&^cluster] = s + string(r)
		}
		return
	}
	if len(l.clusters) > 2*len(l.cells)+mostMarks {
		l.compact()
	}
	l.clusters = append(l.clusters, string(rune(c))+string(r))
	l.cells[x] = cluster | cell(len(l.clusters)-1)
}

// compact forgets the clusters that were written over.
func (l *line) compact() {
	old := l.clusters
	l.clusters = nil
	for i, c := range l.cells {
		if c&cluster != 0 {
			l.clusters = append(l.clusters, old[c&^cluster])
			l.cells[i] = cluster | cell(len(l.clusters)-1)
		}
	}
}

func (l *line) touchMark(x int) {
	if x < l.shown {
		l.over = true
	}
}

// cut removes what stands from x on.
func (l *line) cut(x int) {
	if x >= l.len() {
		return
	}
	l.touch(x)
	if l.cells != nil {
		l.free(x)
		l.cells = l.cells[:x]
		return
	}
	l.text = l.text[:x]
}

// blank wipes columns from to end, without moving what follows.
func (l *line) blank(from, to int) {
	to = min(to, l.len())
	if from >= to {
		return
	}
	if to == l.len() {
		l.cut(from)
		return
	}
	l.touch(from)
	if l.cells == nil {
		for i := from; i < to; i++ {
			l.text[i] = ' '
		}
		return
	}
	l.free(from)
	for i := from; i < to; i++ {
		l.cells[i] = ' '
	}
	l.tidy(to)
}

// remove takes n columns out at x, and what follows moves left.
func (l *line) remove(x, n int) {
	if x >= l.len() || n <= 0 {
		return
	}
	n = min(n, l.len()-x)
	l.touch(x)
	if l.cells == nil {
		l.text = append(l.text[:x], l.text[x+n:]...)
		return
	}
	l.free(x)
	l.tidy(x + n)
	l.cells = append(l.cells[:x], l.cells[x+n:]...)
}

// insert puts n blanks in at x; what would stand beyond width is lost.
func (l *line) insert(x, n, width int) {
	if x >= l.len() || n <= 0 {
		return
	}
	n = min(n, width-x)
	l.touch(x)
	if l.cells == nil {
		l.text = append(l.text, make([]byte, n)...)
		copy(l.text[x+n:], l.text[x:len(l.text)-n])
		for i := x; i < x+n; i++ {
			l.text[i] = ' '
		}
	} else {
		l.free(x)
		l.cells = append(l.cells, make([]cell, n)...)
		copy(l.cells[x+n:], l.cells[x:len(l.cells)-n])
		for i := x; i < x+n; i++ {
			l.cells[i] = ' '
		}
		l.tidy(x + n)
	}
	l.cut(width)
}

// appendFrom appends what the line shows from a column on.
func (l *line) appendFrom(b []byte, x int) []byte {
	start := len(b)
	if l.cells == nil {
		b = append(b, l.text[min(x, len(l.text)):]...)
	} else {
		for _, c := range l.cells[min(x, len(l.cells)):] {
			switch {
			case c >= wideRest:
			case c&cluster != 0:
				b = append(b, l.clusters[c&^cluster]...)
			default:
				b = utf8.AppendRune(b, rune(c))
			}
		}
	}
	if l.smudged && !l.wrapped {
		for len(b) > start && b[len(b)-1] == ' ' {
			b = b[:len(b)-1]
		}
	}
	return b
}
