package response

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// heritage is what owners whose lease has run out leave: open responses, by id with the fence that they have now, and
// the segments that hold the last of their logs.
type heritage struct {
	names  []string
	ranges [][2]int64 // of segment ids: from, below
	fences map[string]int64
}

// takeOver makes this service the owner of every open response whose owner's lease has run out, and of those that have
// none. What is durable of their logs moves into blocks; then they wait in the backlog, oldest first, to be gone on
// with. A fence that is higher than the old owner's keeps that one from writing, should it wake up.
func (s *Service) takeOver(ctx context.Context) error {
	s.taking.Lock()
	defer s.taking.Unlock()
	h, err := s.inherit(ctx)
	if err != nil {
		return fmt.Errorf("take over responses: %w", err)
	}
	// Those that an earlier attempt took and could not move are tried again.
	for id, fence := range s.unmoved {
		if _, ok := h.fences[id]; !ok {
			h.fences[id] = fence
		}
	}
	s.unmoved = h.fences
	if err := s.move(ctx, h); err != nil {
		return fmt.Errorf("take over responses: %w", err)
	}
	s.unmoved, s.settledIn = nil, true
	if err := s.buryOwners(ctx, h); err != nil {
		return fmt.Errorf("take over responses: %w", err)
	}
	s.queueUp(h.fences)
	return nil
}

// inherit takes the rows. Owners are dead whose lease is over and whose heir, if one has begun to take over, is dead too.
func (s *Service) inherit(ctx context.Context) (h heritage, err error) {
	now := s.clock().UnixMilli()
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		h = heritage{fences: map[string]int64{}}
		rows, err := tx.Query(`UPDATE response_owner SET heir = $1 WHERE name <> $1 AND lease_until <= $2
			AND (heir = $1 OR heir NOT IN (SELECT name FROM response_owner WHERE lease_until > $2)) RETURNING name, generation`, s.owner, now)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			var generation int64
			if err := rows.Scan(&name, &generation); err != nil {
				return err
			}
			h.names = append(h.names, name)
			h.ranges = append(h.ranges, [2]int64{generation << generationBits, (generation + 1) << generationBits})
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if !s.shared && !s.settledIn {
			h.ranges = [][2]int64{{0, s.log.generation << generationBits}} // those of owners that never had a lease, too
		}
		taken, err := tx.Query(`UPDATE response SET owner = $1, fence = fence + 1 WHERE completed IS NULL AND owner <> $1 AND owner <> $2
			AND owner NOT IN (SELECT name FROM response_owner WHERE heir <> $1) RETURNING id, fence`, s.owner, parked)
		if err != nil {
			return err
		}
		defer taken.Close()
		for taken.Next() {
			var id string
			var fence int64
			if err := taken.Scan(&id, &fence); err != nil {
				return err
			}
			h.fences[id] = fence
		}
		return taken.Err()
	})
	return h, err
}

// buryOwners forgets the dead when everything of theirs has moved.
func (s *Service) buryOwners(ctx context.Context, h heritage) error {
	if len(h.ranges) == 0 {
		return nil
	}
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		for _, r := range h.ranges {
			if _, err := tx.Exec(`DELETE FROM event_segment WHERE id >= $1 AND id < $2`, r[0], r[1]); err != nil {
				return err
			}
		}
		for _, name := range h.names {
			if _, err := tx.Exec(`DELETE FROM response_owner WHERE name = $1 AND heir = $2`, name, s.owner); err != nil {
				return err
			}
		}
		return nil
	})
}

// moving bounds how much of the logs is in memory while it moves.
const moving = 8 << 20

// mover takes the slices of the heirs' segments to the blocks of their responses.
type mover struct {
	s      *Service
	fences map[string]int64
	next   map[string]int64 // the first number that is not in blocks or held, by response
	held   map[string][]Frame
	bytes  int
}

// move moves what segments hold of the heritage into blocks, reading one segment at a time.
func (s *Service) move(ctx context.Context, h heritage) error {
	if len(h.fences) == 0 {
		return nil
	}
	m := mover{s: s, fences: h.fences, next: map[string]int64{}, held: map[string][]Frame{}}
	for _, r := range h.ranges {
		for at := r[0]; ; {
			var id int64
			var blob []byte
			err := s.db.Read().QueryRowContext(ctx, `SELECT id, data FROM event_segment WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 1`,
				at, r[1]).Scan(&id, &blob)
			if err == sql.ErrNoRows {
				break
			}
			if err != nil {
				return err
			}
			if err := m.take(ctx, blob); err != nil {
				return err
			}
			at = id + 1
		}
	}
	return m.flush(ctx)
}

func (m *mover) take(ctx context.Context, blob []byte) error {
	slices, err := parseSegment(blob)
	if err != nil {
		return err
	}
	for _, part := range slices {
		if _, ours := m.fences[part.id]; !ours {
			continue
		}
		next, known := m.next[part.id]
		if !known {
			if next, err = m.s.rested(ctx, part.id); err != nil {
				return err
			}
		}
		for i, data := range part.events {
			// A slice may begin in a block already; numbers beyond a gap were never promised to anybody.
			if part.first+int64(i) == next {
				m.held[part.id] = append(m.held[part.id], Frame{Seq: next, Data: bytes.Clone(data)}) // the segment is let go
				m.bytes += len(data) + frameCost
				next++
			}
		}
		m.next[part.id] = next
	}
	if m.bytes < moving {
		return nil
	}
	return m.flush(ctx)
}

// rested returns the first number of a response that is not in blocks.
func (s *Service) rested(ctx context.Context, id string) (n int64, err error) {
	err = s.db.Read().QueryRowContext(ctx, `SELECT COALESCE(MAX(last_seq), -1) + 1 FROM event_block WHERE response_id = $1`, id).Scan(&n)
	return n, err
}

func (m *mover) flush(ctx context.Context) error {
	if len(m.held) == 0 {
		return nil
	}
	packed := make(map[string][]block, len(m.held))
	for id, frames := range m.held {
		blocks, err := m.s.packer.pack(frames)
		if err != nil {
			return err
		}
		packed[id] = blocks
	}
	err := m.s.db.Write(ctx, func(tx *sql.Tx) error {
		for id, blocks := range packed {
			// One whose fence has moved on is another owner's; that one moves it.
			if _, err := insertBlocks(tx, m.s.statements, id, m.fences[id], blocks); err != nil {
				return err
			}
		}
		return nil
	})
	clear(m.held)
	m.bytes = 0
	return err
}

// queueUp puts responses into the backlog and says so.
func (s *Service) queueUp(fences map[string]int64) {
	if len(fences) == 0 {
		return
	}
	s.mu.Lock()
	for id, fence := range fences {
		s.backlog = append(s.backlog, orphan{id, fence})
	}
	slices.SortFunc(s.backlog, func(a, b orphan) int { return strings.Compare(a.id, b.id) }) // ids sort by age
	s.mu.Unlock()
	s.tellOrphans()
}
