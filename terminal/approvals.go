package terminal

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// GrantStore keeps what was approved for longer than a session. [approval.Book] is one, in a file.
type GrantStore interface {
	Grants() (approval.Grants, error)
	Add(g approval.Grant) error
}

// How long approvals hold at most.
const (
	sessionGrant = 24 * time.Hour
	alwaysGrant  = 30 * 24 * time.Hour
)

// approvals is what was approved: for the session in memory, for always in the store.
type approvals struct {
	now   func() time.Time
	store GrantStore // nil keeps nothing beyond the session

	mu     sync.Mutex
	grants approval.Grants
	serial int
}

// all are the grants that may answer now. A store that cannot be read grants nothing.
func (a *approvals) all() approval.Grants {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.grants)
	if a.store != nil {
		if kept, err := a.store.Grants(); err == nil {
			all = append(all, kept...)
		}
	}
	return all
}

// covers says whether every key was approved for the session. Nothing covers no keys.
func (a *approvals) covers(keys []ApprovalKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for _, key := range keys {
		if !slices.ContainsFunc(a.grants, func(g approval.Grant) bool { return g.Digest == approval.Digest(key) && g.Holds(now) }) {
			return false
		}
	}
	return len(keys) > 0
}

// add approves keys for the session.
func (a *approvals) add(keys []ApprovalKey, outside bool, by string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range keys {
		a.grants = append(a.grants, a.grant(approval.Grant{Scope: approval.Session, Digest: approval.Digest(key), Outside: outside, By: by}, sessionGrant))
	}
}

// always saves the rules that were shown, for a while.
func (a *approvals) always(rules []approval.Rule, by string) error {
	a.mu.Lock()
	g := a.grant(approval.Grant{Scope: approval.Always, Rules: rules, By: by}, alwaysGrant)
	if a.store == nil {
		a.grants = append(a.grants, g)
	}
	a.mu.Unlock()
	if a.store == nil {
		return nil
	}
	return a.store.Add(g)
}

func (a *approvals) grant(g approval.Grant, life time.Duration) approval.Grant {
	a.serial++
	g.Issued = a.now()
	g.Expires = g.Issued.Add(life)
	g.ID = "grant_" + strconv.FormatInt(g.Issued.UnixNano(), 36) + "_" + strconv.Itoa(a.serial)
	return g
}

// revoke ends an approval of the session.
func (a *approvals) revoke(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	had := slices.ContainsFunc(a.grants, func(g approval.Grant) bool { return g.ID == id && g.Ended.IsZero() })
	a.grants = a.grants.End(id, a.now())
	return had
}
