package approval

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

// Origin says who wrote a rule.
type Origin int

// The origins. A workspace's rules may only tighten.
const (
	User Origin = iota
	Workspace
	Granted
)

// Rule decides commands by the beginning of their words. Ask and forbid rules also match behind wrappers, global
// options and paths; an allow rule covers only what its words say, and never an option that runs a program or writes a
// file unless it names it.
type Rule struct {
	Prefix  [][]string // one list of alternatives for each word
	Exact   bool       // the command ends where the prefix does
	Verdict Verdict
	Why     string
	Match   []string // scripts that it must match, checked at load
	Not     []string // scripts that it must not
	Origin  Origin
	File    string
	Line    int
	Expires time.Time // zero = never
}

// String returns the rule as a person should read it before it is saved.
func (r Rule) String() string {
	var b strings.Builder
	b.WriteString(r.Verdict.String())
	if r.Exact {
		b.WriteString(" exactly")
	}
	for _, alternatives := range r.Prefix {
		quoted := make([]string, len(alternatives))
		for i, a := range alternatives {
			quoted[i] = fmt.Sprintf("%q", a)
		}
		b.WriteString(" " + strings.Join(quoted, "|"))
	}
	if !r.Exact {
		b.WriteString(" …")
	}
	return b.String()
}

// mustBeExact reports whether any spelling of the rule is one that only an exact rule may allow.
func (r Rule) mustBeExact() bool {
	for _, program := range r.Prefix[0] {
		if len(r.Prefix) == 1 {
			if command.ExactOnly([]string{program}) != "" {
				return true
			}
			continue
		}
		for _, verb := range r.Prefix[1] {
			prefix := []string{program, verb}
			for _, more := range r.Prefix[2:] {
				prefix = append(prefix, more[0])
			}
			if command.ExactOnly(prefix) != "" {
				return true
			}
		}
	}
	return false
}

// check validates a rule by itself.
func (r Rule) check() error {
	if len(r.Prefix) == 0 {
		return fault.New(fault.Invalid, "A rule needs a prefix.")
	}
	for i, alternatives := range r.Prefix {
		if len(alternatives) == 0 || slices.Contains(alternatives, "") && i == 0 {
			return fault.New(fault.Invalid, "Word %d of the rule's prefix is empty.", i+1)
		}
	}
	if r.Verdict == Allowed && r.Origin == Workspace {
		return fault.New(fault.Forbidden, "A workspace's rule may only ask or forbid.").WithTry("move the rule to your own configuration")
	}
	return nil
}

// live reports whether a rule still counts. One that asks or forbids counts when there is no clock; one that allows does not.
func (r Rule) live(now time.Time) bool {
	if r.Expires.IsZero() {
		return true
	}
	if now.IsZero() {
		return r.Verdict != Allowed
	}
	return now.Before(r.Expires)
}

// covers reports whether an allow rule vouches for a part.
func (r Rule) covers(p *command.Part) bool {
	if r.Verdict != Allowed || p.Doubtful || p.Opaque != "" || len(p.Words) < len(r.Prefix) || r.Exact && len(p.Words) != len(r.Prefix) {
		return false
	}
	if p.Kind != command.Simple && !(p.Kind == command.Declaration && r.Exact) {
		return false
	}
	for i, alternatives := range r.Prefix {
		word := p.Words[i]
		if word.Form != command.Literal {
			return false
		}
		value := word.Value
		if i == 0 && p.Trusted() && !slices.Contains(alternatives, value) {
			value = path.Base(value)
		}
		if !slices.Contains(alternatives, value) {
			return false
		}
	}
	for _, redirect := range p.Redirects {
		if !redirect.Safe {
			return false
		}
	}
	if len(p.Assigns) > 0 && !r.Exact {
		for _, a := range p.Assigns {
			if a.Value.Form != command.Literal || !a.Plain || !command.HarmlessVariable(a.Name, a.Value.Value) {
				return false
			}
		}
	} else if len(p.Assigns) > 0 {
		return false // the words are not all of it
	}
	for _, f := range p.Findings {
		if f.Hard && f.Word >= len(r.Prefix) || f.Hard && f.Word < 0 && !r.Exact {
			return false
		}
	}
	return true
}

// match says how sure it is that an ask or forbid rule is meant.
type match int

const (
	no match = iota
	maybe
	yes
)

// meets reports whether an ask or forbid rule is meant by a part. leaf is true for a part that nothing was unwrapped
// from: then a wrapper's own words are searched.
func (r Rule) meets(p *command.Part, leaf bool) match {
	if p.Kind == command.Broken {
		if r.among(strings.Fields(strings.NewReplacer(";", " ", "&", " ", "|", " ", "(", " ", ")", " ").Replace(p.Text))) {
			return yes
		}
		return maybe
	}
	if p.Opaque != "" && len(p.Words) > 0 && p.Words[0].Form != command.Literal {
		return maybe
	}
	if len(p.Words) == 0 {
		return no
	}
	words, known := p.Verb()
	best := r.along(words, r.Prefix)
	if best == no && !known && slices.Contains(r.Prefix[0], p.Name()) {
		best = maybe
	}
	if best == no && p.Words[0].Form == command.Literal && slices.Contains(r.Prefix[0], p.Words[0].Value) { // a rule may name a path
		best = r.along(p.Words, r.Prefix)
	}
	if best != yes && p.Wrapper && leaf {
		var fields []string
		for _, w := range p.Words[1:] {
			fields = append(fields, strings.Fields(w.Prefix)...)
		}
		if r.among(fields) {
			return yes
		}
	}
	if best == no && p.Opaque != "" {
		return maybe
	}
	return best
}

// along matches the prefix against words, stepping over options and their values between the words that it names.
func (r Rule) along(words []command.Word, prefix [][]string) match {
	// at[n] is how sure it is that the first n words of the prefix were met and the next word is read now;
	// after[n] the same for the word after it.
	at, after := make([]match, len(prefix)+1), make([]match, len(prefix)+1)
	at[0] = yes
	best := no
	for _, w := range words {
		if !r.Exact {
			best = max(best, at[len(prefix)])
		}
		next, further := after, make([]match, len(prefix)+1)
		for n, sure := range at[:len(prefix)] {
			switch {
			case sure == no:
			case w.Form == command.Literal && slices.Contains(prefix[n], w.Value):
				next[n+1] = max(next[n+1], sure)
			case w.Form != command.Literal && slices.ContainsFunc(prefix[n], func(s string) bool { return strings.HasPrefix(s, w.Prefix) }):
				next[n+1] = max(next[n+1], maybe)
			}
			if sure != no && n > 0 && !r.Exact && strings.HasPrefix(w.Prefix, "-") {
				next[n] = max(next[n], sure)
				if !strings.Contains(w.Prefix, "=") {
					further[n] = max(further[n], sure)
				}
			}
		}
		at, after = next, further
	}
	return max(best, at[len(prefix)])
}

// among finds the prefix anywhere in a list of words.
func (r Rule) among(words []string) bool {
	for i := range words {
		n := 0
		for n < len(r.Prefix) && i+n < len(words) {
			word := strings.Trim(words[i+n], `'"`+"`")
			if n == 0 {
				word = path.Base(word)
			}
			if !slices.Contains(r.Prefix[n], word) {
				break
			}
			n++
		}
		if n == len(r.Prefix) {
			return true
		}
	}
	return false
}
