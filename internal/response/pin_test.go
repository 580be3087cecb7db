package response

import (
	"testing"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// A segment dies when nobody claims it: neither the runs that were sealed while it was written, nor those that were lost.
func TestASegmentOfEndedRunsDies(t *testing.T) {
	s := newService(t)
	sealed, lost := begin(t, s, Begin{Store: true}), begin(t, s, Begin{Store: true})
	for _, r := range []*Run{sealed, lost} {
		announce(t, r)
		if err := r.Sync(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	frames := sealed.ring.slice(0, 1)
	finish(t, sealed, openai.Completed)
	finish(t, lost, openai.Completed)
	l := s.log
	written := segment{id: l.nextID, bytes: 100}
	l.parts = []part{{run: sealed, frames: frames}, {run: lost, stale: true}}
	l.settle(written, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes != 0 || len(l.live) != 0 || len(l.dead) == 0 || l.dead[len(l.dead)-1] != written.id {
		t.Errorf("%d bytes in %d segments live on, %v are dead", l.bytes, len(l.live), l.dead)
	}
}
