package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// allowPrefix begins the --network that names hosts.
const allowPrefix = "allow:"

// network reads --network. Hosts are entries of an allowlist.
func (c runCommand) network() (n sandbox.Network, hosts []string, err error) {
	list, ok := strings.CutPrefix(c.Network, allowPrefix)
	switch {
	case ok:
		if hosts = splitHosts(list); len(hosts) == 0 {
			return 0, nil, usageError{fault.New(fault.Invalid, "--network allow: names no host").WithTry("--network allow:example.com,*.example.org")}
		}
		return sandbox.NetworkProxied, hosts, nil
	case c.Network == sandbox.NetworkOff.String():
		return sandbox.NetworkOff, nil, nil
	case c.Network == sandbox.NetworkFull.String():
		return sandbox.NetworkFull, nil, nil
	}
	return 0, nil, usageError{fault.New(fault.Invalid, "--network must be off, full or allow:HOST,…, not %q", c.Network).
		WithTry("--network allow:example.com,*.example.org")}
}

// splitHosts parts a list at its commas. A piece of digits is a further port of the entry before it.
func splitHosts(list string) []string {
	var hosts []string
	for piece := range strings.SplitSeq(list, ",") {
		switch piece = strings.TrimSpace(piece); {
		case piece == "":
		case len(hosts) > 0 && strings.Trim(piece, "0123456789") == "":
			hosts[len(hosts)-1] += "," + piece
		default:
			hosts = append(hosts, piece)
		}
	}
	return hosts
}

// proxy makes the one way out of a run whose network names hosts. Bundles and ranges are those of the configuration;
// its ceiling is for requests of others and not for whoever sits at this machine.
func (c runCommand) proxy(p *program, hosts []string) (*egress.Proxy, error) {
	loaded, err := p.load(globals{})
	if err != nil {
		return nil, err
	}
	limits, key, err := loaded.Config.Features.ServerTools.ShellLimits.Outgoing()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	policy, err := egress.ParsePolicy(egress.TypeAllowlist, hosts, limits.Bundles)
	if err != nil {
		return nil, usageError{err}
	}
	ceiling, err := egress.ParseCeiling("", []string{"*"}, egress.Bundles{})
	if err != nil {
		return nil, err
	}
	return egress.New(egress.Options{Policy: policy, Ceiling: ceiling, Bundles: limits.Bundles, Pinned: limits.Pinned, Key: "--network " + c.Network})
}

// out joins a box to the network: it returns the variables of its commands, with those that lead to the proxy.
func out(ctx context.Context, box *sandbox.Box, proxy *egress.Proxy, environ []string) ([]string, error) {
	address, err := proxy.Join(ctx, box)
	if err != nil {
		return nil, err
	}
	own := egress.Environment{Proxy: address, Placeholders: proxy.Placeholders()}.Variables()
	names := map[string]bool{}
	for _, line := range own {
		name, _, _ := strings.Cut(line, "=")
		names[name] = true
	}
	kept := slices.DeleteFunc(slices.Clone(environ), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return names[name]
	})
	return append(kept, own...), nil
}

// blocked says what the proxy kept a command from, in a line each.
func blocked(proxy *egress.Proxy) []string {
	var lines []string
	for _, d := range proxy.Denied(time.Time{}) {
		lines = append(lines, d.String())
	}
	return lines
}
