package response

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// End is how a response ends.
type End struct {
	Status string                // completed | incomplete | failed | cancelled
	Error  *openai.ResponseError // why it failed
	Reason string                // why it is incomplete
}

// seal is everything that one transaction writes to end a response.
type seal struct {
	object    openai.Response
	terminal  Frame
	container string
	frames    []Frame // all events that are not at rest
	blocks    []block // the same, packed
	completed time.Time
	unborn    *birth // the row, if it is not on record yet
}

// Pauses before another try to write an end that a full or busy disk refused.
var sealPauses = [...]time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 800 * time.Millisecond}

// Finish ends the response: the final object, the status, the one terminal event and every event before it that is not
// at rest yet become durable together, then the readers see the terminal event. In the foreground, when nothing of the
// response had to be durable so far, its reader sees the end first and it is durable some milliseconds later (late.go).
// A second call is refused with fault.Conflict, and so is an owner whose response was taken over.
//
// When the disk refuses for good, the response ends as failed for everyone who follows it here, Finish returns
// fault.Unavailable, and the end is written as soon as the disk allows.
func (r *Run) Finish(ctx context.Context, e End) error {
	if terminalEvent[e.Status] == "" {
		return fault.New(fault.Internal, "%q does not end a response.", e.Status)
	}
	r.mu.Lock()
	err := r.cut
	if err == nil && r.released {
		err = errReleased
	}
	if err == nil && r.phase != open {
		err = over(r.id)
	}
	if err == nil {
		err = change(r.id, r.object.Status, e.Status)
	}
	if err != nil {
		r.mu.Unlock()
		return err
	}
	r.phase = ending
	r.roomMadeLocked()
	r.mu.Unlock()

	r.packing.Lock() // whatever is moving into blocks has arrived
	defer r.packing.Unlock()
	end, err := r.seal(e)
	switch {
	case err != nil || !r.stored:
	case end.unborn != nil && r.s.late.reserve(end.size()):
		r.close(end, end)
		r.s.late.add(r)
		return nil
	default:
		if err = r.pack(end); err == nil {
			err = r.write(ctx, end)
		}
	}
	switch {
	case err == nil:
		r.close(end, nil)
		return nil
	case fault.KindOf(err) == fault.Conflict:
		r.lose(err)
		return err
	}
	// A promise to store that could not be kept is a failure, whatever the model had to say.
	failed, again := r.seal(End{Status: openai.Failed, Error: &openai.ResponseError{Code: "server_error",
		Message: "The response could not be stored."}})
	if again == nil {
		again = r.pack(failed)
	}
	if again != nil {
		r.lose(err)
		return err
	}
	r.close(failed, failed)
	return err
}

// seal prepares the end: everything that costs time is done before the transaction.
func (r *Run) seal(e End) (*seal, error) {
	now := r.s.clock()
	r.mu.Lock()
	object := r.objectLocked()
	unborn := r.unborn
	seq, frames := r.ring.end(), r.ring.frames[:len(r.ring.frames):len(r.ring.frames)]
	r.mu.Unlock()

	conclude(&object, e, now)
	end := &seal{object: object, container: object.ContainerID, completed: now, unborn: unborn}
	if r.unread {
		return end, nil
	}
	var err error
	if end.terminal, err = lastFrame(object, seq); err != nil {
		return nil, err
	}
	if r.stored {
		end.frames = append(frames, end.terminal)
	}
	return end, nil
}

// size is about what an end takes in memory.
func (e *seal) size() int {
	n := len(e.unborn.input) + len(e.unborn.object)
	for _, f := range e.frames {
		n += len(f.Data) + frameCost
	}
	return n
}

// pack prepares the events for their rest.
func (r *Run) pack(end *seal) (err error) {
	end.blocks, err = r.s.packer.pack(end.frames)
	return err
}

// conclude turns a running response object into its final form.
func conclude(o *openai.Response, e End, now time.Time) {
	o.Status, o.Error = e.Status, e.Error
	if e.Reason != "" {
		o.IncompleteDetails = &openai.IncompleteDetails{Reason: e.Reason}
	}
	if e.Status == openai.Completed {
		at := now.Unix()
		o.CompletedAt = &at
		return
	}
	for i, item := range o.Output {
		o.Output[i] = closed(item)
	}
}

// closed returns an item that nobody will finish any more as incomplete.
func closed(i openai.Item) openai.Item {
	if i.Status != openai.InProgress {
		return i
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(i.Raw, &fields) != nil {
		return i
	}
	fields["status"] = json.RawMessage(`"` + openai.Incomplete + `"`)
	return openai.NewItem(fields)
}

// lastFrame encodes the terminal event.
func lastFrame(o openai.Response, seq int64) (Frame, error) {
	ev := openai.NewLifecycle(terminalEvent[o.Status], o)
	ev.SetSequence(seq)
	data, err := openai.AppendEvent(nil, ev)
	if err != nil {
		return Frame{}, fmt.Errorf("end response: %w", err)
	}
	return Frame{Seq: seq, Type: ev.EventType(), Data: data}, nil
}

// objectIn cuts the response object out of a lifecycle event, so that row and event hold the same bytes.
func objectIn(data []byte) []byte {
	_, rest, _ := bytes.Cut(data, []byte(`"response":`))
	return bytes.TrimSuffix(rest, []byte("}"))
}

// write writes an end, trying again when the disk says "not now".
func (r *Run) write(ctx context.Context, end *seal) error {
	for _, pause := range sealPauses {
		err := r.s.writeSeal(ctx, r.id, r.fence, end)
		if fault.KindOf(err) != fault.Unavailable {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
	return r.s.writeSeal(ctx, r.id, r.fence, end)
}

// writeSeal ends a response under a fence. A response that has ended, changed hands or gone answers fault.Conflict.
func (s *Service) writeSeal(ctx context.Context, id string, fence int64, end *seal) error {
	// The caller's context may have ended already: that is often why the response ends.
	err := s.db.Write(context.WithoutCancel(ctx), func(tx *sql.Tx) error { return s.sealIn(tx, id, fence, end) })
	if fault.KindOf(err) != fault.Conflict { // then nothing was written, and the disk not tried
		s.ailing.Store(err != nil)
	}
	return err
}

// sealIn writes an end inside a transaction. When it answers fault.Conflict it has written nothing.
func (s *Service) sealIn(tx *sql.Tx, id string, fence int64, end *seal) error {
	expires := end.completed.Add(s.retention).UnixMilli()
	if end.unborn != nil {
		if made, err := end.unborn.writeEnded(tx, s.statements, id, fence, end, expires); err != nil {
			return err
		} else if made {
			_, err := insertBlocks(tx, s.statements, id, fence, end.blocks)
			return err
		}
	}
	from := before(end.object.Status)
	args := []any{id, fence, end.object.Status, end.container, end.completed.UnixMilli(), expires, end.terminal.Seq, string(objectIn(end.terminal.Data))}
	query := `UPDATE response SET status = $3, container_id = $4, completed = $5, expires = $6, last_seq = $7, object = $8
		WHERE id = $1 AND fence = $2 AND status IN (` + inList(len(args)+1, len(from)) + `)`
	for _, status := range from {
		args = append(args, status)
	}
	res, err := tx.Exec(query, args...)
	if err != nil {
		return fmt.Errorf("end response: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil {
		return fmt.Errorf("end response: %w", err)
	} else if n == 0 {
		return taken(id)
	}
	ok, err := insertBlocks(tx, s.statements, id, fence, end.blocks)
	if err == nil && !ok {
		err = fmt.Errorf("end response: %s lost its row within a transaction", id)
	}
	if err == nil {
		err = forgetWork(tx, id)
	}
	if err == nil && end.object.Conversation != nil {
		err = converse(tx, id, end)
	}
	return err
}

// close publishes the end. unsealed is the end that still waits for the disk, nil when it is written.
func (r *Run) close(end, unsealed *seal) {
	r.mu.Lock()
	if r.phase == ended {
		r.mu.Unlock()
		return
	}
	if !r.unread {
		r.ring.put(end.terminal)
	}
	r.late = end == unsealed && end.unborn != nil && end.blocks == nil
	if r.unsealed = unsealed; unsealed == nil {
		r.durable = r.ring.end()
	}
	r.object = end.object
	r.endLocked()
}

// lose ends a run without a terminal event here: another owner writes it, or nobody can.
func (r *Run) lose(err error) {
	r.mu.Lock()
	if r.phase == ended {
		r.mu.Unlock()
		return
	}
	r.cut = err
	r.endLocked()
}

// endLocked lets go of everything, and of the lock.
func (r *Run) endLocked() {
	r.object.Output = r.finalLocked()
	r.phase = ended
	var pins []pin
	if r.unsealed == nil {
		pins, r.segments = r.segments, nil
	}
	r.wakeLocked(true)
	r.roomMadeLocked()
	unsealed, cut := r.unsealed != nil, r.cut
	status, events := r.object.Status, r.ring.end()
	r.mu.Unlock()
	if cut != nil {
		status = ""
	}
	r.s.observe.ResponseEnded(status, r.s.clock().Sub(r.begun), events)
	if !unsealed {
		r.s.forget(r) // an unsealed one is still found here, and nowhere else
	}
	r.s.log.release(pins)
	if cut == nil {
		cut = errOver // every response ends by it: its name is not worth a sentence of its own
	}
	r.cancel(cut)
	close(r.done)
}

func (r *Run) finalLocked() []openai.Item {
	if r.cut != nil {
		return r.outputLocked()
	}
	return r.object.Output
}

// settle writes the ends that a full disk refused earlier, one round at a time: the second to write an end would take it
// for another owner's. It returns the last error.
func (s *Service) settle(ctx context.Context) error {
	s.settling.Lock()
	defer s.settling.Unlock()
	s.mu.Lock()
	var runs []*Run
	for _, r := range s.live {
		runs = append(runs, r)
	}
	s.mu.Unlock()
	var last error
	for _, r := range runs {
		r.mu.Lock()
		end, late := r.unsealed, r.late
		r.mu.Unlock()
		if end == nil || late {
			continue
		}
		err := s.writeSeal(ctx, r.id, r.fence, end)
		if r.sealed(err); err != nil && fault.KindOf(err) != fault.Conflict {
			last = err
		}
	}
	return last
}
