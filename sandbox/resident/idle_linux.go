package resident

import (
	"runtime/debug"
	"time"
)

// A box idles for most of its life. When no call has ended for trimAfter, the memory that calls took is given back, if
// they were trimCalls or more: a collection takes memory itself, as much as fewer calls leave.
const (
	trimAfter = time.Second
	trimCalls = 64
)

// count counts a call that has ended.
func (s *server) count() {
	if s.ended++; s.ended >= trimCalls {
		s.trimAt = monotonic() + trimAfter
	}
}

// trim gives memory back.
func (s *server) trim() {
	s.trimAt, s.ended = 0, 0
	s.ttyBuf = nil // the next terminal's output makes it again
	debug.FreeOSMemory()
}
