package egress

import (
	"net/netip"
	"testing"
)

func TestAddressesThatAreRefused(t *testing.T) {
	for _, a := range []string{"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.8.8.8", "168.63.129.16",
		"169.254.169.254", "169.254.1.1", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
		"198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::a9fe:a9fe",
		"64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1",
		"fc00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fec0::1", "ff02::1", "4000::1", "fe80::1%lo"} {
		if why := addressDenied(netip.MustParseAddr(a), nil); why == "" {
			t.Errorf("%s may be dialled", a)
		}
	}
	if addressDenied(netip.Addr{}, nil) == "" {
		t.Error("no address may be dialled")
	}
}

func TestAddressesThatAreFree(t *testing.T) {
	for _, a := range []string{"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450::1"} {
		if why := addressDenied(netip.MustParseAddr(a), nil); why != "" {
			t.Errorf("%s: %s", a, why)
		}
	}
}

func TestPins(t *testing.T) {
	pins, err := ParsePins([]string{"127.0.0.0/8", "10.1.2.3", "64:ff9b::/96", "fd12::/16"})
	if err != nil {
		t.Fatal(err)
	}
	for a, free := range map[string]bool{"127.0.0.1": true, "::ffff:127.0.0.1": true, "10.1.2.3": true, "10.1.2.4": false, "fd12::1": true, "fd13::1": false,
		"64:ff9b::808:808": true, "64:ff9b::a9fe:a9fe": false, "64:ff9b::7f00:1": true, "169.254.169.254": false} {
		if why := addressDenied(netip.MustParseAddr(a), pins); (why == "") != free {
			t.Errorf("%s: %q, want free = %v", a, why, free)
		}
	}
	for _, bad := range []string{"", "loopback", "10.0.0.0/33", "fe80::1%lo", "::ffff:10.0.0.0/104", "10.0.0.0-10.0.0.9"} {
		if _, err := ParsePins([]string{bad}); err == nil {
			t.Errorf("%q is a pin", bad)
		}
	}
}

// Every row of the table has an address of its own that it refuses, so that none is dead.
func TestEveryDeniedRangeCounts(t *testing.T) {
	for _, d := range deniedTable {
		if why := addressDenied(d.prefix.Addr(), nil); why == "" {
			t.Errorf("the first address of %s is free", d.prefix)
		}
	}
}
