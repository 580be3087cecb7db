package bedrock

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hardshell-dev/hardshell/internal/sse"
)

// all reads a stream to its end.
func all(r io.Reader) (events []sse.Event, err error) {
	f := newFrames(r)
	for {
		ev, err := f.Next()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		ev.Data = bytes.Clone(ev.Data)
		events = append(events, ev)
	}
}

func TestFrames(t *testing.T) {
	stream := append(message("event", "messageStart", []byte(`{"role":"assistant"}`)), message("exception", "throttlingException", []byte(`{"message":"slow"}`))...)
	for _, split := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
		events, err := all(split(bytes.NewReader(stream)))
		if err != nil || len(events) != 2 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		if e := events[0]; e.Name != "messageStart" || string(e.Data) != `{"role":"assistant"}` {
			t.Errorf("first: %+v", e)
		}
		if e := events[1]; e.Name != "exception:throttlingException" || string(e.Data) != `{"message":"slow"}` {
			t.Errorf("second: %+v", e)
		}
	}
}

// TestADamagedFrameIsTold turns every single bit of a message over.
func TestADamagedFrameIsTold(t *testing.T) {
	whole := message("event", "metadata", []byte(`{"usage":{}}`))
	for i := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		if events, err := all(bytes.NewReader(b)); err == nil {
			t.Errorf("bit %d: read as %v", i, events)
		}
	}
	for n := 1; n < len(whole); n++ {
		if _, err := all(bytes.NewReader(whole[:n])); err != io.ErrUnexpectedEOF {
			t.Errorf("cut behind %d bytes: %v", n, err)
		}
	}
}

func TestHeadersOfEveryType(t *testing.T) {
	headers := []byte{1, 'a', 0, 1, 'b', 1, 1, 'c', 2, 9, 1, 'd', 3, 9, 9, 1, 'e', 4, 9, 9, 9, 9, 1, 'f', 5, 0, 0, 0, 0, 0, 0, 0, 0,
		1, 'g', 6, 0, 2, 9, 9, 1, 'h', 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'i', 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	text := func(name, value string) []byte {
		return append(append(append([]byte{byte(len(name))}, name...), typeText, 0, byte(len(value))), value...)
	}
	headers = append(append(headers, text(":message-type", "event")...), text(":event-type", "messageStop")...)
	if name, _, err := readHeaders(headers); err != nil || name != "messageStop" {
		t.Errorf("%q, %v", name, err)
	}
	if _, _, err := readHeaders(append(headers, 1, 'z', 42)); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("an unknown type: %v", err)
	}
}

// FuzzFrames holds that no bytes panic, and that how they come changes nothing.
func FuzzFrames(f *testing.F) {
	f.Add(message("event", "messageStop", []byte(`{"stopReason":"end_turn"}`)))
	f.Add(message("exception", "x", nil)[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, err := all(bytes.NewReader(b))
		split, err2 := all(iotest.OneByteReader(bytes.NewReader(b)))
		if (err == nil) != (err2 == nil) || len(whole) != len(split) {
			t.Errorf("%d events and %v, byte by byte %d and %v", len(whole), err, len(split), err2)
		}
	})
}
