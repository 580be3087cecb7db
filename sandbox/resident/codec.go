package resident

import (
	"encoding/binary"
	"errors"
)

// errShort says that a message ended before its fields did.
var errShort = errors.New("message is too short")

// writer appends fields to a message.
type writer []byte

func (w *writer) u8(v uint8)   { *w = append(*w, v) }
func (w *writer) u32(v uint32) { *w = binary.LittleEndian.AppendUint32(*w, v) }
func (w *writer) u64(v uint64) { *w = binary.LittleEndian.AppendUint64(*w, v) }
func (w *writer) i64(v int64)  { w.u64(uint64(v)) }
func (w *writer) int(v int)    { w.u64(uint64(v)) }

func (w *writer) flag(v bool) {
	if v {
		w.u8(1)
	} else {
		w.u8(0)
	}
}

func (w *writer) text(s string) {
	w.u32(uint32(len(s)))
	*w = append(*w, s...)
}

func (w *writer) bytes(p []byte) {
	w.u32(uint32(len(p)))
	*w = append(*w, p...)
}

func (w *writer) list(l []string) {
	w.u32(uint32(len(l)))
	for _, s := range l {
		w.text(s)
	}
}

// appendWords encodes a message of numbers only.
func appendWords(b []byte, kind Kind, words ...uint32) []byte {
	w := writer(append(b, byte(kind)))
	for _, v := range words {
		w.u32(v)
	}
	return w
}

// readWords decodes one.
func readWords(b []byte, words ...*uint32) error {
	r := reader{b: b}
	for _, v := range words {
		*v = r.u32()
	}
	return r.err
}

// reader takes fields off a message; after the first error every field is zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.err = errShort
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) u8() uint8 {
	if p := r.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if p := r.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if p := r.take(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

func (r *reader) i64() int64   { return int64(r.u64()) }
func (r *reader) int() int     { return int(r.u64()) }
func (r *reader) flag() bool   { return r.u8() != 0 }
func (r *reader) text() string { return string(r.bytes()) }

// bytes are a part of the message.
func (r *reader) bytes() []byte { return r.take(int(r.u32())) }

func (r *reader) list() []string {
	n := int(r.u32())
	if n > len(r.b)/4 { // each entry has a length of four bytes
		r.err = errShort
		return nil
	}
	l := make([]string, 0, n)
	for range n {
		l = append(l, r.text())
	}
	return l
}
