package openai

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// PlainMessage reads a message of one text part without notes that stands as [NewItem] writes it, which is what most
// messages are: it has no key that the shape does not name, and one string to decode. It says false for any other.
func (i Item) PlainMessage() (Message, bool) {
	if i.Type != TypeMessage {
		return Message{}, false
	}
	rest, ok := cutKey(i.Raw, `{"type":`, i.Type)
	if ok && i.ID != "" {
		rest, ok = cutKey(rest, `,"id":`, i.ID)
	}
	if ok {
		rest, ok = cutKey(rest, `,"role":`, i.Role)
	}
	if ok && i.Status != "" {
		rest, ok = cutKey(rest, `,"status":`, i.Status)
	}
	if ok {
		rest, ok = bytes.CutPrefix(rest, []byte(`,"content":[`))
	}
	if !ok {
		return Message{}, false
	}
	part := Part{Type: "input_text"}
	text, ok := bytes.CutPrefix(rest, []byte(`{"type":"input_text","text":`))
	if ok {
		text, ok = bytes.CutSuffix(text, []byte(`}]}`))
	} else if text, ok = bytes.CutPrefix(rest, []byte(`{"type":"output_text","text":`)); ok {
		part.Type = "output_text"
		part.Annotations = []Annotation{}
		text, ok = bytes.CutSuffix(text, []byte(`,"annotations":[]}]}`))
	}
	if !ok {
		return Message{}, false
	}
	if part.Text, ok = unquote(text); !ok { // there is more in it than one text
		return Message{}, false
	}
	return Message{Type: i.Type, ID: i.ID, Role: i.Role, Status: i.Status, Content: Content{part}}, true
}

// cutKey takes a key and its value off, if they stand there and the value needs no escapes.
func cutKey(raw []byte, key, value string) (rest []byte, ok bool) {
	n := len(key) + len(value) + 2
	if len(raw) < n || string(raw[:len(key)]) != key || raw[len(key)] != '"' || string(raw[len(key)+1:n-1]) != value || raw[n-1] != '"' {
		return nil, false
	}
	return raw[n:], true
}

// unquote reads one JSON string.
func unquote(raw []byte) (s string, ok bool) {
	plain := len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"'
	if plain {
		for _, c := range raw[1 : len(raw)-1] {
			if c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
				plain = false
				break
			}
		}
	}
	if plain {
		return string(raw[1 : len(raw)-1]), true
	}
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}
