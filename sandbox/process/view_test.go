package process

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func TestReadView(t *testing.T) {
	tests := []struct {
		name string
		in   string
		max  int
		want View
	}{
		{"nothing", "", 10, View{}},
		{"all of it", "hello", 10, View{Text: "hello", Bytes: 5}},
		{"exactly as much", "0123456789", 10, View{Text: "0123456789", Bytes: 10}},
		{"one too many", "0123456789a", 10, View{Text: "01234\n[… 1 character left out …]\n6789a", Bytes: 11, OmittedChars: 1}},
		{"an odd budget gives the tail one more", "0123456789a", 9,
			View{Text: "0123\n[… 2 characters left out …]\n6789a", Bytes: 11, OmittedChars: 2}},
		{"characters, not bytes", "ääääääääää", 4, View{Text: "ää\n[… 6 characters left out …]\nää", Bytes: 20, OmittedChars: 6}},
		{"of four bytes", strings.Repeat("😀", 9), 4, View{Text: "😀😀\n[… 5 characters left out …]\n😀😀", Bytes: 36, OmittedChars: 5}},
		{"invalid bytes", "a\xff\xffb\xfe", 10, View{Text: "a\uFFFDb\uFFFD", Bytes: 5, Replaced: 3}},
		{"a run of them is one character", "ab" + strings.Repeat("\xff", 1000) + "cd", 4,
			View{Text: "ab\n[… 1 character left out …]\ncd", Bytes: 1004, OmittedChars: 1, Replaced: 1000}},
		{"thousands", strings.Repeat("x", 1_234_571), 4,
			View{Text: "xx\n[… 1,234,567 characters left out …]\nxx", Bytes: 1_234_571, OmittedChars: 1_234_567}},
		{"a budget of one", "abc", 1, View{Text: "\n[… 2 characters left out …]\nc", Bytes: 3, OmittedChars: 2}},
		{"the default", strings.Repeat("y", 8001), 0,
			View{Text: strings.Repeat("y", 4000) + "\n[… 1 character left out …]\n" + strings.Repeat("y", 4000), Bytes: 8001, OmittedChars: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)), iotest.DataErrReader(strings.NewReader(tt.in))} {
				got, err := ReadView(r, tt.max)
				if err != nil {
					t.Fatal(err)
				}
				if got != tt.want {
					t.Errorf("got %+v\nwant %+v", got, tt.want)
				}
			}
		})
	}
}

func FuzzView(f *testing.F) {
	f.Add([]byte("hello, world"), uint8(4), uint8(1))
	f.Add([]byte("ä€😀ä€😀ä€😀\xff\xff\xff\xe2\x82"), uint8(7), uint8(2))
	f.Add(bytes.Repeat([]byte("\xff"), 300), uint8(2), uint8(60))
	f.Add(bytes.Repeat([]byte("😀x"), 60), uint8(20), uint8(7))
	f.Fuzz(func(t *testing.T, in []byte, budget, step uint8) {
		most := int(budget) + 1
		got, err := ReadView(stepReader{bytes.NewReader(in), int(step) + 1}, most)
		if err != nil {
			t.Fatal(err)
		}
		whole := []rune(strings.ToValidUTF8(string(in), "\uFFFD"))
		want := string(whole)
		omitted := len(whole) - most
		if omitted > 0 {
			want = string(whole[:most/2]) + "\n" + Omission(int64(omitted), 0) + "\n" + string(whole[len(whole)-(most-most/2):])
		}
		if got.Text != want || got.OmittedChars != int64(max(omitted, 0)) || got.Bytes != int64(len(in)) || !utf8.ValidString(got.Text) {
			t.Fatalf("got %+v\nwant %q, %d left out", got, want, omitted)
		}
	})
}

// stepReader reads at most n bytes at a time.
type stepReader struct {
	r io.Reader
	n int
}

func (s stepReader) Read(p []byte) (int, error) { return s.r.Read(p[:min(s.n, len(p))]) }
