package egress

import (
	"maps"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// bundlePrefix marks an entry of an allowlist that stands for a bundle's hosts.
const bundlePrefix = "bundle:"

// BundleNames returns the bundles that are built in, one for each package tool we set variables for.
func BundleNames() []string { return slices.Sorted(maps.Keys(registries)) }

// Bundles are named lists of hosts, so that a person allows "bundle:npm" and need not know a registry's hosts. The zero
// value has none; [ParseBundles] begins with those of the package tools.
type Bundles struct {
	names []string
	rules map[string][]Rule
}

// ParseBundles reads the operator's table of names and entries. A row replaces the built-in one of its name; without
// entries there is no such bundle.
func ParseBundles(table map[string][]string) (Bundles, error) {
	b := Bundles{rules: map[string][]Rule{}}
	all := maps.Clone(registries)
	maps.Copy(all, table)
	for name, entries := range all {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return Bundles{}, fault.New(fault.Invalid, "%q is not a bundle's name: lower-case letters, digits, - and _", name)
		}
		rules, err := ParseRules(entries)
		if err != nil {
			return Bundles{}, err
		}
		if len(rules) > 0 {
			b.names, b.rules[name] = append(b.names, name), rules
		}
	}
	slices.Sort(b.names)
	return b, nil
}

// parse reads a list whose entries may be bundles.
func (b Bundles) parse(entries []string) ([]Rule, error) {
	var rules []Rule
	for _, e := range entries {
		name, ok := strings.CutPrefix(e, bundlePrefix)
		if !ok {
			r, err := ParseRule(e)
			if err != nil {
				return nil, err
			}
			rules = append(rules, r)
			continue
		}
		hosts := b.rules[name]
		if len(hosts) == 0 {
			err := fault.New(fault.Invalid, "the bundle %q has no hosts here", name)
			if len(b.names) > 0 {
				return nil, err.WithTry("one of %s, or name the hosts themselves", strings.Join(b.names, ", "))
			}
			return nil, err.WithTry("name the hosts themselves")
		}
		rules = append(rules, hosts...)
	}
	return rules, nil
}

// offering returns the bundles that would let a destination through.
func (b Bundles) offering(d dest) []string {
	var names []string
	for _, name := range b.names {
		if slices.ContainsFunc(b.rules[name], func(r Rule) bool { return r.matches(d) }) {
			names = append(names, name)
		}
	}
	return names
}
