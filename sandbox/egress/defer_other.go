//go:build !linux

package egress

import "net"

// deferAccept is for Linux.
func deferAccept(net.Listener) {}
