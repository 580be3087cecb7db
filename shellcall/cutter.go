package shellcall

import (
	"bytes"
)

// cutter finds the end of a command in a stream that goes on. The end is a mark that nobody could know before the command
// was over: a NUL, the mark, a colon, what the shell says, and a NUL.
type cutter struct {
	mark []byte // NUL, the random part, a colon
	emit func(data []byte)
	held []byte // what may be the beginning of the mark, or the mark and what follows it
}

func newCutter(mark string, emit func([]byte)) *cutter {
	return &cutter{mark: []byte("\x00" + mark + ":"), emit: emit}
}

// maxSaid bounds what the shell may say behind the mark: a code and a folder.
const maxSaid = 16 << 10

// write takes the next bytes. When the end is among them, said is what the shell says of it and rest what comes after.
func (c *cutter) write(data []byte) (said string, rest []byte, found bool) {
	c.held = append(c.held, data...)
	at := bytes.Index(c.held, c.mark)
	if at < 0 {
		keep := c.beginning()
		c.pass(len(c.held) - keep)
		return "", nil, false
	}
	c.pass(at)
	text := c.held[len(c.mark):]
	before, after, ended := bytes.Cut(text, []byte{0})
	if !ended {
		if len(text) > maxSaid { // it is no shell that says so much
			c.pass(len(c.held))
		}
		return "", nil, false
	}
	return string(before), bytes.Clone(after), true
}

// beginning is how many of the last bytes may be the mark's first.
func (c *cutter) beginning() int {
	for n := min(len(c.mark)-1, len(c.held)); n > 0; n-- {
		if bytes.HasPrefix(c.mark, c.held[len(c.held)-n:]) {
			return n
		}
	}
	return 0
}

// pass emits the first n held bytes.
func (c *cutter) pass(n int) {
	if n > 0 {
		c.emit(c.held[:n])
		c.held = append(c.held[:0], c.held[n:]...)
	}
}

// end emits what is held: the stream is over.
func (c *cutter) end() { c.pass(len(c.held)) }
