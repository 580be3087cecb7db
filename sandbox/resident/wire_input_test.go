package resident

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

func TestInputMessagesTravel(t *testing.T) {
	for _, data := range [][]byte{{}, []byte("x"), bytes.Repeat([]byte{0, 255}, MaxInput/2)} {
		want := Input{Request: 7, Job: 1 << 31, Data: data}
		b := want.Append(nil)
		if len(b) > MaxPacket || Kind(b[0]) != KindInput {
			t.Errorf("%d bytes of kind %d", len(b), b[0])
		}
		if got, err := parseInput(b[1:]); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	start := Start{Request: 1, Key: "k", Index: 2, Dir: "/d", Timeout: time.Second, Argv: []string{"a"}, Env: []string{"B=c"}, Open: true, Rows: 24, Cols: 80}
	for _, start.Arg0 = range []string{"", "-a"} {
		if got, err := parseStart(start.Append(nil, Version)[1:], Version); err != nil || !reflect.DeepEqual(got, start) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// FuzzInputMessages gives any bytes to every decoder of this file, and expects what they take to be written back alike.
func FuzzInputMessages(f *testing.F) {
	f.Add(Input{1, 2, []byte("abc")}.Append(nil)[1:])
	f.Add(CloseInput{1, 2}.Append(nil)[1:])
	f.Add(Resize{1, 2, 24, 80}.Append(nil)[1:])
	f.Add(Took{1, 2, RefusedTTY}.append(nil)[1:])
	f.Add(Signal{1, 2, 15}.Append(nil)[1:])
	f.Add(Look{1, 2, 8080}.Append(nil)[1:])
	f.Add(Seen{1, RefusedNot, SeenReads | SeenEchoes, "/work"}.append(nil)[1:])
	f.Add(appendRoom(nil, 9)[1:])
	f.Add(Start{Key: "k", Argv: []string{"a"}, Rows: 1, Cols: 2}.Append(nil, Version)[1:])
	f.Fuzz(func(t *testing.T, b []byte) {
		again := func(name string, err error, text []byte) {
			if err == nil && !bytes.HasPrefix(b, text[1:]) {
				t.Errorf("%s: %x became %x", name, b, text[1:])
			}
			if err == nil && len(text) > len(b)+1 {
				t.Errorf("%s: read beyond the end", name)
			}
		}
		in, err := parseInput(b)
		again("input", err, in.Append(nil))
		end, err := parseCloseInput(b)
		again("close", err, end.Append(nil))
		size, err := parseResize(b)
		again("resize", err, size.Append(nil))
		took, err := ParseTook(b)
		again("took", err, took.append(nil))
		signal, err := parseSignal(b)
		again("signal", err, signal.Append(nil))
		look, err := parseLook(b)
		again("look", err, look.Append(nil))
		seen, err := ParseSeen(b)
		again("seen", err, seen.append(nil))
		room, err := ParseRoom(b)
		again("room", err, appendRoom(nil, room))
		parseStart(b, Version) // a flag may be any byte but zero
	})
}
