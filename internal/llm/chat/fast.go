package chat

import (
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// plainChunk is what nearly every chunk, and nearly every whole answer, says: text, how it ended, how much it was.
type plainChunk struct {
	content []byte // lies in the data or in scratch
	finish  string // "" when it has not ended
	usage   openai.ChatUsage
	counted bool // usage was there
}

// fastChunk reads a plain chunk: one choice at most, index 0, whose delta or message holds text and nothing else that
// matters. It says false for anything unusual, which encoding/json then reads. It must never say true where
// encoding/json would read something else; a fuzz test holds it to that. scratch is kept for the next call.
func fastChunk(data []byte, scratch *[]byte) (c plainChunk, ok bool) {
	s := scanner{data: data, scratch: (*scratch)[:0]}
	ok = s.object(inChunk) && s.atEnd() && s.hasChoices
	*scratch = s.scratch
	if !ok {
		return plainChunk{}, false
	}
	return s.plainChunk, true
}

// scanner walks strict JSON. Each method steps over what it names, or says false, and then all is over.
type scanner struct {
	data    []byte
	pos     int
	scratch []byte

	plainChunk
	hasChoices bool
	hasContent bool
	hasDelta   bool // or a message
	hasFinish  bool
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
	inUsage
	inPromptDetails
	inCompletionDetails
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
	case inDelta:
		return s.deltaKey(key)
	default:
		return s.usageKey(l, key)
	}
}

func (s *scanner) chunkKey(key []byte) bool {
	switch string(key) {
	case "choices":
		// A second "choices" would replace the first.
		if s.hasChoices || !s.byte('[') {
			return false
		}
		s.hasChoices = true
		if s.byte(']') {
			return true // the chunk that brings usage
		}
		return s.object(inChoice) && s.byte(']') && s.hasDelta
	case "usage":
		if s.word("null") {
			return !s.counted
		}
		if s.counted {
			return false
		}
		s.counted = true
		return s.object(inUsage)
	case "error":
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
	case "delta", "message":
		if s.word("null") {
			return true
		}
		if s.hasDelta { // of the two the message counts, of one given twice a mixture
			return false
		}
		s.hasDelta = true
		return s.object(inDelta)
	case "finish_reason":
		if s.word("null") {
			return true
		}
		reason, ok := s.plain()
		if !ok || s.hasFinish {
			return false
		}
		s.hasFinish = true
		s.finish = finishReason(reason)
		return true
	case "logprobs", "native_finish_reason", "stop_reason", "error":
		return s.word("null")
	}
	return false
}

// finishReason makes a string without an allocation for those that every server sends.
func finishReason(b []byte) string {
	switch string(b) {
	case "stop":
		return "stop"
	case "length":
		return "length"
	}
	return string(b)
}

// usageKey reads a count. Keys that differ from a known one in case only would count for encoding/json, so that only
// known ones pass.
func (s *scanner) usageKey(l level, key []byte) bool {
	switch string(key) {
	case "prompt_tokens":
		return l == inUsage && s.count(&s.usage.PromptTokens)
	case "completion_tokens":
		return l == inUsage && s.count(&s.usage.CompletionTokens)
	case "total_tokens":
		return l == inUsage && s.count(&s.usage.TotalTokens)
	case "prompt_cache_hit_tokens":
		return l == inUsage && s.count(&s.usage.PromptCacheHit)
	case "prompt_tokens_details":
		return l == inUsage && (s.word("null") || s.object(inPromptDetails))
	case "completion_tokens_details":
		return l == inUsage && (s.word("null") || s.object(inCompletionDetails))
	case "cached_tokens":
		return l == inPromptDetails && s.count(&s.usage.PromptDetails.CachedTokens)
	case "reasoning_tokens":
		return l == inCompletionDetails && s.count(&s.usage.CompletionDetails.ReasoningTokens)
	case "audio_tokens", "text_tokens", "image_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens":
		var ignored int64
		return l != inUsage && s.count(&ignored)
	case "prompt_cache_miss_tokens":
		var ignored int64
		return l == inUsage && s.count(&ignored)
	}
	return false
}

// count reads a whole number of up to 15 digits, or null, which changes nothing.
func (s *scanner) count(n *int64) bool {
	if s.word("null") {
		return true
	}
	start, v := s.pos, int64(0)
	for ; s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9'; s.pos++ {
		v = 10*v + int64(s.data[s.pos]-'0')
		if s.pos-start == 15 {
			return false
		}
	}
	if s.pos == start || s.data[start] == '0' && s.pos-start > 1 {
		return false
	}
	*n = v
	return true // a fraction or an exponent behind it is no comma and no brace
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
	case "refusal", "reasoning", "reasoning_content", "tool_calls", "function_call", "audio":
		return s.word("null")
	case "annotations":
		return s.word("null") || s.byte('[') && s.byte(']')
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
