package egress

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ownFor is how long a list of this machine's addresses is believed.
const ownFor = 5 * time.Second

// ownAddresses knows the addresses of this machine. A public one among them is as private as loopback: it leads to
// servers that a firewall keeps others from.
type ownAddresses struct {
	mu    sync.Mutex
	read  time.Time
	addrs []netip.Addr
	err   error
}

// hold says whether an address is this machine's. When that can't be known it may be.
func (o *ownAddresses) hold(addr netip.Addr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.read.IsZero() || time.Since(o.read) > ownFor {
		o.read = time.Now()
		var all []net.Addr
		all, o.err = net.InterfaceAddrs()
		o.addrs = o.addrs[:0]
		for _, a := range all {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					o.addrs = append(o.addrs, ip.Unmap())
				}
			}
		}
	}
	return o.err != nil || slices.Contains(o.addrs, addr.Unmap())
}
