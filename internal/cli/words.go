package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/hardshell-dev/hardshell/fault"
)

// duration writes a time as a person reads it: 12 ms, 3.4 s, 2 min 5 s.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

// bytesText writes a size as a person reads it, exact below ten thousand.
func bytesText(n int64) string {
	switch {
	case n < 10_000:
		return strconv.FormatInt(n, 10) + " B"
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 10_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// terminal says whether a stream is a terminal.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// visible writes a text so that what is seen is what it holds: control characters and the marks that reorder or hide
// text are escaped. Newlines and tabs stay.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !hidden(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// hidden says whether a character acts on a terminal or hides instead of showing: controls, and the marks that change
// the direction of text.
func hidden(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F
}

// plain takes the terminal's language out of a stream of text: escape sequences go, so do other controls, and a
// carriage return becomes a line's end. It keeps its place across pieces. A program's output must not move the cursor,
// rename the window or write to the clipboard of who watches it.
type plain struct {
	state   byte // 0 text, 'e' after ESC, '[' in a control sequence, ']' in a string, 'E' after ESC in a string
	afterCR bool // the piece before ended in a carriage return
}

// Text returns what a piece shows.
func (p *plain) Text(piece string) string {
	var b strings.Builder
	for _, r := range piece {
		switch p.state {
		case 'e':
			p.state = 0
			switch {
			case r == '[':
				p.state = '['
			case r == ']' || r == 'P' || r == '_' || r == '^' || r == 'X':
				p.state = ']'
			case r >= 0x20 && r <= 0x2f: // an intermediate; the final one follows
				p.state = 'e'
			}
			continue
		case '[':
			if r >= 0x40 && r <= 0x7e || r < 0x20 {
				p.state = 0
			}
			continue
		case ']':
			switch r {
			case 0x07, 0x9c:
				p.state = 0
			case 0x1b:
				p.state = 'E'
			}
			continue
		case 'E':
			p.state = ']'
			if r == '\\' {
				p.state = 0
			}
			continue
		}
		after := p.afterCR
		p.afterCR = r == '\r'
		switch {
		case r == 0x1b:
			p.state = 'e'
		case r == 0x9b:
			p.state = '['
		case r == 0x9d || r == 0x90:
			p.state = ']'
		case r == '\r':
			b.WriteByte('\n')
		case r == '\n' && after: // the pair has been written as one
		case r == '\n' || r == '\t' || !hidden(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unread says that a file which was named on the command line cannot be read. what is an article and a noun.
func unread(what, path string, err error) *fault.Error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Invalid, "read %s: there is no file %s", what, path)
	}
	return fault.Wrap(fault.Invalid, err, "%s cannot be read", what)
}
