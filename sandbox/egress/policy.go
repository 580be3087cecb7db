package egress

import (
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// codeRejected is the wire's code for an environment that may not be had.
const codeRejected = "shell_environment_rejected"

// The types of a policy on the wire.
const (
	TypeDisabled  = "disabled"
	TypeAllowlist = "allowlist"
)

// A Policy says what may be reached. The zero Policy lets nothing through.
type Policy struct{ rules []Rule }

// ParsePolicy reads what a request asks for: "disabled" without domains, or "allowlist" with at least one. An entry
// "bundle:NAME" stands for that bundle's hosts.
func ParsePolicy(kind string, domains []string, bundles Bundles) (Policy, error) {
	switch kind {
	case TypeDisabled:
		if len(domains) > 0 {
			return Policy{}, rejected("a disabled network policy has no allowed domains").WithTry(`the type "allowlist"`)
		}
		return Policy{}, nil
	case TypeAllowlist:
		if len(domains) == 0 {
			return Policy{}, rejected("an allowlist needs at least one domain").WithTry(`the type "disabled" for no network`)
		}
		rules, err := bundles.parse(domains)
		if err != nil {
			return Policy{}, reject(err)
		}
		return Policy{rules}, nil
	}
	return Policy{}, rejected("%q is not a type of network policy", kind).WithTry(`"disabled" or "allowlist"`)
}

// Disabled says whether nothing may be reached.
func (p Policy) Disabled() bool { return len(p.rules) == 0 }

// Domains returns the entries, bundles written out.
func (p Policy) Domains() []string {
	var all []string
	for _, r := range p.rules {
		all = append(all, r.String())
	}
	return all
}

// Covers says whether all that q lets through is let through by p.
func (p Policy) Covers(q Policy) bool {
	return !slices.ContainsFunc(q.rules, func(r Rule) bool { return !p.coversRule(r) })
}

// And is what both let through. Of two entries that overlap, and of which neither covers the other, it has nothing.
func (p Policy) And(q Policy) Policy {
	var both []Rule
	for _, r := range p.rules {
		if q.coversRule(r) {
			both = append(both, r)
		}
	}
	for _, r := range q.rules {
		if p.coversRule(r) {
			both = append(both, r)
		}
	}
	return Policy{both}
}

func (p Policy) coversRule(r Rule) bool {
	return slices.ContainsFunc(p.rules, func(mine Rule) bool { return mine.covers(r) })
}

// pass says how a destination may be reached. A rule that inspects wins over one that does not.
func (p Policy) pass(d dest) (ok, raw bool) {
	for _, r := range p.rules {
		if r.matches(d) {
			if !r.raw {
				return true, false
			}
			ok, raw = true, true
		}
	}
	return ok, raw
}

// A Ceiling is the most that an operator lets any request open. The zero Ceiling lets nothing be opened.
type Ceiling struct {
	key       string
	policy    Policy
	unlimited bool
}

// ParseCeiling reads an operator's list. An empty one opens nothing; the single entry "*" is no ceiling: any host, any
// port, any bytes. Key is the setting's name, for the texts that tell people what to change.
func ParseCeiling(key string, entries []string, bundles Bundles) (Ceiling, error) {
	c := Ceiling{key: key, unlimited: slices.Equal(entries, []string{"*"})}
	rules, err := bundles.parse(entries)
	if err != nil {
		return Ceiling{}, err
	}
	c.policy.rules = rules
	return c, nil
}

// Check refuses a policy that asks for more than the ceiling. It names the entry and the operator's key.
func (c Ceiling) Check(p Policy) error {
	if c.unlimited {
		return nil
	}
	for _, r := range p.rules {
		if c.policy.coversRule(r) {
			continue
		}
		key := c.key
		if key == "" {
			key = "the operator's list of allowed hosts"
		}
		if c.policy.Disabled() {
			return rejected("%q may not be opened: this server opens no network to commands", r).
				WithTry("ask the operator to add %q to %s", r, key)
		}
		return rejected("%q may not be opened: the operator's list does not hold it", r).
			WithTry("only hosts of the operator's list, or ask the operator to add %q to %s", r, key)
	}
	return nil
}

// holds says whether the ceiling would let a destination be opened.
func (c Ceiling) holds(d dest) bool {
	ok, _ := c.policy.pass(d)
	return ok || c.unlimited
}

func rejected(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).WithCode(codeRejected).WithParam("network_policy")
}

// reject gives a parser's error the code and the field of a policy.
func reject(err error) error {
	if e, ok := fault.As(err); ok {
		return e.WithCode(codeRejected).WithParam("network_policy.allowed_domains")
	}
	return err
}

// quoted joins names for a text.
func quoted(prefix string, names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = `"` + prefix + n + `"`
	}
	return strings.Join(out, " or ")
}
