package cassette

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// eventStream is the media type of AWS's binary event streams.
const eventStream = "application/vnd.amazon.eventstream"

// Frame is a message of an AWS event stream as a person reads it: headers in their order, all of them texts, and a
// payload, which is a text.
type Frame struct {
	Headers [][2]string     `json:"headers"`
	Payload json.RawMessage `json:"payload"` // a string that is sent as it is; of an object its compact JSON is
}

const (
	prelude  = 12 // total length, length of the headers, and the sum of the two
	trailer  = 4  // the sum of the whole
	maxFrame = 24 << 20
	typeText = 7
)

var errFrame = errors.New("this is no whole message of an event stream")

// payload is what is sent.
func (f *Frame) payload() ([]byte, error) {
	if len(f.Payload) > 0 && f.Payload[0] == '"' {
		var s string
		err := json.Unmarshal(f.Payload, &s)
		return []byte(s), err
	}
	var b bytes.Buffer
	err := json.Compact(&b, f.Payload)
	return b.Bytes(), err
}

func quote(s string) (json.RawMessage, error) { return openai.Marshal(s) }

// encode makes the message.
func (f *Frame) encode() ([]byte, error) {
	payload, err := f.payload()
	if err != nil {
		return nil, fmt.Errorf("read a frame's payload: %w", err)
	}
	var headers []byte
	for _, h := range f.Headers {
		if len(h[0]) == 0 || len(h[0]) > 255 || len(h[1]) > 1<<15-1 {
			return nil, fmt.Errorf("a frame's header %q is too long, or has no name", h[0])
		}
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = binary.BigEndian.AppendUint16(append(headers, typeText), uint16(len(h[1])))
		headers = append(headers, h[1]...)
	}
	total := prelude + len(headers) + len(payload) + trailer
	if total > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes is beyond the vendor's limit", total)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, total), uint32(total))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)), nil
}

// frameLength is how long the message is that b begins with, 0 while that cannot be told.
func frameLength(b []byte) (int, error) {
	if len(b) < prelude {
		return 0, nil
	}
	total, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) || total > maxFrame || total < prelude+trailer || headers > total-prelude-trailer {
		return 0, errFrame
	}
	return int(total), nil
}

// decode reads the one message that b is. It says an error for any whose encoding is not b again: headers of other
// types, and payloads that are no text.
func decode(b []byte) (*Frame, error) {
	total, err := frameLength(b)
	if err != nil || total == 0 || total != len(b) {
		return nil, errFrame
	}
	headers := b[prelude : prelude+binary.BigEndian.Uint32(b[4:])]
	payload := b[prelude+len(headers) : total-trailer]
	f := &Frame{}
	for len(headers) > 0 {
		name := int(headers[0])
		if len(headers) < 1+name+3 || headers[1+name] != typeText {
			return nil, errFrame
		}
		size := int(binary.BigEndian.Uint16(headers[2+name:]))
		if len(headers) < 4+name+size {
			return nil, errFrame
		}
		f.Headers = append(f.Headers, [2]string{string(headers[1 : 1+name]), string(headers[4+name : 4+name+size])})
		headers = headers[4+name+size:]
	}
	if !utf8.Valid(payload) {
		return nil, errFrame
	}
	if f.Payload, err = quote(string(payload)); err != nil {
		return nil, errFrame
	}
	again, err := f.encode()
	if err != nil || !bytes.Equal(again, b) {
		return nil, errFrame
	}
	return f, nil
}
