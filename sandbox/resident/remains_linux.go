package resident

import (
	"os"
	"time"
)

// remains are the processes of calls whose end was told before all of them were gone: a starved machine, or the kernel's
// uninterruptible sleep, may keep a killed process for longer than an owner is let wait. They are killed on.
type remains struct {
	tags map[uint64]time.Duration // until when
	next time.Duration            // 0: there are none
}

const (
	remainsPause = 100 * time.Millisecond
	remainsTime  = time.Minute
)

func (r *remains) add(tag uint64, now time.Duration) {
	if r.tags == nil {
		r.tags = map[uint64]time.Duration{}
	}
	r.tags[tag], r.next = now+remainsTime, now+remainsPause
}

// hunt kills what remains.
func (r *remains) hunt(now time.Duration) {
	if r.next == 0 || now < r.next {
		return
	}
	for tag, until := range r.tags {
		if killTagged(func(seen uint64) bool { return seen == tag }, os.Getpid()) == 0 || now >= until {
			delete(r.tags, tag)
		}
	}
	if r.next = now + remainsPause; len(r.tags) == 0 {
		r.next = 0
	}
}
