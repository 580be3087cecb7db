package response

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// orphan is an open response that this service owns and that nobody goes on with yet.
type orphan struct {
	id    string
	fence int64
}

// Claim is a response that another owner began: all that is needed to go on with it.
type Claim struct {
	Run        *Run
	Org, KeyID string
	PreviousID string
	Container  string // "" while there is none
	Input      []openai.Item
	Work       []byte  // Begin.Work; nil when there is none, and then there is no going on
	Journal    []Entry // oldest first
}

// Entry is an entry of a response's journal.
type Entry struct {
	Data  []byte
	Since int64 // the events from this number on came after it
}

// Orphans has a token when Claim may have something.
func (s *Service) Orphans() <-chan struct{} { return s.orphans }

func (s *Service) tellOrphans() {
	select {
	case s.orphans <- struct{}{}:
	default:
	}
}

// Claim takes the next response out of the backlog and brings it to life: its run is found and followed from now on.
// With unwanted it takes only one that somebody waits to see cancelled; the context of such a run has ended already. It
// returns nil when there is none.
func (s *Service) Claim(ctx context.Context, unwanted bool) (*Claim, error) {
	for {
		s.mu.Lock()
		at := slices.IndexFunc(s.backlog, func(o orphan) bool { return s.unwanted[o.id] > 0 })
		if at < 0 && !unwanted && len(s.backlog) > 0 {
			at = 0
		}
		if at < 0 || s.closed {
			s.mu.Unlock()
			return nil, nil
		}
		o := s.backlog[at]
		s.backlog = slices.Delete(s.backlog, at, at+1)
		s.mu.Unlock()
		c, err := s.adopt(ctx, o)
		switch {
		case err == nil && c != nil:
			return c, nil
		case err == nil, fault.KindOf(err) == fault.Conflict:
			s.arrived(o.id) // it was deleted or is another's: whoever waits for it looks again
			continue
		case fault.KindOf(err) == fault.Unavailable || ctx.Err() != nil:
			s.queueUp(map[string]int64{o.id: o.fence})
			return nil, err
		}
		// What cannot be read cannot be gone on with. It must not stay in progress for ever.
		return nil, errors.Join(fmt.Errorf("claim %s: %w", o.id, err), s.giveUp(ctx, o))
	}
}

// adopt makes a run of an orphan.
func (s *Service) adopt(ctx context.Context, o orphan) (*Claim, error) {
	c := &Claim{}
	r := &Run{s: s, id: o.id, stored: true, fence: o.fence, done: make(chan struct{}), epoch: -1, begun: s.clock(), spoke: true}
	var status, object string
	var background int64
	var work []byte
	var input sql.NullString
	err := s.db.Read().QueryRowContext(ctx, `SELECT r.org, r.key_id, r.status, r.background, r.previous_id, r.container_id,
		r.object, w.work, i.items FROM response r LEFT JOIN response_work w ON w.response_id = r.id
		LEFT JOIN response_input i ON i.response_id = r.id WHERE r.id = $1 AND r.fence = $2 AND r.completed IS NULL`, o.id, o.fence).
		Scan(&c.Org, &c.KeyID, &status, &background, &c.PreviousID, &c.Container, &object, &work, &input)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read response: %w", err)
	}
	if err := json.Unmarshal([]byte(object), &r.object); err != nil {
		return nil, fmt.Errorf("read response: %w", err)
	}
	if input.Valid {
		if err := json.Unmarshal([]byte(input.String), &c.Input); err != nil {
			return nil, fmt.Errorf("read input: %w", err)
		}
	}
	c.Run, c.Work, r.org, r.background = r, work, c.Org, background != 0
	r.object.Status = status
	r.object.Output, r.object.Usage = nil, nil // of one that waited: the log and the journal have them
	if c.Container != "" {
		r.object.ContainerID = c.Container
	}
	if err := s.readJournal(ctx, c); err != nil {
		return nil, err
	}
	if err := s.rebuild(ctx, r); err != nil {
		return nil, err
	}
	r.entries = int64(len(c.Journal))
	// Nobody's request began this life of it.
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.Unavailable, "The server is stopping.")
	}
	if s.unwanted[o.id] > 0 {
		r.cancel(errCancelled)
	}
	s.live[o.id] = r
	s.arrivedLocked(o.id)
	s.observe.ResponseBegan(r.background)
	return c, nil
}

func (s *Service) readJournal(ctx context.Context, c *Claim) error {
	rows, err := s.db.Read().QueryContext(ctx, `SELECT seq, entry FROM response_journal WHERE response_id = $1 ORDER BY n`, c.Run.id)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e Entry
		if err := rows.Scan(&e.Since, &e.Data); err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		c.Journal = append(c.Journal, e)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	return nil
}

// rebuild brings a run to where its log at rest ends: the next number, and the output so far.
func (s *Service) rebuild(ctx context.Context, r *Run) error {
	next := int64(0)
	for f, err := range s.Replay(ctx, r.id, 0) {
		if err != nil {
			return err
		}
		if f.Seq != next {
			return fmt.Errorf("read events: %d is missing", next)
		}
		next++
		switch f.Type {
		case openai.EventCreated, openai.EventQueued, openai.EventInProgress:
			r.announced++
			if len(r.output) > 0 {
				var ev openai.Lifecycle
				if err := json.Unmarshal(f.Data, &ev); err != nil {
					return fmt.Errorf("read event %d: %w", f.Seq, err)
				}
				r.shownLocked(ev.Response.Output)
			}
		case openai.EventItemAdded, openai.EventItemDone:
			var ev openai.ItemEvent
			if err := json.Unmarshal(f.Data, &ev); err != nil {
				return fmt.Errorf("read event %d: %w", f.Seq, err)
			}
			if ev.OutputIndex < 0 || ev.OutputIndex >= maxOutputItems {
				return fmt.Errorf("read event %d: output index %d", f.Seq, ev.OutputIndex)
			}
			r.putLocked(ev.OutputIndex, ev.Item)
		}
	}
	r.ring.first, r.durable = next, next
	return nil
}

// Replay reads a response's log at rest from number from on, some blocks at a time.
func (s *Service) Replay(ctx context.Context, id string, from int64) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		for {
			frames, err := s.readEvents(ctx, id, from)
			if err != nil {
				yield(Frame{}, err)
				return
			}
			if len(frames) == 0 {
				return
			}
			for _, f := range frames {
				if !yield(f, nil) {
					return
				}
			}
			from = frames[len(frames)-1].Seq + 1
		}
	}
}

// giveUp ends a response that cannot be brought to life.
func (s *Service) giveUp(ctx context.Context, o orphan) error {
	defer s.arrived(o.id)
	var object string
	err := s.db.Read().QueryRowContext(ctx, `SELECT object FROM response WHERE id = $1`, o.id).Scan(&object)
	if err != nil {
		return err
	}
	end := &seal{completed: s.clock(), object: openai.Response{ID: o.id, Object: "response"}}
	_ = json.Unmarshal([]byte(object), &end.object) // what can be read of it
	end.container = end.object.ContainerID
	conclude(&end.object, End{Status: openai.Failed, Error: &openai.ResponseError{Code: "server_error",
		Message: "The server stopped before the response was complete, and what it left cannot be read."}}, s.clock())
	seq, err := s.rested(ctx, o.id)
	if err != nil {
		return err
	}
	if end.terminal, err = lastFrame(end.object, seq); err != nil {
		return err
	}
	if end.blocks, err = s.packer.pack([]Frame{end.terminal}); err != nil {
		return err
	}
	return s.writeSeal(ctx, o.id, o.fence, end)
}
