package egress

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// maxPorts bounds the ports of one rule; a list longer than this is a wish for any port.
const maxPorts = 64

// webPorts are what a rule without a port means.
var webPorts = []uint16{80, 443}

// A Rule is one entry of an allowlist: "example.test" is that host, "*.example.test" every name below it and not
// itself, "*" any host. Each means ports 80 and 443; ":8443", ":80,8080" or ":*" after it says others. Within a rule
// only TLS for that very name, and HTTP, may pass. "tcp://db.example.test:5432" lets any bytes pass and must name
// its ports.
type Rule struct {
	host  string   // "a.b", or ".b" for *.b, or "" for *
	ports []uint16 // sorted; none means any
	any   bool     // any port
	raw   bool     // any bytes
}

// ParseRule reads one entry.
func ParseRule(entry string) (Rule, error) {
	var r Rule
	text := entry
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		if scheme != "tcp" {
			return Rule{}, ruleFault(entry, "write a host, without a scheme or a path; tcp:// is the only prefix")
		}
		text, r.raw = rest, true
	}
	host, ports, found := strings.Cut(text, ":")
	switch {
	case strings.ContainsAny(host, "[]") || strings.Contains(ports, ":"):
		return Rule{}, ruleFault(entry, "an address is not a name; an operator pins ranges with a key of its own")
	case !found && r.raw:
		return Rule{}, ruleFault(entry, "tcp:// must name its ports")
	case !found:
		r.ports = webPorts
	case ports == "*":
		r.any = true
	default:
		for p := range strings.SplitSeq(ports, ",") {
			n, ok := port(p)
			if !ok || len(r.ports) == maxPorts {
				return Rule{}, ruleFault(entry, "a port is a number from 1 to 65535, several are parted by commas, * is any")
			}
			r.ports = append(r.ports, n)
		}
		slices.Sort(r.ports)
		r.ports = slices.Compact(r.ports)
	}
	if host == "*" {
		return r, nil
	}
	suffix, wild := strings.CutPrefix(host, "*.")
	name, err := Name(suffix)
	if err != nil {
		return Rule{}, err
	}
	if r.host = name; wild {
		r.host = "." + name
	}
	return r, nil
}

// ParseRules reads a list of entries.
func ParseRules(entries []string) ([]Rule, error) {
	rules := make([]Rule, 0, len(entries))
	for _, e := range entries {
		r, err := ParseRule(e)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// String returns the entry in its shortest form.
func (r Rule) String() string {
	host := r.host
	switch {
	case host == "":
		host = "*"
	case host[0] == '.':
		host = "*" + host
	}
	if r.raw {
		host = "tcp://" + host
	}
	if r.any {
		return host + ":*"
	}
	if !r.raw && slices.Equal(r.ports, webPorts) {
		return host
	}
	for i, p := range r.ports {
		host += string(":,"[min(i, 1)]) + strconv.Itoa(int(p))
	}
	return host
}

// names says whether the rule speaks of a host. It compares whole labels.
func (r Rule) names(host string) bool {
	if r.host == "" {
		return true
	}
	if r.host[0] == '.' {
		return len(host) > len(r.host) && strings.HasSuffix(host, r.host)
	}
	return host == r.host
}

func (r Rule) matches(d dest) bool {
	return r.names(d.host) && (r.any || slices.Contains(r.ports, d.port))
}

// covers says whether all that other lets through is let through by r.
func (r Rule) covers(other Rule) bool {
	if other.raw && !r.raw {
		return false
	}
	if !r.any {
		if other.any {
			return false
		}
		for _, p := range other.ports {
			if !slices.Contains(r.ports, p) {
				return false
			}
		}
	}
	switch {
	case r.host == "":
		return true
	case other.host == "":
		return false
	case r.host == other.host:
		return true
	}
	return r.host[0] == '.' && strings.HasSuffix(other.host, r.host)
}

// overlaps says whether some host is named by both, ports aside.
func (r Rule) overlaps(other Rule) bool {
	a, b := Rule{host: r.host, any: true}, Rule{host: other.host, any: true}
	return a.covers(b) || b.covers(a)
}

func ruleFault(entry, why string) error {
	return fault.New(fault.Invalid, "%s is not an entry of an allowlist: %s", strconv.QuoteToASCII(entry), why).
		WithTry(`"example.test", "*.example.test", "example.test:8443" or "*"`)
}
