package container

import (
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
)

// maxSlots bounds the containers whose folders exist on one data folder. A slot becomes a uid of the runtime's range.
const maxSlots = 1 << 16

// slots hands out small numbers, each to one container at a time. It goes round, so that a number that was given back
// rests for as long as possible: files or processes that were overlooked do not meet their successor.
type slots struct {
	mu    sync.Mutex
	count int // slots are below it
	taken map[int]bool
	last  int
}

func (s *slots) take(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.taken = map[int]bool{}
	}
	s.taken[slot] = true
	s.last = max(s.last, slot%s.count)
}

func (s *slots) next() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.taken) >= s.count {
		return 0, fault.New(fault.Unavailable, "There are %d containers on this server already.", len(s.taken)).
			WithTry("delete containers that are not needed")
	}
	if s.taken == nil {
		s.taken = map[int]bool{}
	}
	for slot := (s.last + 1) % s.count; ; slot = (slot + 1) % s.count {
		if !s.taken[slot] {
			s.taken[slot], s.last = true, slot
			return slot, nil
		}
	}
}

func (s *slots) free(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, slot)
}
