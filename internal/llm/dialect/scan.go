package dialect

import (
	"strings"
	"unicode/utf8"
)

// Scanner walks strict JSON without allocating, for the frames that come by the hundred. Each method steps over what it
// names, or says false, and then all is over: encoding/json reads the frame instead. Whoever builds on it must never say
// true where encoding/json would read something else; fuzz tests hold them to that.
type Scanner struct {
	Data    []byte
	Pos     int
	Scratch []byte // kept from frame to frame, for text with escapes
}

// Space steps over white space.
func (s *Scanner) Space() {
	for s.Pos < len(s.Data) {
		switch s.Data[s.Pos] {
		case ' ', '\t', '\n', '\r':
			s.Pos++
		default:
			return
		}
	}
}

// AtEnd says that only white space is left.
func (s *Scanner) AtEnd() bool {
	s.Space()
	return s.Pos == len(s.Data)
}

// Byte steps over white space and c.
func (s *Scanner) Byte(c byte) bool {
	if s.Pos < len(s.Data) && s.Data[s.Pos] == c { // servers that write no spaces
		s.Pos++
		return true
	}
	s.Space()
	if s.Pos < len(s.Data) && s.Data[s.Pos] == c {
		s.Pos++
		return true
	}
	return false
}

// Word steps over white space and a literal.
func (s *Scanner) Word(w string) bool {
	s.Space()
	if len(s.Data)-s.Pos < len(w) || string(s.Data[s.Pos:s.Pos+len(w)]) != w {
		return false
	}
	s.Pos += len(w)
	return true
}

// Count reads a whole number of up to 15 digits, or null, which changes nothing.
func (s *Scanner) Count(n *int64) bool {
	if s.Word("null") {
		return true
	}
	start, v := s.Pos, int64(0)
	for ; s.Pos < len(s.Data) && s.Data[s.Pos] >= '0' && s.Data[s.Pos] <= '9'; s.Pos++ {
		v = 10*v + int64(s.Data[s.Pos]-'0')
		if s.Pos-start == 15 {
			return false
		}
	}
	if s.Pos == start || s.Data[start] == '0' && s.Pos-start > 1 {
		return false
	}
	*n = v
	return true // a fraction or an exponent behind it is no comma and no brace
}

// Scalar steps over a string without escapes, a plain integer or null.
func (s *Scanner) Scalar() bool {
	s.Space()
	if s.Pos >= len(s.Data) {
		return false
	}
	switch c := s.Data[s.Pos]; {
	case c == '"':
		_, ok := s.Plain()
		return ok
	case c == 'n':
		return s.Word("null")
	case c >= '1' && c <= '9':
		for s.Pos < len(s.Data) && s.Data[s.Pos] >= '0' && s.Data[s.Pos] <= '9' {
			s.Pos++
		}
		return true
	}
	return false
}

// Object walks an object. value steps over the value of a key.
func (s *Scanner) Object(value func(key []byte) bool) bool {
	if !s.Byte('{') {
		return false
	}
	if s.Byte('}') {
		return true
	}
	for {
		key, ok := s.Plain()
		if !ok || !s.Byte(':') || !value(key) {
			return false
		}
		if s.Byte('}') {
			return true
		}
		if !s.Byte(',') {
			return false
		}
	}
}

// Plain reads a string without escapes, of printable ASCII only.
func (s *Scanner) Plain() ([]byte, bool) {
	if !s.Byte('"') {
		return nil, false
	}
	start := s.Pos
	for ; s.Pos < len(s.Data); s.Pos++ {
		switch c := s.Data[s.Pos]; {
		case c == '"':
			s.Pos++
			return s.Data[start : s.Pos-1], true
		case c < 0x20 || c == '\\' || c >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

// Text reads the rest of a string behind its first quote, of any valid UTF-8, with the usual escapes. It lies in Data or
// in Scratch.
func (s *Scanner) Text() ([]byte, bool) {
	start, ascii, copied := s.Pos, true, false
	for s.Pos < len(s.Data) {
		c := s.Data[s.Pos]
		switch {
		case c == '"':
			text := s.Data[start:s.Pos]
			if copied {
				s.Scratch = append(s.Scratch, text...)
				text = s.Scratch
			}
			s.Pos++
			return text, ascii || utf8.Valid(text)
		case c == '\\':
			if s.Pos+1 >= len(s.Data) {
				return nil, false
			}
			e := strings.IndexByte(`"\/bfnrt`, s.Data[s.Pos+1])
			if e < 0 {
				return nil, false // \u is encoding/json's to read
			}
			if !copied {
				s.Scratch = s.Scratch[:0]
			}
			s.Scratch = append(append(s.Scratch, s.Data[start:s.Pos]...), "\"\\/\b\f\n\r\t"[e])
			copied = true
			s.Pos += 2
			start = s.Pos
		case c < 0x20:
			return nil, false
		default:
			ascii = ascii && c < utf8.RuneSelf
			s.Pos++
		}
	}
	return nil, false
}
