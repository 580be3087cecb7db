package egress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is for what must happen and usually takes milliseconds.
const patience = 30 * time.Second

// public is what names of the tests resolve to; nobody is ever dialled there.
var public = netip.MustParseAddr("93.184.215.14")

// A rig is a proxy with its listener and a world of names around it. What is dialled ends at loopback servers.
type rig struct {
	t       *testing.T
	proxy   *Proxy
	address string
	url     *url.URL
	ca      *testCA

	mu      sync.Mutex
	names   map[string][]netip.Addr // what a name resolves to; absent is public
	dialled []netip.AddrPort
	targets map[uint16]string // the loopback server behind a port; 0 is behind any other
	heard   chan Record
}

// newRig makes a proxy that lets the entries through. Change adjusts its options.
func newRig(t *testing.T, change func(*rig, *Options), entries ...string) *rig {
	t.Helper()
	r := &rig{t: t, names: map[string][]netip.Addr{}, targets: map[uint16]string{}, heard: make(chan Record, 1000), ca: newTestCA(t)}
	o := Options{Resolver: r, Dial: r.dial, Observe: r.observe, Roots: r.ca.pool}
	if len(entries) > 0 {
		var err error
		if o.Policy, err = ParsePolicy(TypeAllowlist, entries, Bundles{}); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if o.Ceiling, err = ParseCeiling("limits.allowed_egress_hosts", []string{"*"}, Bundles{}); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r, &o)
	}
	if r.proxy, err = New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.proxy.Serve(l) }()
	t.Cleanup(func() {
		r.proxy.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	r.address = l.Addr().String()
	r.url = &url.URL{Scheme: "http", Host: r.address}
	return r
}

func (r *rig) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, rooted := strings.CutSuffix(host, ".")
	if !rooted && strings.Contains(name, ".") {
		r.t.Errorf("%q is looked up under the host's search domains", host)
	}
	if addrs, ok := r.names[host]; ok && !rooted {
		return addrs, nil // as a hosts file answers
	} else if addrs, ok := r.names[name]; ok && strings.Contains(name, ".") {
		if len(addrs) == 0 {
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		return addrs, nil
	}
	if !strings.Contains(name, ".") {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return []netip.Addr{public}, nil
}

func (r *rig) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	r.mu.Lock()
	r.dialled = append(r.dialled, to)
	target, ok := r.targets[to.Port()]
	if !ok {
		target, ok = r.targets[0]
	}
	r.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("dial %v: nobody is there", to)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", target)
}

// dials says what was dialled so far.
func (r *rig) dials() []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.dialled)
}

func (r *rig) observe(rec Record) { r.heard <- rec }

// record waits for the next record.
func (r *rig) record() Record {
	r.t.Helper()
	select {
	case rec := <-r.heard:
		return rec
	case <-time.After(patience):
		r.t.Fatal("no record")
		panic("unreachable")
	}
}

// behind puts a server behind a port.
func (r *rig) behind(port uint16, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets[port] = address
}

// plain starts an HTTP server behind port 80.
func (r *rig) plain(h http.HandlerFunc) {
	s := httptest.NewServer(h)
	r.t.Cleanup(s.Close)
	r.behind(80, s.Listener.Addr().String())
}

// tls starts an HTTPS server behind port 443 that has a certificate for names.
func (r *rig) tls(h http.HandlerFunc, names ...string) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{r.ca.issue(r.t, names...)}}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet
	s.StartTLS()
	r.t.Cleanup(s.Close)
	r.behind(443, s.Listener.Addr().String())
	return s
}

// client goes through the proxy and trusts the upstream's authority and, with the proxy's, the box's bundle.
func (r *rig) client(scheme string) *http.Client {
	pool := r.ca.pool.Clone()
	pool.AppendCertsFromPEM(r.proxy.Certificate())
	via := &url.URL{Scheme: scheme, Host: r.address}
	transport := &http.Transport{Proxy: http.ProxyURL(via), TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// get fetches and returns status and body; a failure is status 0 with the error's text.
func get(c *http.Client, target string) (int, string) {
	resp, err := c.Get(target)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// raw opens a connection to the proxy and sends bytes.
func (r *rig) raw(text string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// says sends bytes and returns everything that comes back.
func (r *rig) says(text string) string {
	r.t.Helper()
	c := r.raw(text)
	b, _ := io.ReadAll(c)
	return string(b)
}

// connect opens a tunnel.
func (r *rig) connect(target string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	c := r.raw("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != 200 {
		r.t.Fatalf("CONNECT %s: %v, %v", target, resp, err)
	}
	return c, in
}

// inside opens a tunnel to the host of a secret, and TLS in it that trusts the proxy's authority.
func (r *rig) inside(target string) *tls.Conn {
	r.t.Helper()
	c, _ := r.connect(target)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.proxy.Certificate())
	host, _, _ := strings.Cut(target, ":")
	return tls.Client(c, &tls.Config{ServerName: host, RootCAs: pool})
}

// A testCA is the world's certificate authority.
type testCA struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newTestCA(t testing.TB) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the world"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	ca := &testCA{key, cert, x509.NewCertPool()}
	ca.pool.AddCert(cert)
	return ca
}

func (ca *testCA) issue(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: names, NotBefore: ca.cert.NotBefore, NotAfter: ca.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, ca.key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: ca.key}
}
