package response

import (
	"bytes"
	"compress/flate"
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// blockEvents is how many events a block at rest holds: enough to compress well, few enough that a reader who wants
// the last of them does not unpack much.
const blockEvents = 256

// plainBytes is how small a block is kept as it is: two pages, which cost the disk less than the packing costs the
// processor that the client waits for.
const plainBytes = 8 << 10

// The first byte of a block says how the rest is written.
const (
	blockPlain = 0
	blockFlate = 1
)

// block is a compressed run of events of one response.
type block struct {
	first, last int64
	data        []byte
}

// packer compresses and decompresses blocks; its machinery is large, so it is kept for the next.
type packer struct {
	writers sync.Pool // *flate.Writer
	readers sync.Pool // io.ReadCloser that is a flate.Resetter
	plain   sync.Pool // *[]byte
}

// pack cuts frames into blocks.
func (p *packer) pack(frames []Frame) ([]block, error) {
	blocks := make([]block, 0, (len(frames)+blockEvents-1)/blockEvents)
	for len(frames) > 0 {
		n := min(len(frames), blockEvents)
		b, err := p.compress(frames[:n])
		if err != nil {
			return nil, fmt.Errorf("pack events: %w", err)
		}
		blocks = append(blocks, b)
		frames = frames[n:]
	}
	return blocks, nil
}

func (p *packer) compress(frames []Frame) (block, error) {
	scratch, _ := p.plain.Get().(*[]byte)
	if scratch == nil {
		scratch = new([]byte)
	}
	defer p.plain.Put(scratch)
	raw := (*scratch)[:0]
	for i := range frames {
		raw = appendEvent(raw, frames[i].Data)
	}
	*scratch = raw
	b := block{first: frames[0].Seq, last: frames[len(frames)-1].Seq}
	if len(raw) <= plainBytes {
		b.data = append([]byte{blockPlain}, raw...)
		return b, nil
	}
	var out bytes.Buffer
	out.Grow(len(raw)/4 + 64)
	out.WriteByte(blockFlate)
	w, _ := p.writers.Get().(*flate.Writer)
	if w == nil {
		var err error
		if w, err = flate.NewWriter(&out, flate.BestSpeed); err != nil {
			return block{}, err
		}
	} else {
		w.Reset(&out)
	}
	defer p.writers.Put(w)
	if _, err := w.Write(raw); err != nil {
		return block{}, err
	}
	if err := w.Close(); err != nil {
		return block{}, err
	}
	b.data = out.Bytes()
	if len(b.data) > len(raw) {
		b.data = append([]byte{blockPlain}, raw...)
	}
	return b, nil
}

// unpack returns the events of a block from number seq on.
func (p *packer) unpack(b block, seq int64) ([]Frame, error) {
	raw, err := p.decompress(b.data)
	if err != nil {
		return nil, fmt.Errorf("unpack events from %d: %w", b.first, err)
	}
	r := &reader{b: raw}
	frames := make([]Frame, 0, b.last-b.first+1)
	for n := b.first; len(r.b) > 0; n++ {
		data := r.bytes()
		if n >= seq && r.err == nil {
			frames = append(frames, Frame{Seq: n, Type: typeOf(data), Data: data})
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("unpack events from %d: %w", b.first, r.err)
	}
	return frames, nil
}

func (p *packer) decompress(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, errTorn
	}
	kind, data := data[0], data[1:]
	switch kind {
	case blockPlain:
		return data, nil
	case blockFlate:
	default:
		return nil, fmt.Errorf("unknown kind of block %d", kind)
	}
	r, _ := p.readers.Get().(io.ReadCloser)
	if r == nil {
		r = flate.NewReader(bytes.NewReader(data))
	} else if err := r.(flate.Resetter).Reset(bytes.NewReader(data), nil); err != nil {
		return nil, err
	}
	defer p.readers.Put(r)
	var out bytes.Buffer
	out.Grow(4 * len(data))
	if _, err := io.Copy(&out, r); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// typeOf reads the type off an encoded event; ours begin with it.
func typeOf(data []byte) string {
	if rest, ok := bytes.CutPrefix(data, []byte(`{"type":"`)); ok {
		if before0, _, ok0 := bytes.Cut(rest, []byte{'"'}); ok0 {
			if string(before0) == openai.EventTextDelta {
				return openai.EventTextDelta // nine in ten: no allocation
			}
			return string(before0)
		}
	}
	typ, _, _ := openai.Peek(data)
	return typ
}

// insertBlocks writes blocks of a response, if the fence is still ours. ok says whether it was.
func insertBlocks(tx *sql.Tx, st statements, id string, fence int64, blocks []block) (ok bool, err error) {
	for _, b := range blocks {
		res, err := tx.Stmt(st.block).Exec(id, fence, b.first, b.last, b.data)
		if err != nil {
			return false, fmt.Errorf("write event blocks: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return false, err
		}
	}
	return true, nil
}

// readBlocks bounds how much one read of the log at rest takes into memory.
const readBlocks = 4

// readEvents returns events of a response from the log at rest: some from seq on, or none when it ends before seq.
func (s *Service) readEvents(ctx context.Context, id string, seq int64) ([]Frame, error) {
	rows, err := s.db.Read().QueryContext(ctx, `SELECT first_seq, last_seq, data FROM event_block
		WHERE response_id = $1 AND last_seq >= $2 AND first_seq >= (SELECT COALESCE(MAX(first_seq), 0)
			FROM event_block WHERE response_id = $1 AND first_seq <= $2)
		ORDER BY first_seq LIMIT $3`, id, seq, readBlocks)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	defer rows.Close()
	var frames []Frame
	for rows.Next() {
		var b block
		if err := rows.Scan(&b.first, &b.last, &b.data); err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		more, err := s.packer.unpack(b, seq)
		if err != nil {
			return nil, err
		}
		frames = append(frames, more...)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return frames, nil
}

// inList writes n placeholders from $first on: "$3, $4".
func inList(first, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", first+i)
	}
	return b.String()
}
