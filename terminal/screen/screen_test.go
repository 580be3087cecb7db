package screen

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// show is what a terminal of 24 by 80 finally shows; "\n" is a driver's "\r\n" already.
func show(p string) string {
	s := New(Options{Rows: 24, Cols: 80, Raw: true})
	s.Write([]byte(p))
	return s.Take().String()
}

func piped(p string) string { return Render([]byte(p), 0).String() }

func TestWhatIsFinallyShown(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":                     {"", ""},
		"a line":                      {"hello\r\n", "hello\n"},
		"an unfinished line":          {"$ ", "$ "},
		"blank lines":                 {"a\r\n\r\n\r\nb\r\n", "a\n\n\nb\n"},
		"blanks at a line's end stay": {"a  \r\nb", "a  \nb"},
		"a carriage return":           {"10%\r50%\r100%\r\n", "100%\n"},
		"less is written over":        {"downloading\rdone\r\n", "doneloading\n"},
		"wiped with blanks":           {"downloading\rdone       \r\n", "done\n"},
		"erased to the end":           {"downloading\r\x1b[Kdone\r\n", "done\n"},
		"erased whole":                {"downloading\x1b[2K\rdone\r\n", "done\n"},
		"backspaces":                  {"abcd\b\b\b\bABC\r\n", "ABCd\n"},
		"a spinner":                   {"|\b/\b-\b\\\b|\b \bok\r\n", "ok\n"},
		"typed and erased":            {"lz\b \bs\r\n", "ls\n"},
		"colours":                     {"\x1b[1;31merror\x1b[0m: \x1b[38;5;200mno\x1b[m\r\n", "error: no\n"},
		"true colour":                 {"\x1b[38:2::1:2:3mx\x1b[0m", "x"},
		"a title":                     {"\x1b]0;user@host: ~\x07$ ", "$ "},
		"a link":                      {"\x1b]8;;http://example.org\x1b\\text\x1b]8;;\x1b\\\r\n", "text\n"},
		"a title without an end":      {"\x1b]0;oops\r\nnext\r\n", "\nnext\n"},
		"a device string":             {"\x1bPq#0;2;0;0;0\x1b\\x", "x"},
		"character sets":              {"\x1b(0lqk\x1b(B lqk", "┌─┐ lqk"},
		"shifted sets":                {"\x1b)0\x0elqk\x0flqk", "┌─┐lqk"},
		"tabs stay tabs":              {"a\tb\r\n\tc\r\n", "a\tb\n\tc\n"},
		"a tab written over":          {"a\tb\r12\r\n", "12      b\n"},
		"a cursor that moves":         {"abc\x1b[2Dx\x1b[Cy\r\n", "axcy\n"},
		"two lines up":                {"one\r\ntwo\r\n\x1b[2A1\x1b[B\x1b[G2\x1b[B\r\n", "1ne\n2wo\n\n"},
		"a bar of two lines":          {"a 1\r\nb 1\r\n\x1b[2Aa 2\x1b[K\r\nb 2\x1b[K\r\n", "a 2\nb 2\n"},
		"cleared":                     {"secret\r\n\x1b[H\x1b[2J\x1b[3Jshown\r\n", "shown\n"},
		"cleared below":               {"a\r\nb\r\nc\x1b[2A\x1b[G\x1b[Jx\r\n", "x\n"},
		"cleared above":               {"a\r\nb\x1b[1Jc\r\n", "\n c\n"},
		"the other screen":            {"before\r\n\x1b[?1049h\x1b[H\x1b[2Jinside\x1b[?1049lafter\r\n", "before\nafter\n"},
		"placed":                      {"\x1b[3;5Hx", "\n\n    x"},
		"saved and restored":          {"ab\x1b7cd\x1b8X\r\n", "abXd\n"},
		"inserted":                    {"abd\b\x1b[@c\r\n", "abcd\n"},
		"deleted":                     {"abxc\b\b\x1b[P\r\n", "abc\n"},
		"blanked":                     {"abc\r\x1b[2X\r\n", "  c\n"},
		"repeated":                    {"-\x1b[4b\r\n", "-----\n"},
		"a line inserted":             {"a\r\nc\r\x1b[Lb\r\n\r\n", "a\nb\nc\n"},
		"a line deleted":              {"a\r\nb\r\nc\x1b[A\r\x1b[M\r\n", "a\nc\n"},
		"the top line deleted":        {"a\r\nb\x1b[A\r\x1b[M", "b"},
		"reset":                       {"abc\r\ndef\x1bcx", "x"},
		"broken off sequence":         {"\x1b[31", ""},
		"a sequence called off":       {"\x1b[31\x18x", "x"},
		"control in a sequence":       {"ab\x1b[\r1Cx", "ax"},
		"wide":                        {"漢字\rx", "x 字"},
		"half of a wide one":          {"漢字\r\x1b[Cx", " x字"},
		"a wide one too much":         {strings.Repeat("a", 79) + "漢", strings.Repeat("a", 79) + "漢"},
		"combined":                    {"e\u0301\b\x1b[Cx\r\n", "e\u0301x\n"},
		"a family":                    {"👩\u200d👩\u200d👧!\r\n", "👩\u200d👩\u200d👧!\n"},
		"invalid":                     {"a\xff\xfeb\xc3", "a\ufffdb"},
		"a NUL and a bell":            {"a\x00\x07b", "ab"},
		"a long line is whole":        {strings.Repeat("0123456789", 20) + "\r\n", strings.Repeat("0123456789", 20) + "\n"},
		"80 and a line's end":         {strings.Repeat("x", 80) + "\r\ny", strings.Repeat("x", 80) + "\ny"},
		"no breaking":                 {"\x1b[?7l" + strings.Repeat("x", 100) + "y", strings.Repeat("x", 79) + "y"},
	} {
		if got := show(c.in); got != c.want {
			t.Errorf("%s: %q shows %q, want %q", name, c.in, got, c.want)
		}
	}
}

func TestAPipeHasNoDriver(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\n":                   "a\nb\n",
		"a\r\nb":                   "a\nb",
		"1\r2\r3\nend":             "3\nend",
		strings.Repeat("y", 1000):  strings.Repeat("y", 1000),
		"\x1b[32mok\x1b[0m\n":      "ok\n",
		strings.Repeat("z", 40000): strings.Repeat("z", 40000),
	} {
		if got := piped(in); got != want {
			t.Errorf("%.40q shows %.40q", in, got)
		}
	}
}

// A bar of 20,000 frames, colours and cursor movements included, is a line (R15).
func TestAProgressBarIsOneLine(t *testing.T) {
	for _, newline := range []string{"\r", "\x1b[1G", "\x1b[2K\r", "\x1b[A\r\n"} {
		var b strings.Builder
		b.WriteString("start\r\n")
		for i := range 20000 {
			fmt.Fprintf(&b, "%s\x1b[3%dm[%-40s]\x1b[0m %d/20000", newline, i%8, strings.Repeat("#", i/500), i+1)
		}
		b.WriteString("\r\nend\r\n")
		got := show(b.String())
		if want := fmt.Sprintf("start\n[%-40s] 20000/20000\nend\n", strings.Repeat("#", 39)); got != want {
			t.Errorf("%q: %q", newline, got)
		}
	}
}

func TestTakesGoOn(t *testing.T) {
	s := New(Options{Rows: 24, Cols: 80, Raw: true})
	for i, c := range []struct{ in, want string }{
		{">>> ", ">>> "},
		{"6*7\r\n42\r\n>>> ", "6*7\n42\n>>> "},
		{"", ""},
		{"\r\n", "\n"},
		{"10%", "10%"},
		{"\r20%", "20%"},
		{" more", " more"},
		{"\r\x1b[K", ""},
		{"done\r\n", "done\n"},
		{"a\r\nb\r\nc\r\n", "a\nb\nc\n"},
		{"\x1b[3AA\x1b[2B\x1b[GC\x1b[B\r", "A\nC\n"},
		{"\x1b[?1049h\x1b[Hfull\r\nscreen", "full\nscreen\n"},
		{"\x1b[1;1H", ""},
		{"\x1b[1;1HFULL", "FULL\nscreen\n"},
		{"\x1b[?1049l", ""},
		{"x", "x"},
	} {
		s.Write([]byte(c.in))
		if peek := s.Peek().String(); peek != c.want {
			t.Errorf("%d: peek %q, want %q", i, peek, c.want)
		}
		if got := s.Take().String(); got != c.want {
			t.Errorf("%d: %q gives %q, want %q", i, c.in, got, c.want)
		}
	}
}

// Whatever a command writes forward comes out as it was written, however it was cut and taken.
func TestWhatMovesForwardIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "bc ", "  ", "\n", "é", "漢字", "\tx", "🙂", "e\u0301", "\n\n", strings.Repeat("long", 60)}
	for range 300 {
		var b strings.Builder
		for range r.IntN(60) {
			b.WriteString(words[r.IntN(len(words))])
		}
		all := b.String()
		s, got := New(Options{}), ""
		for rest := []byte(all); len(rest) > 0; {
			k := 1 + r.IntN(len(rest))
			s.Write(rest[:k])
			rest = rest[k:]
			if r.IntN(3) == 0 && (len(rest) == 0 || utf8.RuneStart(rest[0]) && !strings.HasPrefix(string(rest), "\u0301")) {
				got += s.Take().String()
			}
		}
		if got += s.Take().String(); got != all {
			t.Fatalf("%q became %q", all, got)
		}
	}
}

func TestAMuchIsCounted(t *testing.T) {
	s := New(Options{Keep: 100})
	var all strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&all, "zeile %d ü\n", i)
	}
	s.Write([]byte(all.String()))
	got := s.Take()
	if got.Total != int64(all.Len()) || got.Omitted != got.Total-int64(len(got.Head)+len(got.Tail)) ||
		!strings.HasPrefix(all.String(), got.Head) || !strings.HasSuffix(all.String(), got.Tail) || !utf8.ValidString(got.Head+got.Tail) ||
		len(got.Head)+len(got.Tail) > 100 || len(got.Tail) < 40 {
		t.Errorf("%+v", got)
	}
	if want := fmt.Sprintf("[… %d,%03d bytes left out …]", got.Omitted/1000, got.Omitted%1000); !strings.Contains(got.String(), want) {
		t.Errorf("%q", got.String())
	}
}

func TestCommandsOfTheSystem(t *testing.T) {
	var heard []string
	s := New(Options{OSC: func(text string) { heard = append(heard, text) }})
	s.Write([]byte("a\x1b]133;A\x07b\x1b]7;file:///x\x1b\\c\x1b]" + strings.Repeat("x", 10000) + "\x07\x1b]half"))
	if len(heard) != 3 || heard[0] != "133;A" || heard[1] != "7;file:///x" || len(heard[2]) != mostOSC {
		t.Errorf("%.80q", heard)
	}
	if got := s.Take().String(); got != "abc" {
		t.Errorf("%q", got)
	}
}

func TestAPassage(t *testing.T) {
	s := New(Options{Rows: 24, Cols: 80, Raw: true})
	if _, ok := s.Marked(); ok {
		t.Error("a passage that nobody began")
	}
	s.Write([]byte("$ echo hi\r\n"))
	s.Mark()
	s.Write([]byte("10%\rhi \r\n"))
	passage, ok := s.Marked()
	s.Write([]byte("$ "))
	if !ok || passage.String() != "hi\n" {
		t.Errorf("%q, %v", passage, ok)
	}
	if got := s.Take().String(); got != "$ echo hi\nhi\n$ " {
		t.Errorf("%q", got)
	}
	if got := s.Line(); got != "$" {
		t.Errorf("line %q", got)
	}
}

func TestLinesAreHeardOnce(t *testing.T) {
	var heard []string
	s := New(Options{Rows: 2, Cols: 10, Raw: true, Line: func(l []byte) { heard = append(heard, string(l)) }})
	s.Write([]byte("one\r\ntwo two two two\r\nthree\r\nfour"))
	var standing []string
	s.Lines(func(l []byte) bool { standing = append(standing, string(l)); return true })
	if fmt.Sprint(heard) != "[one two two two two]" || fmt.Sprint(standing) != "[three four]" {
		t.Errorf("%q, %q", heard, standing)
	}
	s.Take()
	s.Lines(func(l []byte) bool { t.Errorf("taken, and seen again: %q", l); return true })
}

func TestResize(t *testing.T) {
	s := New(Options{Rows: 4, Cols: 20, Raw: true})
	s.Write([]byte("a\r\nb\r\nc\r\nd"))
	s.Resize(2, 10)
	s.Write([]byte("\x1b[HX\x1b[2;1HY" + strings.Repeat("-", 12)))
	if got := s.Take().String(); got != "a\nb\nX\nY------------" {
		t.Errorf("%q", got)
	}
}
