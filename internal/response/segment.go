package response

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// A segment is what one flush made durable: a version byte, then slices. A slice is the id of its response, the fence
// under which it was written, the number of its first event, a count, and the events, each with its length before it.
const segmentVersion = 1

// slice is one response's part of a segment.
type slice struct {
	id     string
	fence  int64
	first  int64
	events [][]byte
}

func appendSlice(b []byte, id string, fence int64, frames []Frame) []byte {
	b = binary.AppendUvarint(b, uint64(len(id)))
	b = append(b, id...)
	b = binary.AppendUvarint(b, uint64(fence))
	b = binary.AppendUvarint(b, uint64(frames[0].Seq))
	b = binary.AppendUvarint(b, uint64(len(frames)))
	for i := range frames {
		b = appendEvent(b, frames[i].Data)
	}
	return b
}

func appendEvent(b, data []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}

var errTorn = errors.New("the event log is damaged: a length does not fit")

// reader takes lengths and bytes off a blob. After an error it gives zeros; err tells at the end.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errTorn
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errTorn
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

// parseSegment takes a segment apart. The events share the blob's memory.
func parseSegment(blob []byte) ([]slice, error) {
	if len(blob) == 0 || blob[0] != segmentVersion {
		return nil, fmt.Errorf("read event segment: unknown version")
	}
	r := &reader{b: blob[1:]}
	var slices []slice
	for len(r.b) > 0 {
		s := slice{id: string(r.bytes()), fence: int64(r.uvarint()), first: int64(r.uvarint())}
		for n := r.uvarint(); n > 0 && r.err == nil; n-- {
			s.events = append(s.events, r.bytes())
		}
		slices = append(slices, s)
	}
	if r.err != nil {
		return nil, fmt.Errorf("read event segment: %w", r.err)
	}
	return slices, nil
}

func dropSegments(tx *sql.Tx, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	var list []byte
	for i, id := range ids {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, id, 10)
	}
	if _, err := tx.Exec(`DELETE FROM event_segment WHERE id IN (` + string(list) + `)`); err != nil {
		return fmt.Errorf("drop event segments: %w", err)
	}
	return nil
}
