package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// A Resolver looks names up. [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// maxTries bounds the addresses of one name that are tried.
const maxTries = 4

// dialer reaches names. It never gives a name to the system's dialer: that would look it up a second time, and the
// second answer nobody has checked.
type dialer struct {
	resolver Resolver
	pinned   []netip.Prefix
	own      func(netip.Addr) bool // this machine's addresses
	timeout  time.Duration
	dial     func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
}

func dialTCP(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1} // an idle time of our own ends it
	return d.DialContext(ctx, "tcp", addr.String())
}

// to resolves, checks every answer and dials one that was checked. One refused answer refuses the name: a name that
// mixes public and private answers is not one to try our luck with.
func (d *dialer) to(ctx context.Context, where dest) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	// The root's dot keeps the resolver from trying the name under the host's search domains.
	addrs, err := d.resolver.LookupNetIP(ctx, "ip", where.host+".")
	if err != nil && !strings.Contains(where.host, ".") {
		// A name of one label, such as a neighbour's in a hosts file, is found there without the dot only.
		addrs, err = d.resolver.LookupNetIP(ctx, "ip", where.host)
	}
	if err == nil && len(addrs) == 0 {
		err = errors.New("the name has no address")
	}
	if err != nil {
		return nil, &refusal{reason: Unresolved, text: fmt.Sprintf("%s cannot be resolved", where.host), cause: err}
	}
	for _, addr := range addrs {
		why := addressDenied(addr, d.pinned)
		if why == "" && d.own(addr) && !pinnedAddress(addr, d.pinned) {
			why = "this host"
		}
		if why != "" {
			return nil, &refusal{reason: PrivateAddress, try: "a public host; an operator can pin a range of addresses",
				text: fmt.Sprintf("%s leads to an address that may not be reached (%s)", where.host, why)}
		}
	}
	addrs = addrs[:min(len(addrs), maxTries)]
	for i, addr := range addrs {
		var conn net.Conn
		if conn, err = d.try(ctx, netip.AddrPortFrom(addr.Unmap(), where.port), len(addrs)-i); err == nil {
			return conn, nil
		}
	}
	return nil, &refusal{reason: Unreachable, text: fmt.Sprintf("%s cannot be reached", where), cause: err}
}

// try dials one address, with an equal share of the time that is left.
func (d *dialer) try(ctx context.Context, addr netip.AddrPort, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	return d.dial(ctx, addr)
}
