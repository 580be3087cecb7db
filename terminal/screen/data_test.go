package screen

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestWhatIsNoText(t *testing.T) {
	random := make([]byte, 10_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	for name, c := range map[string]struct {
		output string
		kind   string // empty is text
	}{
		"text":             {strings.Repeat("plain text\r\n\t", 100), ""},
		"colours":          {strings.Repeat("\x1b[31mred\x1b[0m\a\b", 100), ""},
		"characters":       {strings.Repeat("élan 日本語 😀 ", 100), ""},
		"Latin-1":          {strings.Repeat("Stra\xdfe, M\xfcnchen\n", 100), ""},
		"a few bytes":      {"\xff\xfe\x00\r", ""},
		"nothing":          {"", ""},
		"random":           {string(random), "application/octet-stream"},
		"an image":         {"\x89PNG\r\n\x1a\n" + string(random), "image/png"},
		"compressed":       {"\x1f\x8b\x08" + string(random), "application/gzip"},
		"a program":        {"\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 200) + "text in it", "application/x-elf"},
		"text of Windows":  {"\xff\xfe" + strings.Repeat("t\x00", 100), "text/plain; charset=utf-16le"},
		"an archive":       {strings.Repeat("\x00", 257) + "ustar", "application/x-tar"},
		"a log with a NUL": {strings.Repeat("a line of a log\n", 100) + "\x00\x00\x00", ""},
	} {
		for _, cut := range []int{1, 3, 7, 1 << 20} { // however it is cut
			var d Sniffer
			for rest := []byte(c.output); len(rest) > 0; {
				n := min(cut, len(rest))
				d.Write(1, rest[:n])
				rest = rest[n:]
			}
			d.End()
			got, binary := d.Binary()
			if binary != (c.kind != "") || got.Type != c.kind {
				t.Errorf("%s, by %d: %+v", name, cut, got)
			}
			if sum := sha256.Sum256([]byte(c.output)); binary && (got.Bytes != int64(len(c.output)) || got.Digest != "sha256:"+hex.EncodeToString(sum[:])) {
				t.Errorf("%s, by %d: %+v", name, cut, got)
			}
		}
	}
}

// What is counted is what strings.ToValidUTF8 would replace, by whatever streams and pieces it comes.
func TestReplacedBytesAreCounted(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	alphabet := []string{"a", "é", "€", "😀", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\x80"}
	for range 500 {
		var d Sniffer
		var want int64
		for stream := 1; stream <= 2; stream++ {
			var b bytes.Buffer
			for range r.IntN(30) {
				b.WriteString(alphabet[r.IntN(len(alphabet))])
			}
			for text := b.Bytes(); len(text) > 0; {
				n := 1
				if c := bytes.Runes(text[:min(4, len(text))])[0]; c != '\ufffd' {
					n = len(string(c))
				} else {
					want++
				}
				text = text[n:]
			}
			for p := b.Bytes(); len(p) > 0; {
				n := 1 + r.IntN(len(p))
				d.Write(stream, p[:n])
				p = p[n:]
			}
		}
		d.End()
		if d.Replaced() != want {
			t.Fatalf("%d, want %d", d.Replaced(), want)
		}
	}
}

func TestASnifferBeginsAnew(t *testing.T) {
	var d Sniffer
	d.Write(1, bytes.Repeat([]byte{0}, 100))
	if _, binary := d.Binary(); !binary {
		t.Error("NULs are text")
	}
	d.Write(1, []byte("\xc3"))
	d.Reset()
	d.Write(1, []byte("\xa9"+strings.Repeat("text ", 50)))
	if got, binary := d.Binary(); binary || d.Replaced() != 0 {
		t.Errorf("%+v, %d", got, d.Replaced())
	}
}
