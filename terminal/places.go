package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
)

// maxPlaces is how many sandboxes a session keeps that nothing runs in. A policy's second call finds its sandbox warm.
const maxPlaces = 4

// places are the sandboxes of a session, one for each policy that its turns have used.
type places struct {
	backend SandboxBackend
	dir     string

	mu     sync.Mutex
	byKey  map[string]*held
	serial int
	used   int
	closed bool
}

// held is one place and who holds it.
type held struct {
	key    string
	dir    string
	made   chan struct{} // closed when place or err is there
	place  Place
	err    error
	refs   int
	used   int
	parted bool // no longer in byKey: whoever lets go last closes it
}

// get returns the place for a spec and a way to let it go. A place that has died is made again.
func (p *places) get(ctx context.Context, spec PlaceSpec) (Place, func(), error) {
	key, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, nil, fault.New(fault.Conflict, "the session is closed")
	}
	h := p.byKey[string(key)]
	if h != nil && h.gone() {
		p.part(h)
		h = nil
	}
	mine := h == nil
	if mine {
		p.serial++
		h = &held{key: string(key), dir: filepath.Join(p.dir, "place"+strconv.Itoa(p.serial)), made: make(chan struct{})}
		p.byKey[h.key] = h
	}
	h.refs++
	p.used++
	h.used = p.used
	p.mu.Unlock()

	release := sync.OnceFunc(func() { p.release(h) })
	if mine {
		spec.Dir = h.dir
		h.place, h.err = p.backend.Open(context.WithoutCancel(ctx), spec) // it serves other calls too
		close(h.made)
	}
	select {
	case <-h.made:
	case <-ctx.Done():
		release()
		return nil, nil, context.Cause(ctx)
	}
	if h.err != nil {
		p.mu.Lock()
		p.part(h)
		p.mu.Unlock()
		release()
		return nil, nil, h.err
	}
	return h.place, release, nil
}

// gone says whether the place has died or was never made.
func (h *held) gone() bool {
	select {
	case <-h.made:
	default:
		return false
	}
	if h.err != nil {
		return true
	}
	select {
	case <-h.place.Done():
		return true
	default:
		return false
	}
}

// part takes a place out of use; p.mu is held.
func (p *places) part(h *held) {
	if p.byKey[h.key] == h {
		delete(p.byKey, h.key)
	}
	h.parted = true
}

func (p *places) release(h *held) {
	p.mu.Lock()
	h.refs--
	var over []*held
	if h.refs == 0 && h.parted {
		over = append(over, h)
	}
	for idle := p.idle(); len(idle) > maxPlaces; idle = p.idle() {
		oldest := idle[0]
		for _, i := range idle {
			if i.used < oldest.used {
				oldest = i
			}
		}
		p.part(oldest)
		over = append(over, oldest)
	}
	p.mu.Unlock()
	for _, o := range over {
		o.close()
	}
}

// idle are the places that nobody holds; p.mu is held.
func (p *places) idle() (idle []*held) {
	for _, h := range p.byKey {
		if h.refs == 0 {
			idle = append(idle, h)
		}
	}
	return idle
}

// close ends every place, held or not.
func (p *places) close() error {
	p.mu.Lock()
	p.closed = true
	var all []*held
	for _, h := range p.byKey {
		all = append(all, h)
	}
	clear(p.byKey)
	p.mu.Unlock()
	var errs []error
	for _, h := range all {
		<-h.made
		errs = append(errs, h.close())
	}
	return errors.Join(errs...)
}

func (h *held) close() error {
	var err error
	if h.place != nil {
		err = h.place.Close()
	}
	return errors.Join(err, os.RemoveAll(h.dir))
}
