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
	ended  map[string]string // why there is no place any more for a key that had one
	reset  *Reset            // what the next result has to tell
	aside  sync.WaitGroup    // places that do not answer, and that are being closed: it takes seconds
}

// Reset says that what earlier calls had left is gone, though nobody asked for that.
type Reset struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// The reasons of a [Reset].
const (
	ResetLost     = "sandbox_lost"     // it died, or did not answer
	ResetReplaced = "sandbox_replaced" // too many policies had been used since
)

// String is a line for a model.
func (r Reset) String() string { return "session_restarted (" + r.Reason + "): " + r.Message }

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
		p.over(h, ResetLost)
		h = nil
	}
	mine := h == nil
	if mine {
		if why := p.ended[string(key)]; why != "" {
			delete(p.ended, string(key))
			p.reset = &Reset{Reason: why, Message: "This runs in a new sandbox: what ran in the one before is gone, and so is a /tmp of its own; the workspace is as it was."}
		}
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
			p.over(h, ResetLost)
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

// over notes why a place that was there is none any more; p.mu is held.
func (p *places) over(h *held, why string) {
	if !h.isMade() || h.err != nil {
		return // there was none
	}
	if p.ended == nil {
		p.ended = map[string]string{}
	}
	p.ended[h.key] = why
}

// news is what is to be told of a sandbox that is another one, once.
func (p *places) news() *Reset {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.reset
	p.reset = nil
	return r
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
		p.over(oldest, ResetReplaced)
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
