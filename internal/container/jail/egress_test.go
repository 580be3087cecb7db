package jail

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

const canary = "sk-canary-9e107d9d372bb682"

// internet is a world of names whose servers are loopback servers of the test.
type internet struct {
	t     testing.TB
	roots *x509.CertPool
	tls   *httptest.Server // behind port 443 of every name
	plain *httptest.Server // behind port 80

	mu      sync.Mutex
	asked   []string // names that were looked up
	headers []http.Header
	records []egress.Record
}

func newInternet(t testing.TB, names ...string) *internet {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the world"}, DNSNames: names, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	n := &internet{t: t, roots: x509.NewCertPool()}
	n.roots.AddCert(cert)
	n.plain = httptest.NewServer(http.HandlerFunc(n.answer))
	n.tls = httptest.NewUnstartedServer(http.HandlerFunc(n.answer))
	n.tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	n.tls.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	n.tls.StartTLS()
	t.Cleanup(n.plain.Close)
	t.Cleanup(n.tls.Close)
	return n
}

// answer shows the request, its headers too.
func (n *internet) answer(w http.ResponseWriter, req *http.Request) {
	n.mu.Lock()
	n.headers = append(n.headers, req.Header.Clone())
	n.mu.Unlock()
	w.Header().Set("X-Seen", req.Header.Get("Authorization"))
	fmt.Fprintf(w, "this is %s, you sent %q\n", req.Host, req.Header.Get("Authorization"))
}

func (n *internet) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, strings.TrimSuffix(host, "."))
	return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
}

func (n *internet) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	target := n.plain
	if to.Port() == 443 {
		target = n.tls
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", target.Listener.Addr().String())
}

// network is the operator's side: what may be opened, and one secret.
func (n *internet) network(t testing.TB, ceiling ...string) container.Network {
	t.Helper()
	bundles, err := egress.ParseBundles(map[string][]string{"npm": {"npm.test"}, "cargo": {}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := egress.ParseCeiling("limits.allowed_egress_hosts", ceiling, bundles)
	if err != nil {
		t.Fatal(err)
	}
	return container.Network{Egress: egress.Options{Ceiling: c, Bundles: bundles, Resolver: n, Dial: n.dial, Roots: n.roots},
		Secrets: map[string]container.OperatorSecret{"OPERATORS": {Value: egress.NewValue(canary), Hosts: []string{"s.test"}}},
		Observe: func(_ string, r egress.Record) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.records = append(n.records, r)
		}}
}

// networked is a service whose containers may have a network.
func networked(t testing.TB, data string, network container.Network) (*container.Service, context.Context) {
	t.Helper()
	s, ctx, end := opened(t, data, network)
	t.Cleanup(func() {
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		end()
	})
	return s, ctx
}

// opened is such a service, to be ended by the test; end lets go of its rows.
func opened(t testing.TB, data string, network container.Network) (s *container.Service, ctx context.Context, end func()) {
	t.Helper()
	require.Feature(t, "jail", New(Options{}).Supported(t.Context()))
	_, err := exec.LookPath("curl")
	require.Feature(t, "curl", err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(data, "hardshell.db")})
	if err != nil {
		t.Fatal(err)
	}
	s, err = container.New(ctx, container.Options{DB: db, Runtime: New(Options{}), Dir: filepath.Join(data, "containers"), Network: network})
	if err != nil {
		db.Close()
		t.Fatal(err)
	}
	return s, ctx, func() { db.Close() }
}

func allow(domains ...string) *container.NetworkPolicy {
	return &container.NetworkPolicy{Type: "allowlist", AllowedDomains: domains}
}

func TestAContainerReachesWhatItsPolicyNames(t *testing.T) {
	n := newInternet(t, "a.test", "b.test")
	s, ctx := networked(t, t.TempDir(), n.network(t, "*"))
	c, err := s.Create(ctx, org, container.CreateSpec{Network: allow("a.test")})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, s, ctx, c.ID, "curl -sS http://a.test/; curl -ksS https://a.test/; wait; echo went on")
	if r.Stdout.Text != "this is a.test, you sent \"\"\nthis is a.test, you sent \"\"\nwent on\n" || len(r.Blocked) != 0 {
		t.Errorf("%q %q %q", r.Stdout.Text, r.Stderr.Text, r.Blocked)
	}
	r = run(t, s, ctx, c.ID, "curl -sS http://b.test/; curl -sS https://npm.test/; echo went on")
	if !strings.Contains(r.Stdout.Text, "blocked by policy: b.test:80 is not allowed") || !strings.HasSuffix(r.Stdout.Text, "went on\n") || r.ExitCode != 0 {
		t.Errorf("%q %q", r.Stdout.Text, r.Stderr.Text)
	}
	if want := []string{`b.test:80 is not allowed. Try: add "b.test" to network_policy.allowed_domains`,
		`npm.test:443 is not allowed. Try: add "bundle:npm" to network_policy.allowed_domains`}; !slices.Equal(r.Blocked, want) {
		t.Errorf("blocked: %q", r.Blocked)
	}
	if r = run(t, s, ctx, c.ID, "true"); len(r.Blocked) != 0 {
		t.Errorf("an earlier command's blocks are told again: %q", r.Blocked)
	}
	none, err := s.Create(ctx, org, container.CreateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	r = run(t, s, ctx, none.ID, "echo $HARDSHELL_SANDBOX_NETWORK_DISABLED; curl -sS http://a.test/; curl -fsS https://npm.test/")
	if r.ExitCode == 0 || !strings.HasPrefix(r.Stdout.Text, "1\nhardshell: blocked by policy: a.test:80 is not allowed") || len(r.Blocked) != 2 || !strings.Contains(r.Blocked[1], "bundle:npm") {
		t.Errorf("without a policy: %q %q", r.Stdout.Text, r.Blocked)
	}
}

// S45 to S47: the proxy is the only way, whatever a command does with its variables, its resolver or its sockets.
func TestThereIsNoOtherWayOut(t *testing.T) {
	n := newInternet(t, "a.test")
	s, ctx := networked(t, t.TempDir(), n.network(t, "*"))
	c, err := s.Create(ctx, org, container.CreateSpec{Network: allow("a.test")})
	if err != nil {
		t.Fatal(err)
	}
	host := n.plain.Listener.Addr().(*net.TCPAddr).Port
	for name, script := range map[string]string{
		"no variables":            "for v in $(env | grep -io '^[a-z_]*proxy'); do unset $v; done; curl -sS -m 5 http://a.test/",
		"another proxy":           "http_proxy=http://93.184.215.14:3128 curl -sS -m 5 http://a.test/",
		"an address":              "exec 3<>/dev/tcp/93.184.215.14/80",
		"the host's loopback":     fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", host),
		"the metadata service":    "exec 3<>/dev/tcp/169.254.169.254/80",
		"UDP":                     "exec 3<>/dev/udp/93.184.215.14/53",
		"a look-up":               "getent hosts data.evil.test",
		"a resolver":              "command -v dig && dig +time=1 +tries=1 data.evil.test @93.184.215.14 | grep -q NOERROR",
		"ping":                    "command -v ping && ping -c1 -W1 93.184.215.14",
		"the proxy by an address": "curl -fsS -m 5 http://93.184.215.14/",
		"the proxy to loopback":   fmt.Sprintf("curl -fsS -m 5 --noproxy '' http://127.0.0.1:%d/", host),
	} {
		if r := run(t, s, ctx, c.ID, script); r.ExitCode == 0 {
			t.Errorf("%s: %q %q", name, r.Stdout.Text, r.Stderr.Text)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.asked) != 0 || len(n.headers) != 0 {
		t.Errorf("%q were looked up, %d requests arrived", n.asked, len(n.headers))
	}
}

func TestAContainersSecrets(t *testing.T) {
	n := newInternet(t, "s.test", "o.test", "a.test")
	data := t.TempDir()
	s, ctx := networked(t, data, n.network(t, "*"))
	inline := container.DomainSecret{Name: "INLINE", Value: egress.NewValue(canary + "-inline"), Given: true, Hosts: []string{"o.test"}}
	c, err := s.Create(ctx, org, container.CreateSpec{Network: allow("s.test", "o.test", "a.test"), Secrets: []container.DomainSecret{{Name: "OPERATORS"}, inline}})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, s, ctx, c.ID, `env; for h in s.test o.test; do curl -sSi https://$h/ -H "Authorization: Bearer $OPERATORS" -H "X-Other: $INLINE"; done
		curl -sS -u "me:$OPERATORS" https://s.test/; curl -ksS https://a.test/ -H "Authorization: $OPERATORS"; curl -sS http://s.test/ -H "Authorization: $OPERATORS"
		echo $OPERATORS > note`)
	text := r.Stdout.Text + r.Stderr.Text
	if strings.Contains(text, canary) || !strings.Contains(text, "OPERATORS=hsp_") || !strings.Contains(text, "INLINE=hsp_") || strings.Count(text, "this is ") != 5 {
		t.Errorf("%s", text)
	}
	n.mu.Lock()
	var seen []string
	for _, h := range n.headers {
		seen = append(seen, h.Get("Authorization")+"|"+h.Get("X-Other"))
	}
	n.mu.Unlock()
	if len(seen) != 5 || !strings.HasPrefix(seen[0], "Bearer "+canary+"|hsp_") || !strings.HasPrefix(seen[1], "Bearer hsp_") || !strings.HasSuffix(seen[1], "|"+canary+"-inline") ||
		!strings.HasPrefix(seen[3], "hsp_") || !strings.HasPrefix(seen[4], "hsp_") {
		t.Errorf("the hosts saw %q", seen)
	}
	// It is nowhere on the disk: not in the database, not in a spool, not in the workspace.
	search(t, data, canary)
	if got, err := s.Get(ctx, org, c.ID); err != nil || strings.Contains(fmt.Sprintf("%+v", got), canary) {
		t.Errorf("%+v, %v", got, err)
	}
}

// search looks for a text in every file below a folder.
func search(t *testing.T, dir, text string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if files++; bytes.Contains(b, []byte(text)) {
			t.Errorf("%s holds it", path)
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files searched, %v", files, err)
	}
}

func TestPoliciesThatAreRefused(t *testing.T) {
	n := newInternet(t, "a.test")
	s, ctx := networked(t, t.TempDir(), n.network(t, "a.test", "*.b.test", "s.test"))
	given := func(name, value string, hosts ...string) []container.DomainSecret {
		return []container.DomainSecret{{Name: name, Value: egress.NewValue(value), Given: true, Hosts: hosts}}
	}
	for name, spec := range map[string]container.CreateSpec{
		"above the ceiling":            {Network: allow("c.test")},
		"anything":                     {Network: allow("*")},
		"more than a part":             {Network: allow("*.test")},
		"another port":                 {Network: allow("a.test:22")},
		"an address":                   {Network: allow("127.0.0.1")},
		"no domain":                    {Network: allow()},
		"a bundle that is not filled":  {Network: allow("bundle:cargo")},
		"a bundle above the ceiling":   {Network: allow("bundle:npm")},
		"a type that is not known":     {Network: &container.NetworkPolicy{Type: "open"}},
		"a secret without a network":   {Secrets: given("T", canary, "a.test")},
		"a secret for another host":    {Network: allow("a.test"), Secrets: given("T", canary, "c.test")},
		"a secret that is not there":   {Network: allow("a.test"), Secrets: []container.DomainSecret{{Name: "NONE"}}},
		"an operator's for a new host": {Network: allow("a.test", "s.test"), Secrets: []container.DomainSecret{{Name: "OPERATORS", Hosts: []string{"a.test"}}}},
		"an operator's, not allowed":   {Network: allow("a.test"), Secrets: []container.DomainSecret{{Name: "OPERATORS"}}},
	} {
		c, err := s.Create(ctx, org, spec)
		f, ok := fault.As(err)
		if !ok || f.Kind != fault.Invalid || f.Code != "network_policy_rejected" || !strings.HasPrefix(f.Param, "network_policy") || strings.Contains(f.Public(), canary) {
			t.Errorf("%s: %v, %+v", name, c.ID, err)
		}
	}
	_, err := s.Create(ctx, org, container.CreateSpec{Network: allow("c.test")})
	if f, _ := fault.As(err); !strings.Contains(f.Try, "limits.allowed_egress_hosts") {
		t.Errorf("the remedy %q does not name the operator's key", f.Try)
	}
}

// A gateway that is handed over keeps the box's network: same placeholder, same authority, and what knocked meanwhile.
func TestANetworkOutlivesItsGateway(t *testing.T) {
	n := newInternet(t, "s.test")
	data := t.TempDir()
	first, ctx, end := opened(t, data, n.network(t, "*"))
	c, err := first.Create(ctx, org, container.CreateSpec{Network: allow("s.test"), Secrets: []container.DomainSecret{{Name: "OPERATORS"}}})
	if err != nil {
		t.Fatal(err)
	}
	script := `until [ -e go ]; do sleep 0.05; done; curl -sS -m 60 https://s.test/ -H "Authorization: $OPERATORS"`
	e, err := first.Exec(ctx, org, c.ID, container.Command{Key: "call", Script: script})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.HandOver(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Wait(ctx); fault.KindOf(err) != fault.Conflict {
		t.Errorf("the first owner's wait: %v", err)
	}
	end()
	workspace := filepath.Join(data, "containers", c.ID, "workspace")
	if err := os.WriteFile(filepath.Join(workspace, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	second, ctx := networked(t, data, n.network(t, "*"))
	again, _, err := second.Reattach(ctx, org, c.ID, container.Command{Key: "call", Script: script})
	if err != nil {
		t.Fatal(err)
	}
	r, err := again.Wait(ctx)
	if err != nil || !strings.Contains(r.Stdout.Text, "this is s.test") || strings.Contains(r.Stdout.Text, canary) {
		t.Errorf("%+v, %v", r, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.headers) != 1 || n.headers[0].Get("Authorization") != canary {
		t.Errorf("the host saw %v", n.headers)
	}
}
