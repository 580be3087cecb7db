package process

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// DefaultViewChars is the size of a view when none is asked for.
const DefaultViewChars = 8000

// maxViewChars bounds a view. More is not a view: [Job.Reader] gives all of it.
const maxViewChars = 1 << 20

// View is a bounded look at a stream: all of it, or its head and its tail with the exact count of what lies between.
type View struct {
	Text         string // valid UTF-8
	Bytes        int64  // of the whole stream
	OmittedChars int64  // characters of the stream that are kept and that Text does not show
	LostBytes    int64  // bytes from the middle of the stream that are no longer kept
	Replaced     int64  // bytes of the stream that are not UTF-8
}

// View shows what the call wrote to a stream, in at most maxChars characters and the lines that say what was left out
// (0 or less: [DefaultViewChars]). While the call runs it shows what there is, without a character's unfinished half.
// It reads the spool once, in constant memory.
func (j *Job) View(stream, maxChars int) (View, error) {
	size, ended := j.callSize(stream)
	if size == 0 {
		return View{}, nil
	}
	f, err := os.Open(j.path(stream))
	if err != nil {
		return View{}, fmt.Errorf("view stream %d: %w", stream, err)
	}
	defer f.Close()
	w := newViewer(maxChars)
	buf := viewBuffers.Get().(*[viewBlock]byte)
	defer viewBuffers.Put(buf)
	for off := int64(0); off < size; {
		n := min(size-off, viewBlock)
		data, at, err := readKept(f, buf[:n], off)
		if err != nil {
			return View{}, fmt.Errorf("view stream %d at %d: %w", stream, off, err)
		}
		w.skip(at - off)
		w.write(data)
		w.skip(n - (at - off) - int64(len(data)))
		off += n
	}
	if ended {
		w.flush()
	}
	return w.view(), nil
}

// ReadView makes a view of all that r gives. Its text is the head and the tail of strings.ToValidUTF8(all, "\uFFFD"), with
// the line in the middle that says what was left out, and, where the budget is not tiny, with lines of the middle that look
// like errors.
func ReadView(r io.Reader, maxChars int) (View, error) {
	w := newViewer(maxChars)
	buf := viewBuffers.Get().(*[viewBlock]byte)
	defer viewBuffers.Put(buf)
	for {
		n, err := r.Read(buf[:])
		w.write(buf[:n])
		if err == io.EOF {
			w.flush()
			return w.view(), nil
		}
		if err != nil {
			return View{}, err
		}
	}
}

const viewBlock = 64 << 10

var viewBuffers = sync.Pool{New: func() any { return new([viewBlock]byte) }}

// viewer keeps the first max characters, and enough of the last ones to show max-max/2 of them.
type viewer struct {
	max     int
	decoder Decoder
	bytes   int64
	lost    int64
	resync  bool // after a gap: a character's rest may come first
	chars   int64
	first   []byte // up to max characters
	firstN  int
	tail    []byte // of what came after first
	text    []byte // scratch
	size    int64  // bytes of text so far
	notable *notable
}

func newViewer(maxChars int) *viewer {
	if maxChars <= 0 {
		maxChars = DefaultViewChars
	}
	w := &viewer{max: min(maxChars, maxViewChars)}
	if w.max >= leastForNotable {
		w.notable = new(notable)
	}
	return w
}

// write takes the next bytes of the stream.
func (w *viewer) write(p []byte) {
	w.bytes += int64(len(p))
	for w.resync && len(p) > 0 && !utf8.RuneStart(p[0]) {
		w.lost++
		p = p[1:]
	}
	if len(p) > 0 {
		w.resync = false
	}
	w.text = w.decoder.append(w.text[:0], p)
	w.add(w.text)
}

// skip takes n bytes that are no longer kept.
func (w *viewer) skip(n int64) {
	if n == 0 {
		return
	}
	w.flush()
	w.bytes += n
	w.lost += n
	w.resync = true
}

func (w *viewer) flush() {
	w.text = w.decoder.flush(w.text[:0])
	w.add(w.text)
}

func (w *viewer) add(text []byte) {
	w.chars += int64(utf8.RuneCount(text))
	w.size += int64(len(text))
	if w.notable != nil {
		w.notable.add(text)
	}
	if room := w.max - w.firstN; room > 0 {
		cut := runeOffset(text, room)
		w.first = append(w.first, text[:cut]...)
		w.firstN += utf8.RuneCount(text[:cut])
		text = text[cut:]
	}
	most := utf8.UTFMax * (w.max - w.max/2) // bytes that surely hold the tail
	if len(text) >= most {
		w.tail = append(w.tail[:0], text[len(text)-most:]...)
		return
	}
	if len(w.tail)+len(text) > 2*most {
		w.tail = append(w.tail[:0], w.tail[len(w.tail)-most:]...)
	}
	w.tail = append(w.tail, text...)
}

func (w *viewer) view() View {
	v := View{Bytes: w.bytes, LostBytes: w.lost, Replaced: w.decoder.Replaced()}
	if w.chars <= int64(w.max) && w.lost == 0 {
		v.Text = string(w.first)
		return v
	}
	if v, ok := w.withNotable(v); ok {
		return v
	}
	half := runeOffset(w.first, w.max/2)
	tail := append(w.first[half:len(w.first):len(w.first)], w.tail...)
	v.OmittedChars = max(w.chars-int64(w.max), 0)
	v.Text = string(w.first[:half]) + "\n" + Omission(v.OmittedChars, v.LostBytes) + "\n" +
		string(lastRunes(tail, w.max-w.max/2))
	return v
}

// withNotable is the view when lines in its middle look like errors: head and tail give up an eighth of the budget each
// for them.
func (w *viewer) withNotable(v View) (View, bool) {
	if w.notable == nil {
		return v, false
	}
	w.notable.end()
	each := w.max / 8
	half := runeOffset(w.first, w.max/2-each)
	tail := lastRunes(append(w.first[half:len(w.first):len(w.first)], w.tail...), w.max-w.max/2-each)
	lines, chars := w.notable.between(int64(half), w.size-int64(len(tail)), 2*each)
	if len(lines) == 0 {
		return v, false
	}
	v.OmittedChars = max(w.chars-int64(w.max-2*each)-int64(chars-len(lines)), 0)
	v.Text = string(w.first[:half]) + "\n" + strings.TrimSuffix(Omission(v.OmittedChars, v.LostBytes), " …]") + NotableMark + "\n" +
		strings.Join(lines, "\n") + "\n" + NotableEnd + "\n" + string(tail)
	return v, true
}

// Where lines of what is left out are shown, the omission's line ends with NotableMark, the lines follow, and NotableEnd
// stands behind them.
const (
	NotableMark = ", but for these lines: …]"
	NotableEnd  = "[…]"
)

// Omission is the line that stands for what a view leaves out: characters that can still be read elsewhere, and bytes
// that cannot.
func Omission(chars, lost int64) string {
	left := "[… " + grouped(chars, "character") + " left out"
	if lost > 0 {
		left += ", " + grouped(lost, "byte") + " no longer kept"
	}
	return left + " …]"
}

// LeftOut is the line for bytes that can be read elsewhere.
func LeftOut(bytes int64) string { return "[… " + grouped(bytes, "byte") + " left out …]" }

// grouped writes a count with a comma between thousands, and its unit.
func grouped(n int64, unit string) string {
	s := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	b.WriteString(" " + unit)
	if n != 1 {
		b.WriteByte('s')
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
