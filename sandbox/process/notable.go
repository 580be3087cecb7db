package process

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// What a view leaves out is not all alike: of a log of fifty megabytes the one line that says what failed is what its
// reader wants. Lines that look like that are kept from the middle, within the same budget.

// signs are what such lines have in them. Each is looked for as it stands; case is folded by writing both.
var signs = [signCount][]byte{[]byte("rror"), []byte("RROR"), []byte("atal"), []byte("FATAL"), []byte("anic:"), []byte("PANIC"), []byte("xception"),
	[]byte("raceback"), []byte("FAIL"), []byte("ailed"), []byte("ailure"), []byte("denied"), []byte("fault"), []byte("Killed"),
	[]byte("ndefined"), []byte("not found"), []byte("o such file")}

const (
	signCount = 17
	// leastForNotable is the smallest budget that spares some for such lines: below it head and tail are little enough.
	leastForNotable = 400
	// maxNotableLine is the most characters of one line, maxNotable the most lines of each end that are remembered.
	maxNotableLine = 240
	maxNotable     = 16
	// maxCarry bounds a line that goes on from one block to the next. Of a longer one a part is looked at by itself.
	maxCarry = 4096
)

// notable gathers the lines of a text that look like errors: the first of them and the last.
type notable struct {
	at    int64  // where carry begins in the text, in bytes
	carry []byte // the last line, which is not at its end
	first []notableLine
	last  []notableLine // a ring
	next  int
}

// notableLine is a line, clipped, and where it stands whole.
type notableLine struct {
	begin, end int64 // in bytes of the text
	text       string
}

// add looks through the next part of a text.
func (n *notable) add(text []byte) {
	if len(n.carry) > 0 {
		cut := bytes.IndexByte(text, '\n') + 1
		if cut == 0 {
			cut = min(len(text), maxCarry)
		}
		n.carry = append(n.carry, text[:cut]...)
		if n.carry[len(n.carry)-1] != '\n' && len(n.carry) < maxCarry {
			return
		}
		n.look(n.carry, n.at)
		n.at += int64(len(n.carry))
		n.carry, text = n.carry[:0], text[cut:]
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if len(text)-whole > maxCarry {
		whole = len(text) - maxCarry
	}
	n.look(text[:whole], n.at)
	n.at += int64(whole)
	n.carry = append(n.carry, text[whole:]...)
}

// end looks at what no line break ended.
func (n *notable) end() {
	n.look(n.carry, n.at)
	n.at += int64(len(n.carry))
	n.carry = n.carry[:0]
}

// look finds the lines of a block that have a sign in them. It searches for signs and then for their lines, so that a
// block without any costs no more than the searches.
func (n *notable) look(block []byte, at int64) {
	var hits [signCount]int
	for i, sign := range signs {
		hits[i] = index(block, sign, 0)
	}
	for {
		first := -1
		for i := range signs {
			if hits[i] >= 0 && (first < 0 || hits[i] < hits[first]) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		hit := hits[first]
		begin := bytes.LastIndexByte(block[:hit], '\n') + 1
		end := len(block)
		if i := bytes.IndexByte(block[hit:], '\n'); i >= 0 {
			end = hit + i
		}
		n.note(notableLine{at + int64(begin), at + int64(end), clip(block[begin:end], hit-begin)})
		for i, sign := range signs {
			if hits[i] >= 0 && hits[i] < end {
				hits[i] = index(block, sign, end)
			}
		}
	}
}

func index(block, sign []byte, from int) int {
	if i := bytes.Index(block[from:], sign); i >= 0 {
		return from + i
	}
	return -1
}

func (n *notable) note(l notableLine) {
	switch {
	case len(n.first) < maxNotable:
		n.first = append(n.first, l)
	case len(n.last) < maxNotable:
		n.last = append(n.last, l)
	default:
		n.last[n.next] = l
		n.next = (n.next + 1) % maxNotable
	}
}

// clip keeps what surrounds a place of a line.
func clip(line []byte, hit int) string {
	line = bytes.TrimRight(line, "\r")
	if utf8.RuneCount(line) <= maxNotableLine {
		return string(line)
	}
	begin := max(0, min(hit, len(line))-maxNotableLine/3)
	for begin > 0 && !utf8.RuneStart(line[begin]) {
		begin--
	}
	rest := line[begin:]
	return string(rest[:runeOffset(rest, maxNotableLine)])
}

// between chooses lines that stand whole between two places of the text, in order: of at most budget characters,
// line breaks counted, one half of them from the front and the other from the back.
func (n *notable) between(from, to int64, budget int) (lines []string, chars int) {
	all := append(append(append([]notableLine(nil), n.first...), n.last[n.next:]...), n.last[:n.next]...)
	inside := all[:0]
	for _, l := range all {
		if l.begin >= from && l.end <= to && strings.TrimSpace(l.text) != "" {
			inside = append(inside, l)
		}
	}
	take := make([]bool, len(inside))
	spend := func(i, most int) bool {
		cost := utf8.RuneCountInString(inside[i].text) + 1
		if take[i] || chars+cost > most {
			return false
		}
		take[i] = true
		chars += cost
		return true
	}
	for i := range inside {
		if !spend(i, budget/2) {
			break
		}
	}
	for i := len(inside) - 1; i >= 0; i-- {
		if !spend(i, budget) {
			break
		}
	}
	for i, l := range inside {
		if take[i] {
			lines = append(lines, l.text)
		}
	}
	return lines, chars
}
