package screen

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzScreen gives any bytes, in pieces, to terminals of several shapes: nothing panics, no bound is passed, the text is
// valid, and how the bytes were cut makes no difference.
func FuzzScreen(f *testing.F) {
	for _, seed := range []string{"10%\r20%\x1b[K\r\n", "\x1b[?1049h\x1b[2J\x1b[5;5Hx\x1b[?1049l", "\x1b]133;A\x07$ ", "漢\b\b字\x1b[1@e\u0301",
		"\x1b[2;5r\x1b[L\x1b[M\x1bM\x1bD\x1b[9S\x1b[9T", "\x1b(0qqq\x0e\x0f\x1b7\x1b8\x1b[99b", "a\tb\r\x1b[3X\x1b[4P", "\xff\xc3\x28\xe2\x82"} {
		f.Add([]byte(seed), 3, 24, 80)
	}
	f.Fuzz(func(t *testing.T, p []byte, cut, rows, cols int) {
		rows, cols = rows%60, cols%200
		for _, raw := range []bool{false, true} {
			o := Options{Rows: rows, Cols: cols, Raw: raw, Keep: 1 << 10, OSC: func(text string) {
				if len(text) > mostOSC {
					t.Errorf("a command of %d bytes", len(text))
				}
			}, Line: func([]byte) {}}
			whole, pieces := New(o), New(o)
			whole.Write(p)
			for rest := p; len(rest) > 0; {
				k := min(max(cut%7, 1), len(rest))
				pieces.Write(rest[:k])
				rest = rest[k:]
			}
			whole.End()
			pieces.End()
			pieces.Lines(func([]byte) bool { return true })
			a, b := whole.Take(), pieces.Take()
			if a != b {
				t.Errorf("whole %q, in pieces %q", a.String(), b.String())
			}
			if !utf8.ValidString(a.String()) || strings.ContainsAny(a.String(), "\x1b\r\b\x00\x07") {
				t.Errorf("%q", a.String())
			}
			if len(a.Head)+len(a.Tail) > 1<<10 || a.Total != a.Omitted+int64(len(a.Head)+len(a.Tail)) {
				t.Errorf("bounds: %d and %d of %d, %d left out", len(a.Head), len(a.Tail), a.Total, a.Omitted)
			}
			if len(whole.main.lines) > max(whole.rows, 1) || whole.main.y >= whole.rows || whole.main.x > whole.width() {
				t.Errorf("%d lines, cursor %d %d of %d %d", len(whole.main.lines), whole.main.x, whole.main.y, whole.width(), whole.rows)
			}
			for i := range whole.main.lines {
				if n := whole.main.lines[i].len(); n > whole.width() {
					t.Errorf("a line of %d columns", n)
				}
			}
			if again := whole.Take(); again.Total != 0 {
				t.Errorf("taken twice: %q", again.String())
			}
		}
	})
}

// FuzzForward gives text without controls: it comes out as it is, but for what is no UTF-8.
func FuzzForward(f *testing.F) {
	f.Add("plain\n\nünï漢字\xff\xfe\xe2\x82x", 2)
	f.Fuzz(func(t *testing.T, in string, cut int) {
		for _, r := range in {
			if (r < ' ' && r != '\n') || r >= 0x7f && r <= 0x9f || width(r) == 0 {
				return
			}
		}
		s := New(Options{})
		for rest := in; len(rest) > 0; {
			k := min(max(cut%9, 1), len(rest))
			s.Write([]byte(rest[:k]))
			rest = rest[k:]
		}
		s.End()
		if got, want := s.Take().String(), strings.ToValidUTF8(in, "\ufffd"); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	})
}

func BenchmarkPlainLines(b *testing.B) {
	p := []byte(strings.Repeat("2026-11-21 09:38:00 INFO something happened in a place\n", 1000))
	s := New(Options{})
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		s.Write(p)
		s.Take()
	}
}

func BenchmarkColours(b *testing.B) {
	p := []byte(strings.Repeat("\x1b[32mok\x1b[0m  \tpackage/\x1b[1mname\x1b[0m  0.123s\r\n", 1000))
	s := New(Options{Rows: 24, Cols: 80, Raw: true})
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		s.Write(p)
		s.Take()
	}
}
