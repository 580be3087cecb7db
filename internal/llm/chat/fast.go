package chat

import (
	"strings"
	"unicode/utf8"
)

// fastContent reads the chunk that nine frames in ten are: one choice, index 0, whose delta holds text and nothing
// else that matters. It returns the decoded text, which lies in data or in scratch (kept for the next call), and false for anything unusual,
// which encoding/json then reads. It must never say true where encoding/json would read something else; a fuzz test
// holds it to that.
func fastContent(data []byte, scratch *[]byte) (content []byte, ok bool) {
	s := scanner{data: data, scratch: (*scratch)[:0]}
	ok = s.object(inChunk) && s.atEnd() && s.hasChoices
	*scratch = s.scratch
	if !ok {
		return nil, false
	}
	return s.content, true
}

// scanner walks strict JSON. Each method steps over what it names, or says false, and then all is over.
type scanner struct {
	data    []byte
	pos     int
	scratch []byte

	content    []byte
	hasChoices bool
	hasContent bool
	hasDelta   bool
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) atEnd() bool {
	s.space()
	return s.pos == len(s.data)
}

// byte steps over white space and c.
func (s *scanner) byte(c byte) bool {
	if s.pos < len(s.data) && s.data[s.pos] == c { // servers that write no spaces
		s.pos++
		return true
	}
	s.space()
	if s.pos < len(s.data) && s.data[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// word steps over white space and a literal.
func (s *scanner) word(w string) bool {
	s.space()
	if len(s.data)-s.pos < len(w) || string(s.data[s.pos:s.pos+len(w)]) != w {
		return false
	}
	s.pos += len(w)
	return true
}

// level is the object that a key stands in.
type level int

const (
	inChunk level = iota
	inChoice
	inDelta
)

// object walks an object of a level.
func (s *scanner) object(l level) bool {
	if !s.byte('{') {
		return false
	}
	if s.byte('}') {
		return true
	}
	for {
		key, ok := s.plain()
		if !ok || !s.byte(':') || !s.value(l, key) {
			return false
		}
		if s.byte('}') {
			return true
		}
		if !s.byte(',') {
			return false
		}
	}
}

// value steps over the value of a key.
func (s *scanner) value(l level, key []byte) bool {
	switch l {
	case inChunk:
		return s.chunkKey(key)
	case inChoice:
		return s.choiceKey(key)
	default:
		return s.deltaKey(key)
	}
}

func (s *scanner) chunkKey(key []byte) bool {
	switch string(key) {
	case "choices":
		// A second "choices" would replace the first.
		if s.hasChoices || !s.byte('[') || !s.object(inChoice) || !s.byte(']') {
			return false
		}
		s.hasChoices = true
		return s.hasDelta
	case "usage", "error":
		return s.word("null")
	case "id", "object", "created", "model", "system_fingerprint", "service_tier", "obfuscation", "provider":
		return s.scalar() // nobody reads them
	}
	return false
}

func (s *scanner) choiceKey(key []byte) bool {
	switch string(key) {
	case "index":
		return s.word("0")
	case "delta":
		if s.hasDelta {
			return false
		}
		s.hasDelta = true
		return s.object(inDelta)
	case "finish_reason", "logprobs", "native_finish_reason", "stop_reason", "error", "message":
		return s.word("null")
	}
	return false
}

func (s *scanner) deltaKey(key []byte) bool {
	switch string(key) {
	case "content":
		if s.hasContent || !s.byte('"') {
			return false
		}
		s.hasContent = true
		return s.text()
	case "role":
		_, ok := s.plain()
		return ok
	case "refusal", "reasoning", "reasoning_content", "tool_calls":
		return s.word("null")
	}
	return false
}

// scalar steps over a string without escapes, a plain integer or null.
func (s *scanner) scalar() bool {
	s.space()
	if s.pos >= len(s.data) {
		return false
	}
	switch c := s.data[s.pos]; {
	case c == '"':
		_, ok := s.plain()
		return ok
	case c == 'n':
		return s.word("null")
	case c >= '1' && c <= '9':
		for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
			s.pos++
		}
		return true
	}
	return false
}

// plain reads a string without escapes, of printable ASCII only.
func (s *scanner) plain() ([]byte, bool) {
	if !s.byte('"') {
		return nil, false
	}
	start := s.pos
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.data[start : s.pos-1], true
		case c < 0x20 || c == '\\' || c >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

// text reads the rest of a string, of any valid UTF-8, with the usual escapes.
func (s *scanner) text() bool {
	start, ascii, copied := s.pos, true, false
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			s.content = s.data[start:s.pos]
			if copied {
				s.scratch = append(s.scratch, s.content...)
				s.content = s.scratch
			}
			s.pos++
			return ascii || utf8.Valid(s.content)
		case c == '\\':
			if s.pos+1 >= len(s.data) {
				return false
			}
			e := strings.IndexByte(`"\/bfnrt`, s.data[s.pos+1])
			if e < 0 {
				return false // \u is encoding/json's to read
			}
			s.scratch = append(append(s.scratch, s.data[start:s.pos]...), "\"\\/\b\f\n\r\t"[e])
			copied = true
			s.pos += 2
			start = s.pos
		case c < 0x20:
			return false
		default:
			ascii = ascii && c < utf8.RuneSelf
			s.pos++
		}
	}
	return false
}
