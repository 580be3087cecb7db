package resident

import (
	"os"

	"golang.org/x/sys/unix"
)

// A Try is what a test does to one row of the filter's table, from inside.
type Try struct {
	Row    int
	Why    string
	Call   uintptr
	Args   [6]uintptr
	Want   unix.Errno // the filter's answer; when Allow is set, any other
	Allow  bool
	Forks  bool // never to be tried where it would be allowed
	Buffer int  // which argument is a pointer to something; -1 is none
}

// Tries are all rows, each with arguments that must be refused, and with arguments that miss one condition each.
func Tries() []Try { return tries(denied) }

// RestrictedTries are the same for what is denied besides where there is no jail. Own numbers must not be signalled.
func RestrictedTries() []Try { return tries(allRestricted()) }

// allRestricted are the rules of the tightest policy on the oldest kernel, in a box in a box.
func allRestricted() []rule {
	return append(restrictedRules(&Plan{Frozen: true, Offline: true}, []uint32{uint32(os.Getpid()), uint32(unix.Gettid())}, 1), nested...)
}

// EnterRestricted puts them on the calling thread.
func EnterRestricted() error {
	if err := dropHere(); err != nil {
		return err
	}
	return restrict(assemble(allRestricted(), &Secret{1, 2}))
}

func tries(rules []rule) []Try {
	var out []Try
	for i, r := range rules {
		t := Try{Row: i, Why: r.why, Call: uintptr(r.call), Want: r.with, Buffer: -1, Forks: r.call == unix.SYS_CLONE}
		if t.Want == 0 {
			t.Want = unix.EPERM
		}
		t.Args[0] = ^uintptr(0) // no descriptor
		if r.call == unix.SYS_PRLIMIT64 {
			t.Args[0] = 0 // ourselves
		}
		for _, c := range r.when {
			c.meet(&t)
		}
		out = append(out, t)
		for _, c := range r.when {
			if c.kind == notSecret || t.Forks {
				continue
			}
			miss := t
			miss.Allow = true
			c.miss(&miss)
			out = append(out, miss)
		}
	}
	return out
}

const unlikely = 40 // AF_VSOCK, a process number, a protocol

func (c condition) meet(t *Try) {
	switch c.kind {
	case anyBit, oneOf:
		t.Args[c.arg] = uintptr(c.values[0])
	case noneOf:
		t.Args[c.arg] = unlikely
	case masked:
		t.Args[c.arg] = uintptr(c.values[1])
	case isGiven:
		t.Buffer = int(c.arg)
	}
}

func (c condition) miss(t *Try) {
	switch c.kind {
	case anyBit, oneOf:
		t.Args[c.arg] = 0
	case masked:
		t.Args[c.arg] = uintptr(^c.values[1] & c.values[0])
	case noneOf:
		t.Args[c.arg] = uintptr(c.values[0])
	case isGiven:
		t.Buffer = -1
		t.Args[c.arg] = 0
	}
}
