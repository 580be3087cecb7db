package anthropic

import (
	"bytes"
	"strings"
	"unicode/utf8"

	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

var (
	deltaHead = []byte(`{"type":"content_block_delta","index":`)
	deltaBody = []byte(`,"delta":{"type":"`)
)

// fastDelta reads the event that nine in ten are: a delta of text, thinking or arguments, in the very form in which
// the API writes it. The text lies in data or in scratch, which is kept for the next call. It says false for anything
// else, which encoding/json then reads. It must never say true where encoding/json would read something else; a fuzz
// test holds it to that.
func fastDelta(data []byte, scratch *[]byte) (index int, kind string, text []byte, ok bool) {
	rest, ok := bytes.CutPrefix(data, deltaHead)
	if !ok {
		return 0, "", nil, false
	}
	digits := 0
	for digits < len(rest) && digits < 6 && rest[digits] >= '0' && rest[digits] <= '9' {
		index = 10*index + int(rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 1 && rest[0] == '0' {
		return 0, "", nil, false
	}
	if rest, ok = bytes.CutPrefix(rest[digits:], deltaBody); !ok {
		return 0, "", nil, false
	}
	switch {
	case bytes.HasPrefix(rest, []byte(`text_delta","text":"`)):
		kind, rest = wire.DeltaText, rest[len(`text_delta","text":"`):]
	case bytes.HasPrefix(rest, []byte(`thinking_delta","thinking":"`)):
		kind, rest = wire.DeltaThinking, rest[len(`thinking_delta","thinking":"`):]
	case bytes.HasPrefix(rest, []byte(`input_json_delta","partial_json":"`)):
		kind, rest = wire.DeltaInput, rest[len(`input_json_delta","partial_json":"`):]
	default:
		return 0, "", nil, false
	}
	text, rest, ok = unquote(rest, scratch)
	if !ok || len(rest) < 2 || rest[0] != '}' {
		return 0, "", nil, false
	}
	if rest = bytes.TrimRight(bytes.TrimLeft(rest[1:], " "), " \n"); string(rest) != "}" { // the API pads its events
		return 0, "", nil, false
	}
	return index, kind, text, true
}

// unquote reads a JSON string behind its first quote: any valid UTF-8, with the usual escapes.
func unquote(data []byte, scratch *[]byte) (text, rest []byte, ok bool) {
	start, copied, ascii := 0, (*scratch)[:0], true
	for i := 0; i < len(data); {
		switch c := data[i]; {
		case c == '"':
			text = data[:i]
			if len(copied) > 0 {
				copied = append(copied, data[start:i]...)
				text, *scratch = copied, copied
			}
			return text, data[i+1:], ascii || utf8.Valid(text)
		case c == '\\':
			if i+1 >= len(data) {
				return nil, nil, false
			}
			e := strings.IndexByte(`"\/bfnrt`, data[i+1])
			if e < 0 {
				return nil, nil, false // \u is encoding/json's to read
			}
			copied = append(append(copied, data[start:i]...), "\"\\/\b\f\n\r\t"[e])
			i += 2
			start = i
		case c < 0x20:
			return nil, nil, false
		default:
			ascii = ascii && c < utf8.RuneSelf
			i++
		}
	}
	return nil, nil, false
}
