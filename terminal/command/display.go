package command

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longRun is how many spaces in a row are shown as a count: more could push text off a screen.
const longRun = 8

// Display returns the script as a person should read it before it runs: each part whole, on a line of its own.
func (s *Script) Display() []string {
	lines := make([]string, len(s.Parts))
	for i := range s.Parts {
		lines[i] = s.Parts[i].Display()
	}
	return lines
}

// Display returns the part's text on one line. Every byte is there: line ends, controls, invisible and
// direction-changing characters, look-alike spaces and bytes that are no UTF-8 are shown as ⟨U+000A⟩ or ⟨byte FF⟩, long runs of spaces as
// ⟨300 spaces⟩.
func (p *Part) Display() string { return visible(p.Text) }

func visible(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if text[i] == ' ' {
			n := len(text[i:]) - len(strings.TrimLeft(text[i:], " "))
			if n > longRun {
				fmt.Fprintf(&b, "⟨%d spaces⟩", n)
			} else {
				b.WriteString(text[i : i+n])
			}
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "⟨byte %02X⟩", text[i])
		case r == '⟨' || r == '⟩' || !unicode.IsPrint(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r) || blank(r):
			// A combining mark would draw over its neighbour, a filler would draw nothing.
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

// blank reports characters that count as printable and draw nothing.
func blank(r rune) bool {
	return r == 0x115F || r == 0x1160 || r == 0x3164 || r == 0xFFA0 || r == 0x2800
}
