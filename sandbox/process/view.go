package process

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// DefaultViewChars is the size of a view when none is asked for.
const DefaultViewChars = 8000

// View is a bounded look at a stream: all of it, or its head and its tail with the exact count of what lies between.
type View struct {
	Text         string // valid UTF-8
	Bytes        int64  // of the whole stream
	OmittedChars int64  // characters of the stream that Text does not show
	Replaced     int64  // bytes of the stream that are not UTF-8
}

// View shows what the call wrote to a stream, in at most maxChars characters and one line that says what was left out
// (0 or less: [DefaultViewChars]). While the call runs it shows what there is, without a character's unfinished half.
func (j *Job) View(stream, maxChars int) (View, error) {
	size, ended := j.callSize(stream)
	if size == 0 {
		return View{}, nil
	}
	v, err := readView(io.NewSectionReader(spool{j.path(stream)}, 0, size), maxChars, ended)
	if err != nil {
		return View{}, fmt.Errorf("view stream %d: %w", stream, err)
	}
	return v, nil
}

// ReadView makes a view of all that r gives. Its text without the line in the middle is the head and the tail of
// strings.ToValidUTF8(all, "\uFFFD"). It reads once, in constant memory.
func ReadView(r io.Reader, maxChars int) (View, error) { return readView(r, maxChars, true) }

func readView(r io.Reader, maxChars int, whole bool) (View, error) {
	if maxChars <= 0 {
		maxChars = DefaultViewChars
	}
	w := viewer{max: maxChars}
	buf := viewBuffers.Get().(*[viewBlock]byte)
	defer viewBuffers.Put(buf)
	var text []byte
	for {
		n, err := r.Read(buf[:])
		w.bytes += int64(n)
		text = w.decoder.append(text[:0], buf[:n])
		w.add(text)
		if err == io.EOF {
			break
		}
		if err != nil {
			return View{}, err
		}
	}
	if whole {
		w.add(w.decoder.flush(text[:0]))
	}
	return w.view(), nil
}

const viewBlock = 64 << 10

var viewBuffers = sync.Pool{New: func() any { return new([viewBlock]byte) }}

// viewer keeps the first max characters, and the last half of max.
type viewer struct {
	max     int
	decoder Decoder
	bytes   int64
	chars   int64
	first   []byte // up to max characters
	firstN  int
	tail    []byte // at least the last max-max/2 characters after first
}

func (w *viewer) add(text []byte) {
	n := utf8.RuneCount(text)
	w.chars += int64(n)
	if room := w.max - w.firstN; room > 0 {
		cut := len(text)
		if n > room {
			cut = runeOffset(text, room)
			w.firstN = w.max
		} else {
			w.firstN += n
		}
		w.first = append(w.first, text[:cut]...)
		text = text[cut:]
	}
	keep := w.max - w.max/2
	if n >= keep {
		text = lastRunes(text, keep)
		if utf8.RuneCount(text) == keep {
			w.tail = w.tail[:0]
		}
	}
	w.tail = append(w.tail, text...)
	if len(w.tail) > 2*utf8.UTFMax*keep {
		w.tail = append(w.tail[:0], lastRunes(w.tail, keep)...)
	}
}

func (w *viewer) view() View {
	v := View{Bytes: w.bytes, Replaced: w.decoder.Replaced()}
	if w.chars <= int64(w.max) {
		v.Text = string(w.first)
		return v
	}
	v.OmittedChars = w.chars - int64(w.max)
	half := runeOffset(w.first, w.max/2)
	// The tail may begin within what first holds: only what came after it is in w.tail.
	tail := lastRunes(append(w.first[half:len(w.first):len(w.first)], w.tail...), w.max-w.max/2)
	v.Text = string(w.first[:half]) + "\n" + Omission(v.OmittedChars) + "\n" + string(tail)
	return v
}

// Omission is the line that stands for characters left out of a view.
func Omission(chars int64) string {
	unit := "characters"
	if chars == 1 {
		unit = "character"
	}
	return "[… " + grouped(chars) + " " + unit + " left out …]"
}

// grouped writes n with a comma between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// runeOffset returns the offset of character n of valid text.
func runeOffset(text []byte, n int) int {
	i := 0
	for ; n > 0 && i < len(text); n-- {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, size := utf8.DecodeRune(text[i:])
		i += size
	}
	return i
}

// lastRunes returns the last n characters of valid text, or all of it.
func lastRunes(text []byte, n int) []byte {
	i := len(text)
	for ; n > 0 && i > 0; n-- {
		i--
		for i > 0 && !utf8.RuneStart(text[i]) {
			i--
		}
	}
	return text[i:]
}
