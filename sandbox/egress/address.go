package egress

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

type denied struct {
	prefix string
	why    string
}

// deniedRanges are the addresses that no name may lead to unless the operator pins a range. The first that holds an
// address names the reason.
var deniedRanges = []denied{
	{"169.254.169.254/32", "a cloud's metadata service"},
	{"100.100.100.200/32", "a cloud's metadata service"},
	{"168.63.129.16/32", "a cloud's wire server"},
	{"192.0.0.192/32", "a cloud's metadata service"},
	{"fd00:ec2::254/128", "a cloud's metadata service"},
	{"fd20:ce::254/128", "a cloud's metadata service"},
	{"0.0.0.0/8", "this host"},
	{"10.0.0.0/8", "a private network"},
	{"100.64.0.0/10", "a carrier's private network"},
	{"127.0.0.0/8", "loopback"},
	{"169.254.0.0/16", "link-local"},
	{"172.16.0.0/12", "a private network"},
	{"192.0.0.0/24", "reserved for protocols"},
	{"192.0.2.0/24", "documentation"},
	{"192.88.99.0/24", "6to4 relays"},
	{"192.168.0.0/16", "a private network"},
	{"198.18.0.0/15", "benchmark networks"},
	{"198.51.100.0/24", "documentation"},
	{"203.0.113.0/24", "documentation"},
	{"224.0.0.0/4", "multicast"},
	{"240.0.0.0/4", "reserved"},
	{"::/128", "this host"},
	{"::1/128", "loopback"},
	{"::ffff:0:0:0/96", "an IPv4 address in disguise"},
	{"::/96", "an IPv4 address in disguise"},
	{"64:ff9b::/96", "an IPv4 address behind NAT64"},
	{"64:ff9b:1::/48", "an IPv4 address behind NAT64"},
	{"2001::/23", "reserved for protocols, Teredo among them"},
	{"2001:db8::/32", "documentation"},
	{"2002::/16", "an IPv4 address behind 6to4"},
	{"3fff::/20", "documentation"},
	{"fc00::/7", "a private network"},
	{"fe80::/10", "link-local"},
	{"fec0::/10", "a private network"},
	{"ff00::/8", "multicast"},
}

// globalUnicast is all of IPv6 that is handed out to the public.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// deniedTable is deniedRanges, parsed once.
var deniedTable = func() []struct {
	prefix netip.Prefix
	why    string
} {
	var table []struct {
		prefix netip.Prefix
		why    string
	}
	for _, d := range deniedRanges {
		table = append(table, struct {
			prefix netip.Prefix
			why    string
		}{netip.MustParsePrefix(d.prefix), d.why})
	}
	return table
}()

// addressDenied says why an address may not be dialled, or "". An IPv4 address mapped into IPv6 is judged as what the
// kernel would dial: the IPv4 address. A pin lifts the table for its range, but an address that carries an IPv4 address
// inside must have that one allowed as well: pinning a NAT64 prefix does not open the metadata service behind it.
func addressDenied(addr netip.Addr, pinned []netip.Prefix) string {
	if !addr.IsValid() || addr.Zone() != "" {
		return "not a plain address"
	}
	addr = addr.Unmap()
	free := pinnedAddress(addr, pinned)
	if inner, ok := embedded(addr); ok && free {
		return addressDenied(inner, pinned)
	}
	if free {
		return ""
	}
	for _, d := range deniedTable {
		if d.prefix.Contains(addr) {
			return d.why
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return "not a public address"
	}
	return ""
}

func pinnedAddress(addr netip.Addr, pinned []netip.Prefix) bool {
	return slices.ContainsFunc(pinned, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}

// embedded returns the IPv4 address that a translated IPv6 address stands for.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	at := -1
	switch {
	case b[0] == 0x20 && b[1] == 0x02:
		at = 2
	case strings.HasPrefix(string(b[:]), "\x00\x64\xff\x9b"):
		at = 12
	case strings.HasPrefix(string(b[:]), "\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00"):
		at = 12
	case strings.Trim(string(b[:12]), "\x00") == "" && addr != netip.IPv6Loopback() && !addr.IsUnspecified():
		at = 12
	}
	if at < 0 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(b[at : at+4])), true
}

// ParsePins reads the ranges, or single addresses, that an operator opens in spite of the table of refused ones.
func ParsePins(ranges []string) ([]netip.Prefix, error) {
	var pins []netip.Prefix
	for _, s := range ranges {
		p, err := netip.ParsePrefix(s)
		if addr, bad := netip.ParseAddr(s); bad == nil && addr.Zone() == "" {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() {
			return nil, fault.Wrap(fault.Invalid, err, "%q is not a range of addresses such as 10.1.0.0/16", s)
		}
		pins = append(pins, p.Masked())
	}
	return pins, nil
}
