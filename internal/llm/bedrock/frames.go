package bedrock

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/sse"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// framing is the media type of the vendor's binary event streams.
const framing = "application/vnd.amazon.eventstream"

// exception stands before the name of an event that is an error.
const exception = "exception:"

const (
	prelude  = 12       // total length, length of the headers, and the sum of the two
	trailer  = 4        // the sum of the whole message
	maxFrame = 24 << 20 // the vendor's limit of a message
	typeText = 7        // of a header's value
)

// frames splits a stream of messages: a prelude, headers, a payload, and sums that are checked.
type frames struct {
	r   *bufio.Reader
	buf []byte
}

func newFrames(r io.Reader) upstream.Frames { return &frames{r: bufio.NewReaderSize(r, 16<<10)} }

var errFrame = errors.New("a message of the event stream is damaged")

// Next implements [upstream.Frames]. The name is the event's, or behind "exception:" the error's. A stream that ends
// within a message ends with [io.ErrUnexpectedEOF].
func (f *frames) Next() (sse.Event, error) {
	head, err := f.r.Peek(prelude)
	if err != nil {
		if len(head) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return sse.Event{}, err
	}
	total, headers := lengths(head)
	if crc32.ChecksumIEEE(head[:8]) != binary.BigEndian.Uint32(head[8:]) || total > maxFrame || headers > total-prelude-trailer ||
		total < prelude+trailer {
		return sse.Event{}, errFrame
	}
	if cap(f.buf) < total {
		f.buf = make([]byte, total)
	}
	message := f.buf[:total]
	if _, err := io.ReadFull(f.r, message); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return sse.Event{}, err
	}
	end := total - trailer
	if crc32.ChecksumIEEE(message[:end]) != binary.BigEndian.Uint32(message[end:]) {
		return sse.Event{}, errFrame
	}
	name, told, err := readHeaders(message[prelude : prelude+headers])
	data := message[prelude+headers : end]
	if len(data) == 0 && told != "" {
		data, err = openai.Marshal(map[string]string{"message": told})
	}
	return sse.Event{Name: name, Data: data}, err
}

func lengths(head []byte) (total, headers int) {
	return int(binary.BigEndian.Uint32(head)), int(binary.BigEndian.Uint32(head[4:]))
}

// Ready implements [upstream.Frames].
func (f *frames) Ready() bool {
	if f.r.Buffered() < prelude {
		return false
	}
	head, _ := f.r.Peek(prelude)
	total, _ := lengths(head)
	return f.r.Buffered() >= total
}

// readHeaders reads what a message is, and what an error without a payload tells.
func readHeaders(b []byte) (event, told string, err error) {
	var kind, problem, code string
	for len(b) > 0 {
		name, rest, ok := short(b, 1)
		if !ok || len(rest) == 0 {
			return "", "", errFrame
		}
		typ := rest[0]
		rest = rest[1:]
		if typ == typeText {
			value, after, ok := short(rest, 2)
			if !ok {
				return "", "", errFrame
			}
			switch name {
			case ":message-type":
				kind = value
			case ":event-type":
				event = value
			case ":exception-type":
				problem = value
			case ":error-code":
				code = value
			case ":error-message":
				told = value
			}
			b = after
			continue
		}
		size, ok := width(typ, rest)
		if !ok || size > len(rest) {
			return "", "", errFrame
		}
		b = rest[size:]
	}
	switch kind {
	case "exception":
		return exception + problem, "", nil
	case "error":
		return exception + code, told, nil
	case "event":
		return event, "", nil
	}
	return "", "", fmt.Errorf("%w: it is of the unknown type %q", errFrame, kind)
}

// short reads a text behind its length of n bytes.
func short(b []byte, n int) (text string, rest []byte, ok bool) {
	if len(b) < n {
		return "", nil, false
	}
	size := int(b[0])
	if n == 2 {
		size = int(binary.BigEndian.Uint16(b))
	}
	if len(b) < n+size {
		return "", nil, false
	}
	return string(b[n : n+size]), b[n+size:], true
}

// width is how many bytes a header's value of another type takes.
func width(typ byte, b []byte) (int, bool) {
	switch typ {
	case 0, 1: // true, false
		return 0, true
	case 2:
		return 1, true
	case 3:
		return 2, true
	case 4:
		return 4, true
	case 5, 8: // a long, a time
		return 8, true
	case 6: // bytes
		if len(b) < 2 {
			return 0, false
		}
		return 2 + int(binary.BigEndian.Uint16(b)), true
	case 9: // a UUID
		return 16, true
	}
	return 0, false
}
