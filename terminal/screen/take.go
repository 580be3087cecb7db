package screen

import "bytes"

// emit appends to the text.
func (s *Screen) emit(p []byte) {
	if len(p) == 0 {
		return
	}
	s.out.Write(p)
	if s.body != nil {
		s.body.Write(p)
	}
	s.atLine = p[len(p)-1] == '\n'
}

var lineEnd = []byte{'\n'}

// mostLine bounds what is put together of a broken line for [Options.Line].
const mostLine = 64 << 10

// leave gives what is new of a row that goes off the screen, and its end.
func (s *Screen) leave(l *line) {
	if s.o.Line != nil && (l.fresh() || len(s.line) > 0) {
		if len(s.line) < mostLine {
			s.line = l.appendFrom(s.line, 0)
		}
		if !l.wrapped {
			s.o.Line(s.line)
			s.line = s.line[:0]
		}
	}
	s.give(l, true)
}

// give gives what is new of a row. Of one that goes on below its end is no end.
func (s *Screen) give(l *line, ends bool) {
	if l.over {
		if !s.atLine {
			s.emit(lineEnd)
		}
		l.shown, l.over, l.ended = 0, false, false
	}
	if n := l.len(); n > l.shown || !l.lettered {
		if l.cells == nil && !l.smudged {
			s.emit(l.text[l.shown:])
		} else {
			s.emit(l.appendFrom(nil, l.shown))
		}
		l.shown, l.lettered = n, true
	}
	if ends && !l.ended && !l.wrapped {
		s.emit(lineEnd)
	}
	l.ended = l.ended || ends
}

// settle gives all that stands on the screens and is new.
func (s *Screen) settle() {
	last := len(s.main.lines) - 1
	for i := range s.main.lines {
		s.give(s.main.lines[i], i < last)
	}
	if s.on != &s.alt {
		return
	}
	var b []byte
	for i := range s.alt.lines {
		b = append(bytes.TrimRight(s.alt.lines[i].appendFrom(b, 0), " "), '\n')
	}
	b = bytes.TrimRight(b, " \n")
	if string(b) == s.altText {
		return
	}
	s.altText = string(b)
	if !s.atLine {
		s.emit(lineEnd)
	}
	s.emit(append(b, '\n'))
}
