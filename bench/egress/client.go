package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"
)

// clientArg makes this program the client.
const clientArg = "client"

// task is what the client is to measure. Addresses are as it sees them.
type task struct {
	Direct   string // a server that repeats a byte and serves a stream
	Proxy    string
	Floor    string // the least proxy that can be
	Samples  int
	Bytes    int64
	CA       []byte // of every TLS server, ours among them
	Secret   string // the placeholder
	Distinct int    // hosts of secrets, for first requests
}

// The names that the proxy knows, and the ports behind them.
const (
	bareHost   = "raw.test:9000"
	plainHost  = "web.test"
	secretHost = "secret.test" // and s1.secret.test and so on
)

func client(text string) int {
	var t task
	err := json.Unmarshal([]byte(text), &t)
	var out []figure
	if err == nil {
		out, err = t.measure()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	json.NewEncoder(os.Stdout).Encode(out)
	return 0
}

func (t task) measure() ([]figure, error) {
	direct, through := series{name: "connection and first byte, direct"}, series{name: "connection and first byte, through CONNECT"}
	floor := series{name: "connection and first byte, through the least proxy"}
	for range t.Samples {
		if err := direct.time(func() error { return touch(net.Dial("tcp", t.Direct)) }); err != nil {
			return nil, err
		}
		if err := through.time(func() error { return touch(t.connect(t.Proxy, bareHost)) }); err != nil {
			return nil, err
		}
		if err := floor.time(func() error { return touch(t.connect(t.Floor, bareHost)) }); err != nil {
			return nil, err
		}
	}
	out := []figure{direct.figure(nil), floor.figure(&direct), through.figure(&direct)}
	for _, way := range []struct {
		name string
		dial func() (net.Conn, error)
	}{
		{"bytes, direct", func() (net.Conn, error) { return net.Dial("tcp", t.Direct) }},
		{"bytes, through a tunnel", func() (net.Conn, error) { return t.connect(t.Proxy, bareHost) }},
	} {
		rate, err := t.stream(way.dial())
		if err != nil {
			return nil, err
		}
		out = append(out, figure{Name: way.name, GBs: rate})
	}
	// A first request: everything is new, the connection, the handshake and, with a secret, the certificate.
	plain, secret := series{name: "first HTTPS request, tunnelled"}, series{name: "first HTTPS request, with a secret"}
	for i := range t.Distinct {
		if err := plain.time(func() error { return t.first(fmt.Sprintf("s%d.%s", i, plainHost)) }); err != nil {
			return nil, err
		}
		if err := secret.time(func() error { return t.first(fmt.Sprintf("s%d.%s", i, secretHost)) }); err != nil {
			return nil, err
		}
	}
	return append(out, plain.figure(nil), secret.figure(&plain)), nil
}

// established is what a proxy says of a tunnel that is open.
const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// connect opens a tunnel.
func (t task) connect(proxy, target string) (net.Conn, error) {
	c, err := net.Dial("tcp", proxy)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n"); err != nil {
		return nil, err
	}
	b := make([]byte, len(established))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != established {
		return nil, fmt.Errorf("CONNECT %s: %q, %w", target, b, err)
	}
	return c, nil
}

// touch sends a byte and waits for it.
func touch(c net.Conn, err error) error {
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err
}

// stream reads bytes and returns the rate in GB/s.
func (t task) stream(c net.Conn, err error) (float64, error) {
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "b%020d", t.Bytes); err != nil {
		return 0, err
	}
	began := time.Now()
	n, buf := int64(0), make([]byte, 256<<10)
	for n < t.Bytes {
		k, err := c.Read(buf)
		if n += int64(k); err != nil && n < t.Bytes {
			return 0, fmt.Errorf("%d of %d bytes came: %w", n, t.Bytes, err)
		}
	}
	return float64(n) / time.Since(began).Seconds() / 1e9, nil
}

// first makes a request over a connection of its own.
func (t task) first(host string) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(t.CA)
	c, err := t.connect(t.Proxy, host+":443")
	if err != nil {
		return err
	}
	defer c.Close()
	inside := tls.Client(c, &tls.Config{ServerName: host, RootCAs: pool})
	if _, err := fmt.Fprintf(inside, "GET / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", host, t.Secret); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(inside), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusNoContent {
		return errors.New(host + " answered " + resp.Status)
	}
	return nil
}

// series is one way's times.
type series struct {
	name  string
	times []float64
}

func (s *series) time(do func() error) error {
	began := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.times = append(s.times, float64(time.Since(began).Nanoseconds())/1e6)
	return nil
}

func (s *series) figure(base *series) figure {
	f := figure{Name: s.name}
	if len(s.times) == 0 {
		return f
	}
	slices.Sort(s.times)
	f.P50, f.P99 = s.times[len(s.times)/2], s.times[len(s.times)*99/100]
	if base != nil && len(base.times) > 0 {
		f.Added = f.P50 - base.times[len(base.times)/2]
	}
	return f
}
