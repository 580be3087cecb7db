package process

import "unicode/utf8"

// HeadTailMax is the size of a [HeadTailBuffer] when none is given.
const HeadTailMax = 1 << 20

// HeadTailBuffer keeps the first and the last bytes of a stream, in bounded memory, and knows exactly how many it left
// out between them. The zero value keeps [HeadTailMax] bytes. It is not for several goroutines at once.
type HeadTailBuffer struct {
	max   int
	head  []byte
	ring  []byte // the last bytes after the head; full once it is tailMax long
	at    int    // where the ring's oldest byte lies
	total int64
	gap   bool // the head is over: bytes after it were never here
}

// NewHeadTailBuffer returns a buffer that keeps at most max bytes, half of them from the start. 0 or less is
// [HeadTailMax].
func NewHeadTailBuffer(max int) *HeadTailBuffer { return &HeadTailBuffer{max: max} }

func (b *HeadTailBuffer) headMax() int {
	if b.max <= 0 {
		return HeadTailMax / 2
	}
	return b.max / 2
}

func (b *HeadTailBuffer) tailMax() int {
	if b.max <= 0 {
		return HeadTailMax - HeadTailMax/2
	}
	return b.max - b.max/2
}

// Write takes the next bytes of the stream. It never fails.
func (b *HeadTailBuffer) Write(p []byte) (int, error) {
	n := len(p)
	b.total += int64(n)
	if room := b.headMax() - len(b.head); room > 0 && !b.gap {
		k := min(room, len(p))
		b.head = append(b.head, p[:k]...)
		p = p[k:]
	}
	most := b.tailMax()
	if len(p) >= most {
		b.ring, b.at = append(b.ring[:0], p[len(p)-most:]...), 0
		return n, nil
	}
	if room := most - len(b.ring); room > 0 {
		k := min(room, len(p))
		b.ring = append(b.ring, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(b.ring[b.at:], p)
		p = p[k:]
		b.at = (b.at + k) % most
	}
	return n, nil
}

// Skip tells of n bytes of the stream that nobody has any more. What follows them is the tail.
func (b *HeadTailBuffer) Skip(n int64) {
	if n > 0 {
		b.total += n
		b.ring, b.at, b.gap = b.ring[:0], 0, true
	}
}

// Total is how many bytes the stream had.
func (b *HeadTailBuffer) Total() int64 { return b.total }

// Omitted is how many of them are no longer here.
func (b *HeadTailBuffer) Omitted() int64 { return b.total - int64(len(b.head)+len(b.ring)) }

// Snapshot returns copies of what is kept: the first bytes, and the last bytes. Between them Omitted bytes are missing.
func (b *HeadTailBuffer) Snapshot() (head, tail []byte) {
	head = append([]byte(nil), b.head...)
	tail = append(append(make([]byte, 0, len(b.ring)), b.ring[b.at:]...), b.ring[:b.at]...)
	return head, tail
}

// Reset forgets everything, and keeps the memory.
func (b *HeadTailBuffer) Reset() {
	b.head, b.ring, b.at, b.total, b.gap = b.head[:0], b.ring[:0], 0, 0, false
}

// View shows what is kept as text, with one line for what is not. A character that the gap cuts is left out whole, and
// its bytes are counted as lost.
func (b *HeadTailBuffer) View() View {
	v := View{Bytes: b.total, LostBytes: b.Omitted()}
	head, tail := b.Snapshot()
	var d Decoder
	if v.LostBytes == 0 {
		text := d.append(make([]byte, 0, len(head)+len(tail)), head)
		text = d.flush(d.append(text, tail))
		v.Text, v.Replaced = string(text), d.Replaced()
		return v
	}
	text := d.append(make([]byte, 0, len(head)+len(tail)+100), head)
	v.LostBytes += int64(d.drop())
	for k := 0; k < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); k++ {
		tail = tail[1:]
		v.LostBytes++
	}
	text = append(text, '\n')
	text = append(text, LeftOut(v.LostBytes)...)
	text = append(text, '\n')
	text = d.flush(d.append(text, tail))
	v.Text, v.Replaced = string(text), d.Replaced()
	return v
}
