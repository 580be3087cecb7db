package process

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestHeadTailBuffer(t *testing.T) {
	tests := []struct {
		name       string
		max        int
		writes     []string
		head, tail string
		omitted    int64
	}{
		{"nothing", 4, nil, "", "", 0},
		{"less than it holds", 8, []string{"abc"}, "abc", "", 0},
		{"exactly what it holds", 8, []string{"abcd", "efgh"}, "abcd", "efgh", 0},
		{"one more", 8, []string{"abcd", "efgh", "i"}, "abcd", "fghi", 1},
		{"in one piece", 8, []string{"abcdefghijkl"}, "abcd", "ijkl", 4},
		{"byte by byte", 5, strings.Split("abcdefghij", ""), "ab", "hij", 5},
		{"a long piece over a full ring", 6, []string{"abcdef", "g", "hijklmnop"}, "abc", "nop", 10},
		{"only a tail", 1, []string{"ab", "c"}, "", "c", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := NewHeadTailBuffer(tt.max)
			total := 0
			for _, w := range tt.writes {
				b.Write([]byte(w))
				total += len(w)
			}
			head, tail := b.Snapshot()
			if string(head) != tt.head || string(tail) != tt.tail || b.Omitted() != tt.omitted || b.Total() != int64(total) {
				t.Errorf("head %q tail %q omitted %d total %d", head, tail, b.Omitted(), b.Total())
			}
		})
	}
}

func TestHeadTailBufferKeepsAMebibyte(t *testing.T) {
	var b HeadTailBuffer
	all := make([]byte, 3<<20)
	for i := range all {
		all[i] = byte(i * 7 >> 3)
	}
	for p := all; len(p) > 0; {
		n := min(len(p), 4093)
		b.Write(p[:n])
		p = p[n:]
	}
	head, tail := b.Snapshot()
	if len(head)+len(tail) != HeadTailMax || !bytes.HasPrefix(all, head) || !bytes.HasSuffix(all, tail) || b.Omitted() != 2<<20 {
		t.Errorf("head %d, tail %d, omitted %d", len(head), len(tail), b.Omitted())
	}
	b.Reset()
	b.Write([]byte("x"))
	if v := b.View(); v.Text != "x" || v.Bytes != 1 || v.LostBytes != 0 {
		t.Errorf("after a reset: %+v", v)
	}
}

func TestHeadTailViewCutsNoCharacter(t *testing.T) {
	text := strings.Repeat("aé漢🦀", 50)
	for max := 1; max < 40; max++ {
		b := NewHeadTailBuffer(max)
		b.Write([]byte(text))
		v := b.View()
		head, rest, _ := strings.Cut(v.Text, "\n")
		line, tail, _ := strings.Cut(rest, "\n")
		if !utf8.ValidString(v.Text) || v.Replaced != 0 || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) ||
			v.LostBytes != int64(len(text)-len(head)-len(tail)) || line != LeftOut(v.LostBytes) {
			t.Errorf("max %d: %+v", max, v)
		}
	}
}

func FuzzHeadTailBuffer(f *testing.F) {
	f.Add([]byte("abcdefghij"), 4, 3)
	f.Add([]byte("aé漢🦀\xff\xe6"), 5, 1)
	f.Fuzz(func(t *testing.T, all []byte, max, step int) {
		max, step = 1+int(uint(max)%64), 1+int(uint(step)%16)
		b := NewHeadTailBuffer(max)
		for p := all; len(p) > 0; {
			n := min(step, len(p))
			b.Write(p[:n])
			p = p[n:]
		}
		head, tail := b.Snapshot()
		if !bytes.HasPrefix(all, head) || !bytes.HasSuffix(all, tail) || b.Omitted()+int64(len(head)+len(tail)) != int64(len(all)) ||
			len(head)+len(tail) != min(max, len(all)) {
			t.Fatalf("head %q tail %q omitted %d of %q", head, tail, b.Omitted(), all)
		}
		if v := b.View(); !utf8.ValidString(v.Text) || v.LostBytes < b.Omitted() || b.Omitted() == 0 && v.Text != strings.ToValidUTF8(string(all), "\uFFFD") {
			t.Fatalf("view %+v of %q", v, all)
		}
	})
}
