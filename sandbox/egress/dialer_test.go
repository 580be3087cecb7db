package egress

import (
	"io"
	"net/netip"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

// A client of our own is under the rules of a box's connections, but for the policy.
func TestDialer(t *testing.T) {
	r := newRig(t, nil, "nothing.test")
	r.behind(0, newUpstream(t, ok).Addr().String())
	r.names["in.test"] = []netip.Addr{netip.MustParseAddr("169.254.169.254")}
	r.names["ours.test"] = []netip.Addr{netip.MustParseAddr("10.1.2.3")}
	r.names["nowhere.test"] = []netip.Addr{}
	dial := Options{Resolver: r.proxy.options.Resolver, Dial: r.proxy.options.Dial, Pinned: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}.Dialer()
	for address, want := range map[string]fault.Kind{"in.test:80": fault.Forbidden, "127.0.0.1:80": fault.Forbidden, "[::1]:80": fault.Forbidden,
		"10.1.2.3:80": fault.Forbidden, "a.test": fault.Forbidden, "a..test:80": fault.Forbidden, "nowhere.test:80": fault.Unavailable} {
		if conn, err := dial(t.Context(), "tcp", address); fault.KindOf(err) != want || conn != nil {
			t.Errorf("%s: %v, %v", address, conn, err)
		}
	}
	if d := r.dials(); len(d) != 0 {
		t.Errorf("dialled %v", d)
	}
	for _, address := range []string{"a.test:80", "ours.test:80"} {
		conn, err := dial(t.Context(), "tcp", address)
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		conn.Close()
	}
}
