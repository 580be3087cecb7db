package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// Limits bound one proxy. Zero fields have the defaults.
type Limits struct {
	Connections int           // open at once; 256. One more is told so and closed.
	Head        int           // bytes of a request's head, or of a ClientHello; 64 KiB. Beyond it the connection ends.
	HeadTime    time.Duration // for a head to be complete; 15 s
	DialTime    time.Duration // to resolve and connect; 10 s
	Idle        time.Duration // without a byte either way; 5 min
}

func (l Limits) filled() Limits {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&l.HeadTime, 15 * time.Second}, {&l.DialTime, 10 * time.Second}, {&l.Idle, 5 * time.Minute}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if l.Connections <= 0 {
		l.Connections = 256
	}
	if l.Head <= 0 {
		l.Head = 64 << 10
	}
	return l
}

// Options make a proxy for one box. The zero value lets nothing through.
type Options struct {
	Policy  Policy
	Ceiling Ceiling // must cover the policy
	Bundles Bundles // for the texts that say what would allow a host
	Key     string  // where a request allows hosts, for those texts; "network_policy.allowed_domains"
	Pinned  []netip.Prefix
	Secrets []Secret
	Life    time.Duration  // of the authority that signs for secrets' hosts; 24 h, 7 days at most
	Kept    Value          // of [Proxy.Keep], for a box that outlived its proxy; the zero Value makes a new authority
	Roots   *x509.CertPool // who vouches for the hosts of secrets; nil is the system's
	Limits  Limits

	Resolver Resolver // nil is the system's
	Dial     func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	Observe  func(Record)     // called once for each connection, from its goroutine
	Clock    func() time.Time // nil is time.Now
}

// filled gives what is not set its default.
func (o Options) filled() Options {
	if o.Key == "" {
		o.Key = "network_policy.allowed_domains"
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Life <= 0 {
		o.Life = 24 * time.Hour
	}
	o.Life = min(o.Life, maxLife)
	o.Limits = o.Limits.filled()
	return o
}

// A Proxy serves one box. It is safe for concurrent use.
type Proxy struct {
	options   Options
	wallet    *wallet
	authority *authority // nil without secrets
	dialer    dialer
	transport *http.Transport
	readers   sync.Pool
	denials   tally

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	policy    Policy
	closed    bool
	listeners map[net.Listener]bool
	sessions  map[*session]bool
	upstreams map[*upstream]bool
}

// maxLife bounds a box's authority: hours are meant, days are the exception.
const maxLife = 7 * 24 * time.Hour

// New makes a proxy. It refuses a policy above the ceiling, and secrets whose hosts the policy does not allow.
func New(o Options) (*Proxy, error) {
	if err := o.Ceiling.Check(o.Policy); err != nil {
		return nil, err
	}
	o = o.filled()
	wallet, err := newWallet(o.Secrets, o.Policy)
	if err != nil {
		return nil, err
	}
	o.Secrets = nil // the wallet has them
	p := &Proxy{
		options: o, wallet: wallet, policy: o.Policy,
		dialer:    dialer{o.Resolver, o.Pinned, new(ownAddresses).hold, o.Limits.DialTime, o.Dial},
		listeners: map[net.Listener]bool{}, sessions: map[*session]bool{}, upstreams: map[*upstream]bool{},
	}
	if len(wallet.entries) > 0 {
		if o.Kept.text != nil {
			p.authority, err = restoreAuthority(o.Kept, wallet.hosts())
		} else {
			p.authority, err = newAuthority(wallet.hosts(), o.Clock(), o.Life)
		}
		if err != nil {
			return nil, err
		}
	}
	p.readers.New = func() any { return bufio.NewReaderSize(nil, o.Limits.Head) }
	p.transport = p.newTransport()
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// newTransport makes the side that speaks HTTP to upstreams. It follows no proxy of its own, unpacks nothing, speaks
// HTTP/1.1 and verifies certificates.
func (p *Proxy) newTransport() *http.Transport {
	l := p.options.Limits
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:           p.dialUpstream,
		TLSClientConfig:       &tls.Config{RootCAs: p.options.Roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
		TLSHandshakeTimeout:   l.DialTime,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   4,
		MaxIdleConns:          64,
		IdleConnTimeout:       min(30*time.Second, l.Idle),
		ResponseHeaderTimeout: l.Idle,
		// Headers to us may be as large as those to the upstream.
		MaxResponseHeaderBytes: int64(l.Head),
		Protocols:              protocols,
	}
}

// upstream is a connection of the transport. It ends with the proxy, and when it is silent for too long.
type upstream struct {
	net.Conn
	p    *Proxy
	idle time.Duration
}

func (p *Proxy) dialUpstream(ctx context.Context, _, addr string) (net.Conn, error) {
	where, err := parseDest(addr, 0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The transport dials on when its request is gone; the proxy's own end must still stop it.
	defer context.AfterFunc(p.ctx, cancel)()
	conn, err := p.dialer.to(ctx, where)
	if err != nil {
		return nil, err
	}
	u := &upstream{conn, p, p.options.Limits.Idle}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	p.upstreams[u] = true
	return u, nil
}

func (u *upstream) Read(b []byte) (int, error) {
	u.SetReadDeadline(time.Now().Add(u.idle))
	return u.Conn.Read(b)
}

func (u *upstream) Write(b []byte) (int, error) {
	u.SetWriteDeadline(time.Now().Add(u.idle))
	return u.Conn.Write(b)
}

func (u *upstream) Close() error {
	u.p.mu.Lock()
	delete(u.p.upstreams, u)
	u.p.mu.Unlock()
	return u.Conn.Close()
}

// Port is where a box finds its proxy, on its own loopback interface.
const Port = 3128

// A Listener is what opens a listener inside; a box is one.
type Listener interface {
	Listen(ctx context.Context, port uint16) (net.Listener, error)
}

// Join serves the proxy on Port of what listens there, and returns the address as it is seen inside. Close ends it.
func (p *Proxy) Join(ctx context.Context, inside Listener) (address string, err error) {
	l, err := inside.Listen(ctx, Port)
	if err != nil {
		return "", err
	}
	go p.Serve(l) // its only error is the listener's early end, and then nothing comes out any more
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Port)), nil
}

// Serve accepts from a listener until Close, and then returns nil. The proxy closes the listener. Several may be served.
func (p *Proxy) Serve(l net.Listener) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		l.Close()
		return nil
	}
	p.listeners[l] = true
	p.wg.Add(1)
	p.mu.Unlock()
	deferAccept(l)
	defer p.wg.Done()
	defer func() {
		p.mu.Lock()
		delete(p.listeners, l)
		p.mu.Unlock()
		l.Close()
	}()
	pause := time.Duration(0)
	for {
		conn, err := l.Accept()
		if p.ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fault.Wrap(fault.Unavailable, err, "the proxy's listener is gone")
			}
			// Out of descriptors, or a client that left in the queue: the next one may fare better.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(pause):
			case <-p.ctx.Done():
			}
			continue
		}
		pause = 0
		p.admit(conn)
	}
}

// admit starts a session, or one that only tells the client that there are too many. Twice the limit is the end of
// being polite: those are closed without a word and without a record.
func (p *Proxy) admit(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.sessions) >= 2*p.options.Limits.Connections {
		conn.Close()
		return
	}
	s := p.newSession(conn)
	s.turnAway = len(p.sessions) >= p.options.Limits.Connections
	p.sessions[s] = true
	p.wg.Go(s.run)
}

// Close stops accepting, cuts every connection, and returns when each has given its record. It is idempotent.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.cancel()
	for l := range p.listeners {
		l.Close()
	}
	for s := range p.sessions {
		s.cut(Closed)
	}
	var open []*upstream
	for u := range p.upstreams {
		open = append(open, u)
	}
	p.mu.Unlock()
	for _, u := range open {
		u.Close()
	}
	p.wg.Wait()
	p.transport.CloseIdleConnections()
	return nil
}

// Narrow replaces the policy by one that the first one covers, and cuts the connections that it does not let through. A
// later call may widen again, up to the policy that the proxy was made with.
func (p *Proxy) Narrow(to Policy) error {
	if !p.options.Policy.Covers(to) {
		return fault.New(fault.Forbidden, "a network policy can only be narrowed").WithCode(codeRejected).WithParam("network_policy").
			WithTry("a new container")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.policy = to
	for s := range p.sessions {
		if ok, raw := to.pass(s.where); s.where.host != "" && (!ok || raw && !s.raw) {
			s.cut(Narrowed)
		}
	}
	return nil
}

// Denied returns what was blocked since a time, oldest first, at most 64 entries.
func (p *Proxy) Denied(since time.Time) []Denial { return p.denials.since(since) }

// Placeholders returns what stands in the box for each secret, by variable.
func (p *Proxy) Placeholders() map[string]string { return p.wallet.placeholders() }

// Certificate returns the authority that the box must trust, in PEM, or nil without secrets.
func (p *Proxy) Certificate() []byte {
	if p.authority == nil {
		return nil
	}
	return p.authority.pem()
}

// Keep returns the authority with its key, for Options.Kept of a later proxy of the same box; the zero Value without
// secrets. It must be kept where the box cannot read.
func (p *Proxy) Keep() (Value, error) {
	if p.authority == nil {
		return Value{}, nil
	}
	return p.authority.keep()
}
