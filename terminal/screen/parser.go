package screen

import "unicode/utf8"

// state is where in a sequence the parser is.
type state uint8

const (
	ground state = iota
	escape
	designate // ESC ( and the like: one more byte names a character set
	ignoreOne // one more byte belongs to the sequence
	csi
	osc
	oscEscape // an ESC in it: a backslash ends it
	text      // a string that is for nobody here: DCS, SOS, PM, APC
	textEscape
)

const (
	mostOSC    = 4 << 10
	mostText   = 1 << 20 // beyond it a string was none
	mostParams = 16
	mostParam  = 1 << 16
)

// parser cuts the output into characters and control sequences. It allocates for operating system commands only.
type parser struct {
	state  state
	held   [utf8.UTFMax]byte // a character's first bytes
	heldN  int
	broken bool // the last byte was no character, so the next such one belongs to the same run

	params  [mostParams]int
	count   int
	given   bool // a digit of the current parameter
	private byte // ? > < = or 0
	between byte // an intermediate byte, or 0
	which   int  // character set that is designated
	osc     []byte
	length  int
}

// step takes one byte or character and says how many bytes that was.
func (p *parser) step(s *Screen, b []byte) int {
	c := b[0]
	if p.state != ground && p.inString() {
		p.inside(s, c)
		return 1
	}
	if p.heldN > 0 || c >= utf8.RuneSelf {
		if p.state == ground {
			return p.character(s, c)
		}
		p.state = ground // no sequence has such a byte
		return 0
	}
	if c < ' ' || c == 0x7f {
		p.broken = false
		p.control(s, c)
		return 1
	}
	switch p.state {
	case ground:
		p.broken = false
		s.put(rune(c))
	case escape:
		p.escaped(s, c)
	case designate:
		s.on.boxes[p.which] = c == '0'
		p.state = ground
	case ignoreOne:
		p.state = ground
	case csi:
		p.sequence(s, c)
	}
	return 1
}

func (p *parser) inString() bool { return p.state >= osc }

// character decodes UTF-8, a byte at a time. A run of bytes that are none is one U+FFFD, however the output was cut.
func (p *parser) character(s *Screen, c byte) int {
	p.held[p.heldN] = c
	p.heldN++
	full := p.held[:p.heldN]
	if !utf8.FullRune(full) {
		return 1
	}
	p.heldN = 0
	r, size := utf8.DecodeRune(full)
	if size == len(full) && (r != utf8.RuneError || size > 1) {
		p.broken = false
		if r < 0x80 || r > 0x9f { // controls of an age without UTF-8
			s.put(r)
		}
		return 1
	}
	p.replace(s)
	if len(full) > 1 {
		return 0 // the byte that broke it off is looked at anew
	}
	return 1
}

// replace puts the sign for bytes that are no character, once for a run of them.
func (p *parser) replace(s *Screen) {
	if !p.broken {
		s.put(utf8.RuneError)
	}
	p.broken = true
}

// control carries out a control character, which may stand within a sequence.
func (p *parser) control(s *Screen, c byte) {
	g := s.on
	switch c {
	case 0x1b:
		p.state = escape
		p.between = 0
		return
	case 0x18, 0x1a:
		p.state = ground
	case '\r':
		g.x = 0
	case '\n', '\v', '\f':
		if !s.o.Raw {
			g.x = 0
		}
		s.feed()
	case '\b':
		if s.cols > 0 && g.x >= s.cols {
			g.x = s.cols - 1
		}
		g.x = max(g.x-1, 0)
	case '\t':
		s.tab()
	case 0x0e:
		g.set = 1
	case 0x0f:
		g.set = 0
	}
}

func (p *parser) escaped(s *Screen, c byte) {
	g := s.on
	p.state = ground
	switch c {
	case '[':
		*p = parser{state: csi, osc: p.osc[:0]}
	case ']':
		p.state, p.osc = osc, p.osc[:0]
	case 'P', 'X', '^', '_':
		p.state, p.length = text, 0
	case '(', ')':
		p.state, p.which = designate, int(c-'(')
	case '*', '+', '-', '.', '/', '#', '%', ' ':
		p.state = ignoreOne
	case '7':
		g.save()
	case '8':
		g.restore(s)
	case 'D':
		s.feed()
	case 'E':
		g.x = 0
		s.feed()
	case 'M':
		switch {
		case g.y == g.top:
			s.scrollDown(1)
		case g.y > 0:
			g.y--
		}
	case 'c':
		s.useAlt(false)
		s.erase(2)
		g := s.on
		g.x, g.y, g.top, g.bottom, g.nowrap, g.boxes, g.set = 0, 0, 0, s.rows-1, false, [2]bool{}, 0
		g.trim()
	}
}

// inside takes a byte of a string.
func (p *parser) inside(s *Screen, c byte) {
	switch p.state {
	case osc, oscEscape:
		switch {
		case p.state == oscEscape:
			p.endOSC(s)
			if c != '\\' { // the ESC began something else
				p.state = escape
				p.step(s, []byte{c})
			}
		case c == 0x07:
			p.endOSC(s)
		case c == 0x1b:
			p.state = oscEscape
		case c == 0x18 || c == 0x1a:
			p.state = ground
		case c == '\n' || c == '\r': // no title holds one: it was never ended, and what follows is output
			p.state = ground
			p.control(s, c)
		case len(p.osc) < mostOSC:
			p.osc = append(p.osc, c)
		}
	case textEscape:
		p.state = ground
		if c != '\\' {
			p.state = escape
			p.step(s, []byte{c})
		}
	case text:
		p.length++
		switch {
		case c == 0x1b:
			p.state = textEscape
		case c == 0x18 || c == 0x1a || p.length > mostText:
			p.state = ground
		}
	}
}

func (p *parser) endOSC(s *Screen) {
	p.state = ground
	if s.o.OSC != nil {
		s.o.OSC(string(p.osc))
	}
	p.osc = p.osc[:0]
}

// sequence takes a byte of a control sequence.
func (p *parser) sequence(s *Screen, c byte) {
	switch {
	case c >= '0' && c <= '9':
		if p.count < mostParams {
			p.given = true
			p.params[p.count] = min(p.params[p.count]*10+int(c-'0'), mostParam)
		}
	case c == ';' || c == ':':
		p.count, p.given = min(p.count+1, mostParams), false
	case c >= '<' && c <= '?':
		p.private = c
	case c < '0':
		p.between = c
	default:
		p.state = ground
		if p.between == 0 {
			s.obey(c, p)
		}
	}
}

// param is a parameter, or what stands for one that is absent or 0.
func (p *parser) param(i, otherwise int) int {
	if i < mostParams && p.params[i] > 0 {
		return p.params[i]
	}
	return otherwise
}
