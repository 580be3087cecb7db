package resident

import (
	"time"
	_ "unsafe" // for the link below
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
	freeOSMemory()
}

// freeOSMemory is that of package runtime/debug. To import it would have a dozen other packages initialised before us:
// the linker sorts by path.
//
//go:linkname freeOSMemory runtime/debug.freeOSMemory
func freeOSMemory()
