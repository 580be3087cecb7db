package screen

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"unicode/utf8"
)

// Data is output that is no text: what it seems to be, how much of it there was, and what identifies it.
type Data struct {
	Type   string `json:"type"` // a media type
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"` // of all of them in the order of their arrival: "sha256:" and hexadecimal digits
}

// String is one line in the place of the output.
func (d Data) String() string {
	return fmt.Sprintf("[binary output, not shown: %s, %d bytes, %s]\n", d.Type, d.Bytes, d.Digest)
}

const (
	leastData = 64 // fewer bytes are shown as they are
	headData  = 512
)

// A Sniffer tells of output that passes whether it is text. The zero value is ready.
type Sniffer struct {
	total    int64
	controls int64 // characters that text does not have
	replaced int64
	head     []byte
	digest   hash.Hash
	held     [3][]byte // of each stream: the start of a character
}

// Write takes the next bytes of a stream.
func (d *Sniffer) Write(stream int, p []byte) {
	if len(p) == 0 {
		return
	}
	if d.digest == nil {
		d.digest = sha256.New()
	}
	d.digest.Write(p)
	d.total += int64(len(p))
	d.head = append(d.head, p[:min(len(p), headData-len(d.head))]...)
	for len(d.held[stream]) > 0 && len(p) > 0 {
		begun := append(d.held[stream], p[0])
		if !utf8.FullRune(begun) {
			d.held[stream], p = begun, p[1:]
			continue
		}
		d.held[stream] = begun[:0]
		if r, size := utf8.DecodeRune(begun); r != utf8.RuneError || size > 1 {
			p = p[1:]
		} else {
			d.replaced += int64(len(begun) - 1) // p's first byte is looked at anew
		}
	}
	for i := 0; i < len(p); {
		if c := p[i]; c < utf8.RuneSelf {
			if c < ' ' && (c < '\a' || c > '\x0f' && c != '\x1b') || c == 0x7f {
				d.controls++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(p[i:])
		if r == utf8.RuneError && size == 1 {
			if !utf8.FullRune(p[i:]) {
				d.held[stream] = append(d.held[stream][:0], p[i:]...)
				return
			}
			d.replaced++
		}
		i += size
	}
}

// Replaced is how many bytes were no characters, so that U+FFFD stands for them in the text.
func (d *Sniffer) Replaced() int64 { return d.replaced }

// Binary says whether the output since the last Reset was mostly no text: a third of it, as in Perl's -B, is enough.
func (d *Sniffer) Binary() (Data, bool) {
	if d.total < leastData || 3*(d.controls+d.replaced) < d.total {
		return Data{}, false
	}
	return Data{Type: typeOf(d.head), Bytes: d.total, Digest: "sha256:" + hex.EncodeToString(d.digest.Sum(nil))}, true
}

// End counts characters that were never completed.
func (d *Sniffer) End() {
	for stream, begun := range d.held {
		d.replaced += int64(len(begun))
		d.held[stream] = nil
	}
}

// Reset begins anew. A character that has begun goes on.
func (d *Sniffer) Reset() {
	d.total, d.controls, d.replaced, d.head = 0, 0, 0, d.head[:0]
	if d.digest != nil {
		d.digest.Reset()
	}
}

// magic is how files of a kind begin.
var magic = []struct {
	at     int
	begins string
	kind   string
}{
	{0, "\x7fELF", "application/x-elf"}, {0, "\x89PNG\r\n\x1a\n", "image/png"}, {0, "\xff\xd8\xff", "image/jpeg"}, {0, "GIF8", "image/gif"},
	{8, "WEBP", "image/webp"}, {0, "%PDF-", "application/pdf"}, {0, "\x1f\x8b\x08", "application/gzip"}, {0, "PK\x03\x04", "application/zip"},
	{0, "\xfd7zXZ\x00", "application/x-xz"}, {0, "\x28\xb5\x2f\xfd", "application/zstd"}, {0, "BZh", "application/x-bzip2"},
	{257, "ustar", "application/x-tar"}, {0, "SQLite format 3\x00", "application/vnd.sqlite3"}, {0, "\x00asm", "application/wasm"},
	{0, "\xcf\xfa\xed\xfe", "application/x-mach-binary"}, {0, "MZ", "application/vnd.microsoft.portable-executable"},
	{0, "\xff\xfe", "text/plain; charset=utf-16le"}, {0, "\xfe\xff", "text/plain; charset=utf-16be"}, {0, "OggS", "audio/ogg"}, {4, "ftyp", "video/mp4"},
}

func typeOf(head []byte) string {
	for _, m := range magic {
		if len(head) >= m.at && bytes.HasPrefix(head[m.at:], []byte(m.begins)) {
			return m.kind
		}
	}
	return "application/octet-stream"
}
