package gemini

import (
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
)

// plainPiece is what nearly every event says: text, the count so far, and how it ended.
type plainPiece struct {
	text    []byte // lies in the data or in scratch
	finish  string // "" when it has not ended
	usage   wire.Usage
	counted bool // usage was there
}

// fastPiece reads a plain event: one candidate of one part, which is text and no thought. It says false for anything
// unusual, which encoding/json then reads. It must never say true where encoding/json would read something else; a fuzz
// test holds it to that. scratch is kept for the next call.
func fastPiece(data []byte, scratch *[]byte) (p plainPiece, ok bool) {
	s := scanner{Scanner: dialect.Scanner{Data: data, Scratch: *scratch}}
	ok = s.object(inAnswer) && s.AtEnd() && s.hasText
	*scratch = s.Scratch
	if !ok {
		return plainPiece{}, false
	}
	return s.plainPiece, true
}

// scanner walks an event. Each method steps over what it names, or says false, and then all is over.
type scanner struct {
	dialect.Scanner

	plainPiece
	hasCandidates, hasContent, hasParts, hasText, hasUsage bool
}

// depth is the object that a key stands in.
type depth int

const (
	inAnswer depth = iota
	inCandidate
	inContent
	inPart
	inUsage
	inDetail
)

// object walks an object of a depth.
func (s *scanner) object(l depth) bool {
	return s.Object(func(key []byte) bool { return s.value(l, key) })
}

// value steps over the value of a key. A key that is not known may be a known one in another case, which encoding/json
// would take for it.
func (s *scanner) value(l depth, key []byte) bool {
	switch l {
	case inAnswer:
		switch string(key) {
		case "candidates":
			return once(&s.hasCandidates) && s.one(inCandidate)
		case "usageMetadata":
			s.counted = true
			return once(&s.hasUsage) && s.object(inUsage)
		case "modelVersion", "responseId", "createTime":
			return s.Scalar() // nobody reads them
		}
	case inCandidate:
		switch string(key) {
		case "content":
			return once(&s.hasContent) && s.object(inContent)
		case "index":
			return s.Word("0")
		case "finishReason":
			reason, ok := s.Plain()
			if ok = ok && s.finish == ""; ok {
				s.finish = string(reason)
			}
			return ok
		}
	case inContent:
		switch string(key) {
		case "parts":
			return once(&s.hasParts) && s.one(inPart)
		case "role":
			_, ok := s.Plain()
			return ok
		}
	case inPart:
		if string(key) == "text" && once(&s.hasText) && s.Byte('"') {
			text, ok := s.Text()
			s.text = text
			return ok
		}
	default:
		return s.count(l, key)
	}
	return false
}

// one walks a list of one object.
func (s *scanner) one(l depth) bool { return s.Byte('[') && s.object(l) && s.Byte(']') }

// count steps over what stands in a count of tokens.
func (s *scanner) count(l depth, key []byte) bool {
	var ignored int64
	if l == inDetail {
		return string(key) == "modality" && s.Scalar() || string(key) == "tokenCount" && s.Count(&ignored)
	}
	switch string(key) {
	case "promptTokenCount":
		return s.Count(&s.usage.Prompt)
	case "candidatesTokenCount":
		return s.Count(&s.usage.Candidates)
	case "thoughtsTokenCount":
		return s.Count(&s.usage.Thoughts)
	case "cachedContentTokenCount":
		return s.Count(&s.usage.Cached)
	case "toolUsePromptTokenCount":
		return s.Count(&s.usage.ToolUse)
	case "totalTokenCount":
		return s.Count(&ignored)
	case "trafficType", "serviceTier":
		return s.Scalar()
	case "promptTokensDetails", "candidatesTokensDetails", "cacheTokensDetails":
		return s.details()
	}
	return false
}

// details steps over a list of counts by kind, which nobody reads.
func (s *scanner) details() bool {
	if !s.Byte('[') {
		return false
	}
	for !s.Byte(']') {
		if !s.object(inDetail) {
			return false
		}
		if !s.Byte(',') {
			return s.Byte(']')
		}
		s.Space()
		if s.Pos < len(s.Data) && s.Data[s.Pos] == ']' {
			return false // a comma before the end
		}
	}
	return true
}

// once says whether it is the first time.
func once(been *bool) bool {
	first := !*been
	*been = true
	return first
}
