package anthropic

import (
	"bytes"

	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
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
	in := dialect.Scanner{Data: rest, Scratch: *scratch}
	text, ok = in.Text()
	*scratch = in.Scratch
	if !ok || !in.Byte('}') || !in.Byte('}') || !in.AtEnd() { // the API pads its events
		return 0, "", nil, false
	}
	return index, kind, text, true
}
