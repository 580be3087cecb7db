package response

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// orphan is a response that a dead process left open.
type orphan struct {
	id, container string
	fence         int64
	object        openai.Response
	rested        int64 // events below are in blocks
	events        [][]byte
}

// endAbandoned gives every response that another owner left open its terminal event: response.failed, saying that the
// server stopped. The data folder is locked to one process, so that owner is dead. Taking the row over first, with a
// higher fence, makes sure of it.
//
// It is what claiming will replace: an owner that goes on with the work instead of ending it.
func (s *Service) endAbandoned(ctx context.Context) error {
	orphans, err := s.claimAll(ctx)
	if err != nil {
		return err
	}
	if err := s.collect(ctx, orphans); err != nil {
		return err
	}
	for _, o := range orphans {
		end, err := s.lastWords(ctx, o)
		if err != nil {
			return fmt.Errorf("response %s: %w", o.id, err)
		}
		// A conflict means that yet another owner has come; the response is its now.
		if err := s.writeSeal(ctx, o.id, o.fence, end); err != nil && fault.KindOf(err) != fault.Conflict {
			return err
		}
	}
	return s.dropUnneeded(ctx)
}

// claimAll takes every open response over.
func (s *Service) claimAll(ctx context.Context) (map[string]*orphan, error) {
	var orphans map[string]*orphan
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		orphans = map[string]*orphan{}
		rows, err := tx.Query(`UPDATE response SET owner = $1, fence = fence + 1 WHERE completed IS NULL
			RETURNING id, fence, container_id, object`, s.owner)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var o orphan
			var object string
			if err := rows.Scan(&o.id, &o.fence, &o.container, &object); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(object), &o.object); err != nil {
				return fmt.Errorf("read response %s: %w", o.id, err)
			}
			orphans[o.id] = &o
		}
		return rows.Err()
	})
	return orphans, err
}

// collect gathers what is durable of the orphans' logs: how far the blocks go, and the events behind them.
func (s *Service) collect(ctx context.Context, orphans map[string]*orphan) error {
	if len(orphans) == 0 {
		return nil
	}
	for _, o := range orphans {
		if err := s.db.Read().QueryRowContext(ctx, `SELECT COALESCE(MAX(last_seq), -1) + 1 FROM event_block WHERE response_id = $1`,
			o.id).Scan(&o.rested); err != nil {
			return err
		}
	}
	rows, err := s.db.Read().QueryContext(ctx, `SELECT data FROM event_segment ORDER BY id`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var blob []byte
		if err := rows.Scan(&blob); err != nil {
			return err
		}
		slices, err := parseSegment(blob)
		if err != nil {
			return err
		}
		for _, part := range slices {
			o := orphans[part.id]
			if o == nil {
				continue
			}
			for i, data := range part.events {
				// A slice may begin in a block already; numbers beyond a gap were never promised to anybody.
				if part.first+int64(i) == o.rested+int64(len(o.events)) {
					o.events = append(o.events, data)
				}
			}
		}
	}
	return rows.Err()
}

// lastWords prepares the end of an orphan: what it had put out by then, what is open marked incomplete, and why.
func (s *Service) lastWords(ctx context.Context, o *orphan) (*seal, error) {
	frames := make([]Frame, 0, len(o.events)+1)
	for i, data := range o.events {
		frames = append(frames, Frame{Seq: o.rested + int64(i), Type: typeOf(data), Data: data})
	}
	output := map[int]openai.Item{}
	for seq := int64(0); seq < o.rested; {
		rested, err := s.readEvents(ctx, o.id, seq)
		if err != nil {
			return nil, err
		}
		if len(rested) == 0 {
			return nil, fmt.Errorf("events from %d are missing", seq)
		}
		if err := replay(output, rested); err != nil {
			return nil, err
		}
		seq = rested[len(rested)-1].Seq + 1
	}
	if err := replay(output, frames); err != nil {
		return nil, err
	}
	o.object.Output = []openai.Item{}
	for i := 0; len(output) > 0; i++ {
		if item, ok := output[i]; ok {
			o.object.Output = append(o.object.Output, item)
			delete(output, i)
		}
	}
	if o.container != "" {
		o.object.ContainerID = o.container
	}
	now := s.clock()
	conclude(&o.object, End{Status: openai.Failed, Error: &openai.ResponseError{Code: "server_error",
		Message: "The server stopped before the response was complete."}}, now)
	terminal, err := lastFrame(o.object, o.rested+int64(len(frames)))
	if err != nil {
		return nil, err
	}
	blocks, err := s.packer.pack(append(frames, terminal))
	if err != nil {
		return nil, err
	}
	return &seal{object: o.object, terminal: terminal, container: o.object.ContainerID, blocks: blocks, completed: now}, nil
}

// replay brings an output up to date with events.
func replay(output map[int]openai.Item, frames []Frame) error {
	for _, f := range frames {
		if f.Type != openai.EventItemAdded && f.Type != openai.EventItemDone {
			continue
		}
		var ev openai.ItemEvent
		if err := json.Unmarshal(f.Data, &ev); err != nil {
			return fmt.Errorf("read event %d: %w", f.Seq, err)
		}
		if ev.OutputIndex < 0 || ev.OutputIndex >= maxOutputItems {
			return fmt.Errorf("read event %d: output index %d", f.Seq, ev.OutputIndex)
		}
		output[ev.OutputIndex] = ev.Item
	}
	return nil
}

// dropUnneeded deletes the segments of which every response has ended. Those of a living owner, which there is only
// when two services share a process, stay.
func (s *Service) dropUnneeded(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		var open int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM response WHERE completed IS NULL`).Scan(&open); err != nil || open > 0 {
			return err
		}
		_, err := tx.Exec(`DELETE FROM event_segment`)
		return err
	})
}
