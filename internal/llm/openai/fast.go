package openai

import "github.com/hardshell-dev/hardshell/internal/llm/dialect"

// fastText reads the event that nine in ten are, a delta of text. The text lies in data or in scratch, which is kept for
// the next call. It says false for anything else, which encoding/json then reads. It must never say true where
// encoding/json would read something else; a fuzz test holds it to that.
func fastText(data []byte, scratch *[]byte) (index int, text []byte, ok bool) {
	s := dialect.Scanner{Data: data, Scratch: *scratch}
	index, text, ok = scanText(&s)
	*scratch = s.Scratch
	return index, text, ok
}

func scanText(s *dialect.Scanner) (index int, text []byte, ok bool) {
	if !s.Byte('{') {
		return 0, nil, false
	}
	var typed, indexed, said bool
	for {
		key, ok := s.Plain()
		if !ok || !s.Byte(':') {
			return 0, nil, false
		}
		switch string(key) {
		case "type":
			var typ []byte
			typ, ok = s.Plain()
			if !ok || typed || string(typ) != "response.output_text.delta" {
				return 0, nil, false
			}
			typed = true
		case "output_index":
			var n int64
			if s.Word("null") || indexed || !s.Count(&n) {
				return 0, nil, false
			}
			index, indexed = int(n), true
		case "delta":
			if said || !s.Byte('"') {
				return 0, nil, false
			}
			if text, ok = s.Text(); !ok {
				return 0, nil, false
			}
			said = true
		case "sequence_number", "content_index":
			var ignored int64
			ok = s.Count(&ignored)
		case "item_id", "obfuscation":
			_, ok = s.Plain()
		case "logprobs":
			ok = s.Byte('[') && s.Byte(']')
		default:
			return 0, nil, false
		}
		if !ok {
			return 0, nil, false
		}
		if s.Byte('}') {
			return index, text, typed && indexed && said && s.AtEnd()
		}
		if !s.Byte(',') {
			return 0, nil, false
		}
	}
}
