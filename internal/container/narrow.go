package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// A Narrower is a box whose network policy can be made narrower than its container's, and wider again up to that, while
// it lives. It holds for everything in the box.
type Narrower interface {
	Narrow(to egress.Policy) error
}

// narrowName is the file of a container's folder that says which of its calls have less network than it: who adopts a
// box must not widen it.
const narrowName = "narrowed.json"

// narrowing is by how much the commands that run in a container have less network than it.
type narrowing struct {
	mu  sync.Mutex
	dir string        // of the container
	own egress.Policy // the container's
	by  map[string]*narrowed
	box Box // the one that lives; nil where none does
	// passed says that the box goes to another gateway. It is never widened from here any more, and what is written down
	// is the other's: of a command that was on its way in nobody knows whether it runs.
	passed bool
}

// unread is the call of which all is held that was written down and could not be read. No call's key is empty.
const unread = ""

// narrowed is the policy of one call.
type narrowed struct {
	domains []string
	policy  egress.Policy
	held    int // by so many of its commands
}

// all is what every command that runs may reach. It needs mu.
func (n *narrowing) all() egress.Policy {
	policy := n.own
	for _, by := range n.by {
		policy = policy.And(by.policy)
	}
	return policy
}

// apply has the box hold what is asked now. It needs mu.
func (n *narrowing) apply() error {
	if n.box == nil {
		return nil
	}
	narrower, ok := n.box.(Narrower)
	if !ok {
		return fault.New(fault.Unsupported, "This runtime can't narrow a container's network.").WithTry("leave network_policy out, or use a new container")
	}
	return narrower.Narrow(n.all())
}

// pass leaves what is held, and its file, to the box's next owner.
func (n *narrowing) pass() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.passed = true
}

// holdable says whether the box is still this gateway's to narrow and to widen. It needs the narrowing's mu.
func (s *Service) holdable(n *narrowing) error {
	if n.passed {
		return takenOver()
	}
	return s.owned()
}

// entered is a new box: what is asked holds before anything runs in it.
func (n *narrowing) entered(box Box) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.box = box; len(n.by) == 0 {
		return nil
	}
	return n.apply()
}

// narrow holds a command's network policy until release. While it runs, all that runs in the container has no more. A
// policy that is not narrower than the container's changes nothing, a wider one is refused.
func (s *Service) narrow(p *place, call string, asked *NetworkPolicy) (release func(), err error) {
	nothing := func() {}
	if asked == nil {
		return nothing, nil
	}
	p.mu.Lock()
	spec := p.spec
	p.mu.Unlock()
	if spec.refused != nil || spec.Egress == nil {
		return nothing, spec.refused // no box is made of it; or nothing can be reached
	}
	policy, err := s.network.policy(asked)
	if err != nil {
		return nil, rejected(err)
	}
	if !spec.Egress.Policy.Covers(policy) {
		return nil, fault.New(fault.Invalid, "The command's network policy is wider than its container's.").
			WithCode("shell_environment_rejected").WithParam("network_policy")
	}
	if policy.Covers(spec.Egress.Policy) {
		return nothing, nil
	}
	n := &p.narrowing
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := s.holdable(n); err != nil {
		return nil, err
	}
	n.dir, n.own = spec.Dir, spec.Egress.Policy
	release = sync.OnceFunc(func() { s.widen(p, call) })
	if by := n.by[call]; by != nil && slices.Equal(by.domains, policy.Domains()) {
		by.held++
		return release, nil
	}
	if n.by == nil {
		n.by = map[string]*narrowed{}
	}
	if n.by[call] != nil {
		return nil, fault.New(fault.Conflict, "The commands of one call have one network policy.")
	}
	n.by[call] = &narrowed{domains: policy.Domains(), policy: policy, held: 1}
	if err = n.save(); err == nil {
		err = n.apply()
	}
	if err != nil {
		delete(n.by, call)
		return nil, errors.Join(err, n.save())
	}
	return release, nil
}

// widen takes one command's hold back.
func (s *Service) widen(p *place, call string) {
	n := &p.narrowing
	n.mu.Lock()
	defer n.mu.Unlock()
	by := n.by[call]
	if by == nil || s.holdable(n) != nil {
		return
	}
	if by.held--; by.held > 0 {
		return
	}
	delete(n.by, call)
	err := n.apply()
	if err == nil {
		err = n.save()
	}
	if err != nil { // it stays narrower than it has to be
		s.log.Warn("a container's network could not be widened again", "container", p.id, "error", err)
	}
}

// save writes down what holds. It needs mu.
func (n *narrowing) save() error {
	path := filepath.Join(n.dir, narrowName)
	if len(n.by) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("note network policy: %w", err)
		}
		return nil
	}
	calls := map[string][]string{}
	for call, by := range n.by {
		calls[call] = by.domains
	}
	text, err := json.Marshal(calls)
	if err == nil {
		err = replaceFile(path, string(text))
	}
	if err != nil {
		return fmt.Errorf("note network policy: %w", diskFull(err))
	}
	return nil
}

// restore reads what an earlier gateway wrote down. What it can't read lets nothing through, until all has ended that it
// may be of.
func (n *narrowing) restore(spec Spec) (egress.Policy, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dir = spec.Dir; spec.Egress != nil {
		n.own = spec.Egress.Policy
	}
	text, err := os.ReadFile(filepath.Join(spec.Dir, narrowName))
	if errors.Is(err, fs.ErrNotExist) {
		return n.own, nil
	}
	calls := map[string][]string{}
	if err == nil {
		err = json.Unmarshal(text, &calls)
	}
	n.by = map[string]*narrowed{}
	for call, domains := range calls {
		by := &narrowed{domains: domains}
		if len(domains) > 0 && err == nil {
			by.policy, err = egress.ParsePolicy(networkAllowlist, domains, egress.Bundles{})
		}
		n.by[call] = by
	}
	if err != nil {
		n.by = map[string]*narrowed{unread: {}}
		err = fmt.Errorf("read the container's network policy: %w", err)
	}
	return n.all(), err
}

// keep holds, of what was restored, that of the calls that live, each until its last command has ended.
func (s *Service) keep(p *place, box Box, live []Job) {
	n := &p.narrowing
	n.mu.Lock()
	defer n.mu.Unlock()
	n.box = box
	if len(n.by) == 0 {
		return
	}
	for _, job := range live {
		for _, call := range []string{job.Key(), unread} {
			by := n.by[call]
			if by == nil {
				continue
			}
			by.held++
			s.wg.Go(func() {
				if _, err := job.Wait(context.Background()); !handedOver(err) { // else it goes on
					s.widen(p, call)
				}
			})
		}
	}
	for call, by := range n.by {
		if by.held == 0 {
			delete(n.by, call)
		}
	}
	err := n.apply()
	if err == nil {
		err = n.save()
	}
	if err != nil {
		s.log.Warn("an adopted container's network could not be set", "container", p.id, "error", err)
	}
}
