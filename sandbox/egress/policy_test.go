package egress

import (
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

func TestRules(t *testing.T) {
	for _, c := range []struct {
		entry string
		yes   []string
		no    []string
	}{
		{"Example.test.", []string{"example.test:443", "example.test:80"},
			[]string{"example.test:22", "www.example.test:443", "evilexample.test:443", "example.test.evil.test:443", "xample.test:443"}}, // S44
		{"*.example.test", []string{"a.example.test:443", "a.b.example.test:80"},
			[]string{"example.test:443", "evilexample.test:443", "a.example.test.evil.test:443", "a.example.test:8443"}},
		{"*", []string{"a.test:443", "b.test:80"}, []string{"a.test:22"}},
		{"a.test:8443", []string{"a.test:8443"}, []string{"a.test:443", "a.test:80"}},
		{"a.test:22,8443", []string{"a.test:22", "a.test:8443"}, []string{"a.test:443"}},
		{"a.test:*", []string{"a.test:1", "a.test:65535"}, []string{"b.test:1"}},
		{"tcp://db.test:5432", []string{"db.test:5432"}, []string{"db.test:443"}},
	} {
		r, err := ParseRule(c.entry)
		if err != nil {
			t.Errorf("%s: %v", c.entry, err)
			continue
		}
		for _, list := range []struct {
			dests []string
			want  bool
		}{{c.yes, true}, {c.no, false}} {
			for _, s := range list.dests {
				if d, err := parseDest(s, 0); err != nil || r.matches(d) != list.want {
					t.Errorf("%s matches %s = %v", c.entry, s, !list.want)
				}
			}
		}
		if again, err := ParseRule(r.String()); err != nil || again.String() != r.String() {
			t.Errorf("%s is written %s, which reads as %v, %v", c.entry, r, again, err)
		}
	}
	for _, bad := range []string{"", "*.", "*.*", "a.*.test", "*a.test", "**", "http://a.test", "a.test/path", "a.test:", "a.test:0", "a.test:70000", "a.test:1-9",
		"a.test:80,", "127.0.0.1", "10.0.0.0/8", "[::1]", "::1", "tcp://a.test", "udp://a.test:53", "a.test b.test", "bücher.test", "a.test:*,80"} {
		if r, err := ParseRule(bad); err == nil {
			t.Errorf("%q is the rule %v", bad, r)
		}
	}
}

func TestCeiling(t *testing.T) {
	bundles, err := ParseBundles(map[string][]string{"npm": {"npm.test"}, "go": {}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ceiling, ask string
		ok           bool
	}{
		{"", "a.test", false},
		{"", "", true},
		{"*", "a.test", true},
		{"*", "*", true},
		{"*", "tcp://a.test:22", true},
		{"*", "a.test:*", true},
		{"* other.test", "a.test", true},
		{"* other.test", "a.test:8443", false},
		{"a.test", "a.test", true},
		{"a.test", "A.TEST.", true},
		{"a.test", "a.test:443", true},
		{"a.test", "a.test:8443", false},
		{"a.test", "*", false},
		{"a.test", "*.a.test", false},
		{"a.test", "a.test b.test", false},
		{"a.test b.test", "b.test", true},
		{"*.a.test", "x.a.test", true},
		{"*.a.test", "x.y.a.test", true},
		{"*.a.test", "*.y.a.test", true},
		{"*.a.test", "*.a.test", true},
		{"*.a.test", "a.test", false},
		{"*.a.test", "eva.test", false},
		{"*.y.a.test", "*.a.test", false},
		{"a.test:*", "a.test:8443", true},
		{"a.test:*", "tcp://a.test:22", false},
		{"tcp://a.test:22", "a.test:22", true},
		{"bundle:npm", "npm.test", true},
		{"npm.test", "bundle:npm", true},
		{"a.test", "bundle:npm", false},
	} {
		ceiling, err := ParseCeiling("limits.allowed_egress_hosts", strings.Fields(c.ceiling), bundles)
		if err != nil {
			t.Fatalf("%q: %v", c.ceiling, err)
		}
		rules, err := bundles.parse(strings.Fields(c.ask))
		if err != nil {
			t.Fatalf("%q: %v", c.ask, err)
		}
		err = ceiling.Check(Policy{rules})
		if (err == nil) != c.ok {
			t.Errorf("%q under %q: %v", c.ask, c.ceiling, err)
		}
		if err == nil {
			continue
		}
		e, _ := fault.As(err)
		if e.Kind != fault.Invalid || e.Code != "shell_environment_rejected" || !strings.Contains(e.Try, "limits.allowed_egress_hosts") {
			t.Errorf("%q under %q: %+v", c.ask, c.ceiling, e)
		}
	}
}

func TestPolicies(t *testing.T) {
	bundles, _ := ParseBundles(map[string][]string{"npm": {"npm.test", "*.npm.test"}, "cargo": {}})
	for _, c := range []struct {
		kind    string
		domains []string
		want    []string
		ok      bool
	}{
		{"disabled", nil, nil, true},
		{"disabled", []string{"a.test"}, nil, false},
		{"allowlist", []string{"a.test", "bundle:npm"}, []string{"a.test", "npm.test", "*.npm.test"}, true},
		{"allowlist", nil, nil, false},
		{"allowlist", []string{"bundle:cargo"}, nil, false},
		{"allowlist", []string{"bundle:"}, nil, false},
		{"allowlist", []string{"10.0.0.1"}, nil, false},
		{"", []string{"a.test"}, nil, false},
		{"Allowlist", []string{"a.test"}, nil, false},
		{"full", nil, nil, false},
	} {
		p, err := ParsePolicy(c.kind, c.domains, bundles)
		if (err == nil) != c.ok || !slices.Equal(p.Domains(), c.want) {
			t.Errorf("%s %q = %q, %v", c.kind, c.domains, p.Domains(), err)
		}
		if e, _ := fault.As(err); err != nil && (e.Kind != fault.Invalid || e.Code != codeRejected || e.Param == "") {
			t.Errorf("%s %q: %+v", c.kind, c.domains, e)
		}
	}
	var zero Policy
	if ok, _ := zero.pass(dest{"a.test", 443}); ok || !zero.Disabled() {
		t.Error("the zero policy lets something through")
	}
	if (Ceiling{}).holds(dest{"a.test", 443}) {
		t.Error("the zero ceiling lets something through")
	}
}

func TestARuleThatInspectsWins(t *testing.T) {
	rules, _ := ParseRules([]string{"tcp://a.test:443", "*"})
	if ok, raw := (Policy{rules}).pass(dest{"a.test", 443}); !ok || raw {
		t.Errorf("pass = %v, raw %v", ok, raw)
	}
}

// R9: each package tool has a bundle without a configuration. It opens whole hosts on the ports of the web, none of the
// hosts is open without it, and one of an operator's replaces it.
func TestBuiltInBundles(t *testing.T) {
	b, err := ParseBundles(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(BundleNames(), " "); got != "apt cargo go npm pip" {
		t.Errorf("bundles %s", got)
	}
	own, err := ParseBundles(map[string][]string{"npm": {"npm.test"}, "pip": {}, "mine": {"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range BundleNames() {
		p, err := ParsePolicy(TypeAllowlist, []string{"bundle:" + name}, b)
		if err != nil || p.Disabled() {
			t.Fatalf("%s: %v, %v", name, p, err)
		}
		for _, r := range p.rules {
			if r.raw || r.any || r.host == "" || !slices.Equal(r.ports, webPorts) {
				t.Errorf("%s opens %s", name, r)
			}
			d := dest{strings.TrimPrefix(r.host, "."), 443}
			if r.host[0] == '.' {
				d.host = "x" + r.host
			}
			if got := b.offering(d); len(got) != 1 || got[0] != name {
				t.Errorf("%v is offered by %q", d, got)
			}
			if ok, _ := (Policy{}).pass(d); ok || (Ceiling{}).holds(d) {
				t.Errorf("%v is open without a bundle", d)
			}
		}
		mine, err := ParsePolicy(TypeAllowlist, []string{"bundle:" + name}, own)
		switch {
		case name == "pip":
			if err == nil {
				t.Error("a row without hosts leaves the built-in ones")
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case name == "npm":
			if got := mine.Domains(); !slices.Equal(got, []string{"npm.test"}) {
				t.Errorf("an operator's mirror is joined by %q", got)
			}
		default:
			if !slices.Equal(mine.Domains(), p.Domains()) {
				t.Errorf("%s: %q", name, mine.Domains())
			}
		}
	}
	if _, err := ParseBundles(map[string][]string{"Bad Name": {"a.test"}}); err == nil {
		t.Error("a bundle with a bad name")
	}
	if _, err := ParseBundles(map[string][]string{"npm": {"::1"}}); err == nil {
		t.Error("a bundle with an address")
	}
}

// A rule is written as it is read, and what a rule covers it lets through.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"a.test", "*.a.test", "*", "a.test:8443", "*.a.test:80,443", "tcp://a.test:22", "a.test:*", "A.Test.", "127.0.0.1", "*.*"} {
		f.Add(s, "x."+s, "b.a.test:443")
	}
	f.Fuzz(func(t *testing.T, one, two, target string) {
		a, err := ParseRule(one)
		if err != nil {
			return
		}
		if again, err := ParseRule(a.String()); err != nil || again.String() != a.String() || !a.covers(again) || !again.covers(a) {
			t.Fatalf("%q is written %q, which reads as %v, %v", one, a, again, err)
		}
		b, err := ParseRule(two)
		if err != nil {
			return
		}
		d, err := parseDest(target, 0)
		if err != nil {
			return
		}
		if a.covers(b) && b.matches(d) && !a.matches(d) {
			t.Fatalf("%v covers %v, which lets %v through, and does not itself", a, b, d)
		}
		if a.matches(d) && b.matches(d) && !a.overlaps(b) {
			t.Fatalf("%v and %v both let %v through and do not overlap", a, b, d)
		}
	})
}
