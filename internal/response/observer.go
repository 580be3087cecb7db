package response

import (
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Observer is told what becomes of responses, and of their log. It is called on their path and must not wait. Every
// response that began ends, once; without a status it goes on later, and begins anew then.
type Observer interface {
	ResponseBegan(background bool)
	FirstDelta(background bool, took time.Duration)
	ResponseEnded(status string, took time.Duration, events int64)
	LogFlushed(events int, took time.Duration, err error)
}

// unobserved is nobody.
type unobserved struct{}

func (unobserved) ResponseBegan(bool)                         {}
func (unobserved) FirstDelta(bool, time.Duration)             {}
func (unobserved) ResponseEnded(string, time.Duration, int64) {}
func (unobserved) LogFlushed(int, time.Duration, error)       {}

// spokeLocked notes the first delta among the events.
func (r *Run) spokeLocked(ev openai.Event) {
	if !r.spoke && strings.HasSuffix(ev.EventType(), ".delta") {
		r.spoke = true
		r.s.observe.FirstDelta(r.background, r.s.clock().Sub(r.begun))
	}
}
