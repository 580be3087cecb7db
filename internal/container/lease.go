package container

import (
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
)

// maxFences bounds the leases whose fences are remembered here. A box remembers as many on its own.
const maxFences = 1 << 16

// fences are the highest fences that this service has seen, by lease. A box knows those of its own commands; this one
// holds where no box lives, and turns a stale owner away before it makes one boot.
type fences struct {
	mu      sync.Mutex
	highest map[string]uint64
	names   []string // the oldest first
}

// raise notes a command's fence, and refuses one that is lower than its lease's highest.
func (f *fences) raise(container string, c Command) error {
	if c.Fence == 0 && c.Lease == "" {
		return nil
	}
	name := container + "/l/" + c.Lease
	if c.Lease == "" {
		name = container + "/k/" + c.Key
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	highest, known := f.highest[name]
	if c.Fence < highest {
		return fault.New(fault.Conflict, "A newer owner has taken this command over; nothing was started.").WithCode(CodeStaleOwner)
	}
	if !known {
		if f.highest == nil {
			f.highest = map[string]uint64{}
		}
		if len(f.names) >= maxFences {
			delete(f.highest, f.names[0])
			f.names = append(f.names[:0], f.names[1:]...)
		}
		f.names = append(f.names, name)
	}
	f.highest[name] = c.Fence
	return nil
}

// Codes of fault.Conflict, for an owner of a response that is none any more. A client is never told of them.
const (
	CodeStaleOwner = "stale_owner" // a command's fence is too low: nothing was started
	CodeHandedOver = "handed_over" // the box has another owner; what ran goes on
)
