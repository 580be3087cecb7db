package process

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDecoder(t *testing.T) {
	tests := []struct {
		name     string
		in       []string
		want     []string // per write, then the flush
		replaced int64
	}{
		{"ascii", []string{"a", "b"}, []string{"a", "b", ""}, 0},
		{"empty writes", []string{"", ""}, []string{"", "", ""}, 0},
		{"a character in two writes", []string{"\xc3", "\xa4"}, []string{"", "ä", ""}, 0},
		{"a character in four writes", []string{"x\xf0", "\x9f", "\x98", "\x80y"}, []string{"x", "", "", "😀y", ""}, 0},
		{"an invalid byte", []string{"a\xffb"}, []string{"a\uFFFDb", ""}, 1},
		{"a run of invalid bytes", []string{"a\xff\xfe\xffb"}, []string{"a\uFFFDb", ""}, 3},
		{"a run over two writes", []string{"a\xff", "\xffb"}, []string{"a\uFFFD", "b", ""}, 2},
		{"a character that is never completed", []string{"a\xe2\x82"}, []string{"a", "\uFFFD"}, 2},
		{"a character that is broken off", []string{"\xe2\x82", "A"}, []string{"", "\uFFFDA", ""}, 2},
		{"a start broken off by a start", []string{"\xe2", "\xc3", "\xa4"}, []string{"", "\uFFFD", "ä", ""}, 1},
		{"a surrogate", []string{"\xed\xa0", "\x80"}, []string{"\uFFFD", "", ""}, 3},
		{"the replacement character itself is valid", []string{"\uFFFD\uFFFD"}, []string{"\uFFFD\uFFFD", ""}, 0},
		{"NUL", []string{"a\x00b"}, []string{"a\x00b", ""}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d Decoder
			for i, in := range tt.in {
				if got := d.Write([]byte(in)); got != tt.want[i] {
					t.Errorf("write %d = %q, want %q", i, got, tt.want[i])
				}
			}
			if got := d.Flush(); got != tt.want[len(tt.in)] {
				t.Errorf("flush = %q, want %q", got, tt.want[len(tt.in)])
			}
			if d.Replaced() != tt.replaced {
				t.Errorf("replaced = %d, want %d", d.Replaced(), tt.replaced)
			}
		})
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte("plain"), uint8(1))
	f.Add([]byte("ä€😀\xff\xfe\xe2\x82"), uint8(1))
	f.Add([]byte("\xf0\x9f\x98\xf0\x9f\x98\x80"), uint8(3))
	f.Add([]byte("\xed\xa0\x80\xed\xb0\x80"), uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		var d Decoder
		var got strings.Builder
		for rest := in; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			text := d.Write(rest[:n])
			if !utf8.ValidString(text) {
				t.Fatalf("piece %q is not valid", text)
			}
			got.WriteString(text)
			rest = rest[n:]
		}
		got.WriteString(d.Flush())
		if want := strings.ToValidUTF8(string(in), "\uFFFD"); got.String() != want {
			t.Fatalf("got %q, want %q", got.String(), want)
		}
		if (d.Replaced() == 0) != utf8.Valid(in) {
			t.Fatalf("replaced %d bytes of %q", d.Replaced(), in)
		}
	})
}
