package response

import (
	"context"
	"errors"
	"io"

	"github.com/hardshell-dev/hardshell/fault"
)

// Subscription is a reader's place in a log. It is for one goroutine. It holds nothing of a stored response back: a
// reader that falls behind goes on from the store. The producer of an unstored one waits for it (see [Run.Emit]), so
// a reader that leaves early calls Close.
type Subscription struct {
	s       *Service
	run     *Run // nil when the response is at rest
	id      string
	org     string
	early   bool  // nobody runs the response yet: it waits for an owner
	next    int64 // guarded by run.mu when there is a run
	last    int64 // without a run: the terminal event's number
	durable bool  // sees only what is durable
	wake    chan struct{}
	waiting bool // among the run's watchers; guarded by run.mu
}

func newSubscription(s *Service, r *Run, id string, after int64, durable bool) *Subscription {
	return &Subscription{s: s, run: r, id: id, next: max(after, -1) + 1, durable: durable, wake: make(chan struct{}, 1)}
}

// Subscribe reads the run's events with numbers above after (-1 is all), then those to come. In the foreground it sees
// them at once; those of a background run when they are durable.
func (r *Run) Subscribe(after int64) *Subscription {
	sub := newSubscription(r.s, r, r.id, after, r.background)
	if !r.stored {
		r.mu.Lock()
		r.subs = append(r.subs, sub)
		r.mu.Unlock()
	}
	return sub
}

// Close gives the place up. It may be called more than once, and by any goroutine.
func (sub *Subscription) Close() {
	r := sub.run
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers, r.subs = without(r.watchers, sub), without(r.subs, sub)
	sub.waiting = false
	r.roomMadeLocked()
}

func without(list []*Subscription, gone *Subscription) []*Subscription {
	for i, sub := range list {
		if sub == gone {
			return append(append([]*Subscription(nil), list[:i]...), list[i+1:]...)
		}
	}
	return list
}

// Next returns the events that are ready, one at least, in order and without a gap. It waits for them, and answers
// io.EOF after the terminal event. The frames stay valid.
func (sub *Subscription) Next(ctx context.Context) ([]Frame, error) {
	if sub.early {
		f, err := sub.s.await(ctx, sub.org, sub.id)
		if errors.Is(err, errStopping) {
			err = away(errReleased)
		}
		if err != nil {
			return nil, err
		}
		sub.early, sub.run, sub.last = false, f.run, f.last
	}
	r := sub.run
	if r == nil {
		return sub.atRest(ctx)
	}
	r.mu.Lock()
	for {
		end := r.ring.end()
		if sub.durable {
			end = r.durable
		}
		switch {
		case sub.next < r.ring.first && !r.stored:
			r.mu.Unlock()
			return nil, fault.New(fault.Expired, "The events before %d are gone: the response is not stored.", r.ring.first)
		case sub.next < r.ring.first:
			next := sub.next
			r.mu.Unlock()
			frames, err := sub.stored(ctx, next)
			if err != nil {
				return nil, err
			}
			r.mu.Lock()
			sub.next = frames[len(frames)-1].Seq + 1
			r.mu.Unlock()
			return frames, nil
		case sub.next < end:
			frames := r.ring.slice(sub.next, end)
			sub.next = end
			if !r.stored {
				r.roomMadeLocked()
			}
			r.mu.Unlock()
			return frames, nil
		case Parked(r.cut):
			r.mu.Unlock()
			<-r.done // then nobody finds it any more
			sub.early, sub.run, sub.org = true, nil, r.org
			return sub.Next(ctx)
		case r.cut != nil:
			defer r.mu.Unlock()
			return nil, away(r.cut)
		case r.late && sub.durable:
			if err := sub.settledLocked(ctx); err != nil {
				r.mu.Unlock()
				return nil, err
			}
			continue
		case r.phase == ended && r.unsealed != nil && sub.durable:
			r.mu.Unlock()
			return nil, fault.New(fault.Unavailable, "The end of response %s could not be stored yet.", r.id).WithTry("again later")
		case r.phase == ended:
			r.mu.Unlock()
			return nil, io.EOF
		}
		if err := sub.waitLocked(ctx); err != nil {
			return nil, err
		}
	}
}

// waitLocked waits for a wake-up. It gives the lock up meanwhile, and for good when ctx ends.
func (sub *Subscription) waitLocked(ctx context.Context) error {
	r := sub.run
	if !sub.waiting {
		sub.waiting = true
		r.watchers = append(r.watchers, sub)
	}
	r.mu.Unlock()
	done := ctx.Done()
	if done == nil {
		<-sub.wake
		r.mu.Lock()
		return nil
	}
	select {
	case <-sub.wake:
	case <-done:
		return context.Cause(ctx)
	}
	r.mu.Lock()
	return nil
}

// reached waits until everything before the subscription's place is durable.
func (sub *Subscription) reached(ctx context.Context) error {
	r := sub.run
	r.mu.Lock()
	for r.durable < sub.next {
		if err := sub.settledLocked(ctx); err != nil {
			r.mu.Unlock()
			return err
		}
		if r.durable >= sub.next {
			break
		}
		if r.cut != nil || r.phase == ended {
			err := r.cut
			r.mu.Unlock()
			if err == nil {
				err = fault.New(fault.Unavailable, "The end of response %s could not be stored yet.", r.id)
			}
			return err
		}
		if !r.background { // whose events are always flushed at once
			r.mu.Unlock()
			r.s.log.hurry()
			r.mu.Lock()
			if r.durable >= sub.next || r.phase == ended {
				continue
			}
		}
		if err := sub.waitLocked(ctx); err != nil {
			sub.Close()
			return err
		}
	}
	r.mu.Unlock()
	return nil
}

// stored reads from the log at rest, where events before the ring always are.
func (sub *Subscription) stored(ctx context.Context, next int64) ([]Frame, error) {
	frames, err := sub.s.readEvents(ctx, sub.id, next)
	if err == nil && len(frames) == 0 {
		err = missing(sub.id) // deleted while it was read
	}
	return frames, err
}

// atRest reads a log that is complete.
func (sub *Subscription) atRest(ctx context.Context) ([]Frame, error) {
	if sub.next > sub.last {
		return nil, io.EOF
	}
	frames, err := sub.stored(ctx, sub.next)
	if err != nil {
		return nil, err
	}
	sub.next = frames[len(frames)-1].Seq + 1
	return frames, nil
}
