package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// maxPlaces is how many sandboxes a session keeps that nothing runs in. A policy's second call finds its sandbox warm.
const maxPlaces = 4

// openLimit is how long a sandbox may take to be made.
const openLimit = session.SpawnLimit

// places are the sandboxes of a session, one for each policy that its turns have used.
type places struct {
	backend SandboxBackend
	dir     string

	mu     sync.Mutex
	byKey  map[string]*held
	serial int
	used   int
	closed bool
	aside  sync.WaitGroup // places that do not answer, and that are being closed: it takes seconds
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
	sick   bool // it did not answer
	once   sync.Once
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
		go p.open(context.WithoutCancel(ctx), h, spec) // it serves other calls too
	}
	late := time.NewTimer(openLimit)
	defer late.Stop()
	select {
	case <-h.made:
		err = h.err
	case <-late.C:
		err = fault.New(fault.Unavailable, "the sandbox could not be made within %v", openLimit).WithCode(session.CodeInfrastructure).WithTry("hardshell doctor")
	case <-ctx.Done():
		release()
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		p.mu.Lock()
		p.part(h)
		p.mu.Unlock()
		release()
		return nil, nil, err
	}
	return h.place, release, nil
}

// open makes a place. One that comes when nobody waits for it any more is closed.
func (p *places) open(ctx context.Context, h *held, spec PlaceSpec) {
	h.place, h.err = p.backend.Open(ctx, spec)
	p.mu.Lock()
	close(h.made)
	unwanted := h.parted && h.refs == 0
	p.mu.Unlock()
	if unwanted {
		h.close()
	}
}

// distrust takes a place that does not answer out of use. Who holds it keeps it.
func (p *places) distrust(place Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.byKey {
		if h.isMade() && reflect.ValueOf(place).Comparable() && h.place == place {
			p.part(h)
			h.sick = true
		}
	}
}

func (h *held) isMade() bool {
	select {
	case <-h.made:
		return true
	default:
		return false
	}
}

// gone says whether the place has died or was never made.
func (h *held) gone() bool {
	if !h.isMade() {
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
	if h.refs == 0 && h.parted && h.isMade() { // else open sees to it
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
	for _, o := range over {
		if o.sick && !p.closed {
			p.aside.Go(func() { o.close() })
		} else if o.sick {
			go o.close()
		}
	}
	p.mu.Unlock()
	for _, o := range over {
		if !o.sick {
			o.close()
		}
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
		p.part(h)
	}
	p.mu.Unlock()
	var errs []error
	late, stop := context.WithTimeout(context.Background(), openLimit)
	defer stop()
	for _, h := range all {
		select {
		case <-h.made:
			errs = append(errs, h.close())
		case <-late.Done():
			errs = append(errs, fault.New(fault.Internal, "a sandbox that is being made cannot be closed"))
		}
	}
	p.aside.Wait()
	return errors.Join(errs...)
}

func (h *held) close() (err error) {
	h.once.Do(func() {
		if h.place != nil {
			err = h.place.Close()
		}
		err = errors.Join(err, os.RemoveAll(h.dir))
	})
	return err
}
