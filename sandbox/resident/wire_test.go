package resident

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

// TestVersionsTravel sends what both versions know through each, and what only the newer one knows through that.
func TestVersionsTravel(t *testing.T) {
	for version := uint32(Oldest); version <= Version; version++ {
		start := Start{Request: 1, Key: "k", Index: 2, Dir: "/d", Timeout: time.Second, Argv: []string{"a"}, Env: []string{"B=c"}}
		exit := Exit{Code: 3, Signal: "SIGINT", TimedOut: true, Started: 5, Ended: 6, Stdout: 7, Stderr: 8, StdoutLost: 9, StderrLost: 10, Order: 16, Error: "e"}
		welcome := Welcome{Version: version, Notes: []string{"n"}}
		if version > 2 {
			start.Lease, start.Fence, start.Arg0 = "resp_1", 1<<63, "-a"
			exit.Limit = "memory"
			welcome.LastEnd = 11
		}
		if got, err := parseStart(start.Append(nil, version)[1:], version); err != nil || !reflect.DeepEqual(got, start) {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
		if job, got, silent, err := ParseEnded(appendEnded(nil, 9, exit, true, version)[1:], version); err != nil || job != 9 || !silent || got != exit {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
		if got, err := ParseWelcome(welcome.append(nil)[1:]); err != nil || !reflect.DeepEqual(got, welcome) {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
	}
	// What never changes: any owner can present itself, and end any resident.
	if got := (Hello{Version: 0x01020304, Fence: 5}).Append(nil); !bytes.Equal(got, []byte{4, 4, 3, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("hello %x", got)
	}
	if got := (End{Fence: 5}).Append(nil); !bytes.Equal(got, []byte{13, 5, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("end %x", got)
	}
}

// FuzzOwnerMessages gives any bytes to the decoders of what owners and residents say, and expects the same bytes back.
func FuzzOwnerMessages(f *testing.F) {
	f.Add(Find{1, "k", 2, "resp_1", 3}.Append(nil)[1:])
	f.Add(End{7}.Append(nil)[1:])
	f.Add(Hello{2, 7}.Append(nil)[1:])
	f.Add(Started{1, 2, StateStale, 8, "e"}.append(nil)[1:])
	f.Add(appendEnded(nil, 1, Exit{Signal: "S", Error: "e", Limit: "l"}, true, Version)[1:])
	f.Add(Welcome{Version: Version, Notes: []string{"a", "b"}, LastEnd: 1}.append(nil)[1:])
	f.Fuzz(func(t *testing.T, b []byte) {
		again := func(name string, err error, text []byte) {
			if err == nil && (len(text) > len(b)+1 || !bytes.HasPrefix(b, text[1:])) {
				t.Errorf("%s: %x became %x", name, b, text[1:])
			}
		}
		find, err := parseFind(b)
		again("find", err, find.Append(nil))
		end, err := parseEnd(b)
		again("end", err, end.Append(nil))
		hello, err := parseHello(b)
		again("hello", err, hello.Append(nil))
		started, err := ParseStarted(b)
		again("started", err, started.append(nil))
		welcome, err := ParseWelcome(b)
		again("welcome", err, welcome.append(nil))
		live, err := ParseLive(b)
		again("live", err, live.append(nil))
		for version := uint32(Oldest); version <= Version; version++ {
			parseStart(b, version) // a flag may be any byte but zero
			ParseEnded(b, version)
		}
	})
}
