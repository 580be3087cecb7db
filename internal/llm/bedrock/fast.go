package bedrock

import "github.com/hardshell-dev/hardshell/internal/llm/dialect"

// fastText reads the payload that nine in ten are: a piece of text. The text lies in data or in scratch, which is kept for
// the next call. It says false for anything else, which encoding/json then reads. It must never say true where
// encoding/json would read something else; a fuzz test holds it to that.
func fastText(data []byte, scratch *[]byte) (index int, text []byte, ok bool) {
	in := dialect.Scanner{Data: data, Scratch: *scratch}
	index, text, ok = textDelta(&in)
	*scratch = in.Scratch
	return index, text, ok
}

func textDelta(in *dialect.Scanner) (index int, text []byte, ok bool) {
	var at int64
	var indexed, said bool
	for next := byte('{'); ; next = ',' {
		if !in.Byte(next) {
			return int(at), text, said && next == ',' && in.Byte('}') && in.AtEnd()
		}
		key, ok := in.Plain()
		if !ok || !in.Byte(':') {
			return 0, nil, false
		}
		switch string(key) {
		case "contentBlockIndex":
			if ok = !indexed && in.Count(&at) && at < 1<<20; !ok {
				return 0, nil, false
			}
			indexed = true
		case "delta":
			if said || !in.Byte('{') {
				return 0, nil, false
			}
			if key, ok = in.Plain(); !ok || string(key) != "text" || !in.Byte(':') || !in.Byte('"') {
				return 0, nil, false
			}
			if text, ok = in.Text(); !ok || !in.Byte('}') {
				return 0, nil, false
			}
			said = true
		case "p": // padding
			if !in.Scalar() {
				return 0, nil, false
			}
		default:
			return 0, nil, false
		}
	}
}
