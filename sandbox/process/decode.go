package process

import (
	"unicode/utf8"
)

// replacement is U+FFFD in UTF-8.
const replacement = "\uFFFD"

// Decoder turns a byte stream into text, piece by piece. All pieces together, and the flush, equal
// strings.ToValidUTF8(stream, "\uFFFD"): each run of invalid bytes becomes one U+FFFD, however the stream was cut. The
// zero value is ready.
type Decoder struct {
	held     [utf8.UTFMax]byte // the start of a character that may still be completed
	heldN    int
	broken   bool // the last byte was invalid, so the next invalid one belongs to the same run
	replaced int64
}

// Write takes the next bytes and returns the complete characters so far.
func (d *Decoder) Write(p []byte) string {
	if d.heldN == 0 && !d.broken && utf8.Valid(p) {
		return string(p)
	}
	return string(d.append(nil, p))
}

// Flush ends the stream: a character that was never completed is invalid.
func (d *Decoder) Flush() string { return string(d.flush(nil)) }

// Replaced returns how many bytes were invalid and stand as U+FFFD.
func (d *Decoder) Replaced() int64 { return d.replaced }

func (d *Decoder) append(dst, p []byte) []byte {
	for d.heldN > 0 && len(p) > 0 {
		d.held[d.heldN] = p[0]
		d.heldN++
		p = p[1:]
		if !utf8.FullRune(d.held[:d.heldN]) {
			continue
		}
		// Full: a character, or a first byte that is invalid with what follows it, which is then looked at anew.
		again := d.held
		n := d.heldN
		d.heldN = 0
		dst = d.appendFull(dst, again[:n])
	}
	return d.appendFull(dst, p)
}

// appendFull appends p's characters and holds an unfinished one at its end.
func (d *Decoder) appendFull(dst, p []byte) []byte {
	for len(p) > 0 {
		n := validPrefix(p)
		if n > 0 {
			dst = append(dst, p[:n]...)
			d.broken = false
			p = p[n:]
			continue
		}
		if !utf8.FullRune(p) {
			d.heldN = copy(d.held[:], p)
			return dst
		}
		dst = d.bad(dst, 1)
		p = p[1:]
	}
	return dst
}

func (d *Decoder) flush(dst []byte) []byte {
	n := d.heldN
	d.heldN = 0
	if n > 0 {
		dst = d.bad(dst, n)
	}
	d.broken = false
	return dst
}

func (d *Decoder) bad(dst []byte, n int) []byte {
	d.replaced += int64(n)
	if !d.broken {
		dst = append(dst, replacement...)
	}
	d.broken = true
	return dst
}

// validPrefix returns the length of p's longest prefix of whole, valid characters.
func validPrefix(p []byte) int {
	if utf8.Valid(p) {
		return len(p)
	}
	n := 0
	for n < len(p) {
		if p[n] < utf8.RuneSelf {
			n++
			continue
		}
		r, size := utf8.DecodeRune(p[n:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		n += size
	}
	return n
}

// drop forgets an unfinished character and says how many bytes it had.
func (d *Decoder) drop() int {
	n := d.heldN
	d.heldN, d.broken = 0, false
	return n
}
