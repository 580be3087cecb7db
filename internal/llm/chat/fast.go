package chat

import (
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
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
	s := scanner{Scanner: dialect.Scanner{Data: data, Scratch: *scratch}}
	ok = s.object(inChunk) && s.AtEnd() && s.hasChoices
	*scratch = s.Scratch
	if !ok {
		return plainChunk{}, false
	}
	return s.plainChunk, true
}

// scanner walks a chunk. Each method steps over what it names, or says false, and then all is over.
type scanner struct {
	dialect.Scanner

	plainChunk
	hasChoices bool
	hasContent bool
	hasDelta   bool // or a message
	hasFinish  bool
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
	return s.Object(func(key []byte) bool { return s.value(l, key) })
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
		if s.hasChoices || !s.Byte('[') {
			return false
		}
		s.hasChoices = true
		if s.Byte(']') {
			return true // the chunk that brings usage
		}
		return s.object(inChoice) && s.Byte(']') && s.hasDelta
	case "usage":
		if s.Word("null") {
			return !s.counted
		}
		if s.counted {
			return false
		}
		s.counted = true
		return s.object(inUsage)
	case "error":
		return s.Word("null")
	case "id", "object", "created", "model", "system_fingerprint", "service_tier", "obfuscation", "provider":
		return s.Scalar() // nobody reads them
	}
	return false
}

func (s *scanner) choiceKey(key []byte) bool {
	switch string(key) {
	case "index":
		return s.Word("0")
	case "delta", "message":
		if s.Word("null") {
			return true
		}
		if s.hasDelta { // of the two the message counts, of one given twice a mixture
			return false
		}
		s.hasDelta = true
		return s.object(inDelta)
	case "finish_reason":
		if s.Word("null") {
			return true
		}
		reason, ok := s.Plain()
		if !ok || s.hasFinish {
			return false
		}
		s.hasFinish = true
		s.finish = finishReason(reason)
		return true
	case "logprobs", "native_finish_reason", "stop_reason", "error":
		return s.Word("null")
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
		return l == inUsage && s.Count(&s.usage.PromptTokens)
	case "completion_tokens":
		return l == inUsage && s.Count(&s.usage.CompletionTokens)
	case "total_tokens":
		return l == inUsage && s.Count(&s.usage.TotalTokens)
	case "prompt_cache_hit_tokens":
		return l == inUsage && s.Count(&s.usage.PromptCacheHit)
	case "prompt_tokens_details":
		return l == inUsage && (s.Word("null") || s.object(inPromptDetails))
	case "completion_tokens_details":
		return l == inUsage && (s.Word("null") || s.object(inCompletionDetails))
	case "cached_tokens":
		return l == inPromptDetails && s.Count(&s.usage.PromptDetails.CachedTokens)
	case "reasoning_tokens":
		return l == inCompletionDetails && s.Count(&s.usage.CompletionDetails.ReasoningTokens)
	case "audio_tokens", "text_tokens", "image_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens":
		var ignored int64
		return l != inUsage && s.Count(&ignored)
	case "prompt_cache_miss_tokens":
		var ignored int64
		return l == inUsage && s.Count(&ignored)
	}
	return false
}

func (s *scanner) deltaKey(key []byte) bool {
	switch string(key) {
	case "content":
		if s.hasContent || !s.Byte('"') {
			return false
		}
		s.hasContent = true
		text, ok := s.Text()
		s.content = text
		return ok
	case "role":
		_, ok := s.Plain()
		return ok
	case "refusal", "reasoning", "reasoning_content", "tool_calls", "function_call", "audio":
		return s.Word("null")
	case "annotations":
		return s.Word("null") || s.Byte('[') && s.Byte(']')
	}
	return false
}
