package approval

import (
	"slices"
	"time"
)

// Scope says how long an approval holds.
type Scope int

// The scopes.
const (
	Once    Scope = iota // for one run of exactly this call
	Session              // for exactly this call until the session ends
	Always               // rules, saved
)

// String returns the scope in one word.
func (s Scope) String() string { return [...]string{"once", "session", "always"}[s] }

// Grant is a person's approval. It is a value: spending and revoking make another one.
type Grant struct {
	ID      string
	Scope   Scope
	Digest  Digest // what was approved; for Once and Session
	Rules   []Rule // what was approved; for Always
	Outside bool   // it was approved to run outside the sandbox
	By      string
	Issued  time.Time
	Expires time.Time // never zero: a grant without an end counts for nothing
	Ended   time.Time // when it was spent or revoked; zero = it holds
}

// Holds reports whether the grant counts at a time. Without a clock nothing does.
func (g Grant) Holds(now time.Time) bool {
	return !now.IsZero() && g.Ended.IsZero() && !g.Expires.IsZero() && now.Before(g.Expires)
}

// Grants is a set of grants. Its methods return new sets.
type Grants []Grant

// With adds a grant.
func (gs Grants) With(g Grant) Grants { return append(slices.Clone(gs), g) }

// End spends or revokes a grant.
func (gs Grants) End(id string, at time.Time) Grants {
	out := slices.Clone(gs)
	for i := range out {
		if out[i].ID == id && out[i].Ended.IsZero() {
			out[i].Ended = at
		}
	}
	return out
}

// find returns the grant that answers for a digest.
func (gs Grants) find(d Digest, now time.Time) (Grant, bool) {
	for _, g := range gs {
		if g.Scope != Always && g.Digest == d && g.Holds(now) {
			return g, true
		}
	}
	return Grant{}, false
}

// rules returns the rules of the grants that hold. A grant only ever allows, and only as rules that were checked.
func (gs Grants) rules(now time.Time) (out []Rule) {
	for _, g := range gs {
		if g.Scope != Always || !g.Holds(now) {
			continue
		}
		for _, r := range g.Rules {
			if r.Verdict == Allowed && r.check() == nil {
				r.Exact = r.Exact || r.mustBeExact()
				out = append(out, r)
			}
		}
	}
	return out
}
