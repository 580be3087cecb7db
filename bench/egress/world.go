package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

const value = "the-real-value-of-the-secret"

// distinct is how many hosts get a first request.
const distinct = 100

// proxyPort is the box's port that the proxy is behind.
const proxyPort = egress.Port

// The box's ports that the server itself is behind, and the least proxy that can be.
const (
	directPort = 3129
	floorPort  = 3130
)

// world resolves and reaches the names of the bench: all of them are here.
type world struct{ raw, web string }

func (world) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func (w world) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	target := w.web
	if to.Port() == 9000 {
		target = w.raw
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", target)
}

func run(ctx context.Context, samples int, size int64) (*report, error) {
	certificate, ca, err := certify()
	if err != nil {
		return nil, err
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	go serveRaw(raw)
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer web.Close()
	go (&http.Server{Handler: http.HandlerFunc(expect), ErrorLog: log.New(io.Discard, "", 0)}).
		Serve(tls.NewListener(web, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}))
	proxy, err := newProxy(world{raw: raw.Addr().String(), web: web.Addr().String()}, ca)
	if err != nil {
		return nil, err
	}
	defer proxy.Close()
	t := task{Samples: samples, Bytes: size, Distinct: distinct, Secret: proxy.Placeholders()["TOKEN"], CA: append(bytes.Clone(ca), proxy.Certificate()...)}
	r := &report{Bench: "egress", Samples: samples, Bytes: size}
	outside := t
	outside.Direct = raw.Addr().String()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go proxy.Serve(l)
	outside.Proxy = l.Addr().String()
	least, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer least.Close()
	go serveFloor(least, raw.Addr().String())
	outside.Floor = least.Addr().String()
	here, err := outside.inProcess(ctx)
	if err != nil {
		return nil, err
	}
	r.Figures = here
	inside, err := t.inBox(ctx, proxy, raw.Addr().String())
	if err != nil {
		r.Note = err.Error()
		return r, nil
	}
	r.Inside = true
	for _, f := range inside {
		f.Name += ", from a box"
		r.Figures = append(r.Figures, f)
	}
	return r, nil
}

// inProcess runs the client in a process of its own, out here.
func (t task) inProcess(ctx context.Context) ([]figure, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, clientArg, string(text))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("the client: %w", err)
	}
	var figures []figure
	return figures, json.Unmarshal(out, &figures)
}

// inBox runs the client in a box, where the proxy's listener is all that there is.
func (t task) inBox(ctx context.Context, proxy *egress.Proxy, server string) ([]figure, error) {
	if err := sandbox.Supported(ctx); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-egress-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		return nil, err
	}
	cwd := filepath.Join(dir, "work")
	if err := os.Mkdir(cwd, 0o755); err != nil {
		return nil, err
	}
	name := filepath.Join(cwd, "client")
	if err := os.WriteFile(name, binary, 0o755); err != nil {
		return nil, err
	}
	box, err := sandbox.Open(ctx, sandbox.Spec{Dir: filepath.Join(dir, "box"), Cwd: cwd, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
	if err != nil {
		return nil, err
	}
	defer box.Close()
	l, err := box.Listen(ctx, proxyPort)
	if err != nil {
		return nil, err
	}
	go proxy.Serve(l)
	t.Proxy = fmt.Sprintf("127.0.0.1:%d", proxyPort)
	// The direct way out of a box does not exist but for this bench: the server itself, behind a port of the box.
	direct, err := box.Listen(ctx, directPort)
	if err != nil {
		return nil, err
	}
	defer direct.Close()
	go serveRaw(direct)
	t.Direct = fmt.Sprintf("127.0.0.1:%d", directPort)
	least, err := box.Listen(ctx, floorPort)
	if err != nil {
		return nil, err
	}
	defer least.Close()
	go serveFloor(least, server)
	t.Floor = fmt.Sprintf("127.0.0.1:%d", floorPort)
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	job, err := box.Start(ctx, process.Command{Key: "client", Argv: []string{name, clientArg, string(text)}, Timeout: 10 * time.Minute})
	if err != nil {
		return nil, err
	}
	exit, err := job.Wait(ctx)
	if err != nil {
		return nil, err
	}
	out, _ := io.ReadAll(job.Reader(process.Stdout))
	said, _ := io.ReadAll(job.Reader(process.Stderr))
	if exit.Code != 0 {
		return nil, errors.New("the client in the box: " + string(said))
	}
	var figures []figure
	return figures, json.Unmarshal(out, &figures)
}

func newProxy(w world, ca []byte) (*egress.Proxy, error) {
	policy, err := egress.ParsePolicy(egress.TypeAllowlist, []string{"tcp://" + bareHost, "*." + plainHost, "*." + secretHost}, egress.Bundles{})
	if err != nil {
		return nil, err
	}
	ceiling, err := egress.ParseCeiling("", []string{"*"}, egress.Bundles{})
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return egress.New(egress.Options{Policy: policy, Ceiling: ceiling, Resolver: w, Dial: w.dial, Roots: pool,
		Pinned:  []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Secrets: []egress.Secret{{Name: "TOKEN", Value: egress.NewValue(value), Hosts: []string{"*." + secretHost}}}})
}

// expect answers only who brought what it must have: the value for the secret's hosts, the placeholder for others.
func expect(w http.ResponseWriter, req *http.Request) {
	if got := req.Header.Get("Authorization"); strings.HasSuffix(req.Host, secretHost) != (got == "Bearer "+value) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// serveRaw repeats a byte, or sends as many as it is asked for.
func serveRaw(l net.Listener) {
	block := make([]byte, 256<<10)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			first := make([]byte, 1)
			if _, err := io.ReadFull(c, first); err != nil {
				return
			}
			if first[0] != 'b' {
				c.Write(first)
				return
			}
			number := make([]byte, 20)
			io.ReadFull(c, number)
			var left int64
			fmt.Sscanf(string(number), "%d", &left)
			for left > 0 {
				n, err := c.Write(block[:min(left, int64(len(block)))])
				if left -= int64(n); err != nil {
					return
				}
			}
		}()
	}
}

// certify makes an authority and a certificate of it for the web servers.
func certify() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		DNSNames: []string{"*." + plainHost, "*." + secretHost}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
