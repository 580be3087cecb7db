package cli

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/gateway"
)

const (
	// drainTime is how long a stopping server gives its runs to end honestly before it cuts them.
	drainTime = 6 * time.Second
	// closeTime is how long it then gives boxes and database.
	closeTime = 4 * time.Second
)

// adminKey is the first key's file in the data folder.
const adminKey = "admin.key"

// server is an app on an address. It owns the data folder.
type server struct {
	app         *app
	config      config.Config
	url         string // under which this machine reaches it
	certificate string // SHA-256 of the certificate, hex; empty without TLS
	madeKey     bool
	listener    net.Listener
	control     *control
	http        *http.Server
	logger      *slog.Logger
	announced   bool
}

// openServer assembles and listens, and serves nothing yet. With announce it leaves its address in the data folder.
func openServer(ctx context.Context, c config.Config, logger *slog.Logger, announce bool) (*server, error) {
	if err := checkPublic(c.Server); err != nil {
		return nil, err
	}
	var pair []tls.Certificate
	certificate := ""
	if c.Server.TLS.Cert != "" {
		cert, err := tls.LoadX509KeyPair(c.Server.TLS.Cert, c.Server.TLS.Key)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "the certificate cannot be used").WithTry("PEM files in server.tls.cert and server.tls.key that belong together")
		}
		sum := sha256.Sum256(cert.Certificate[0])
		pair, certificate = []tls.Certificate{cert}, hex.EncodeToString(sum[:])
	}
	if err := config.PrepareData(c.Storage.Data); err != nil {
		return nil, err
	}
	var undo cleanup.Stack
	defer undo.Run()
	a, err := assemble(ctx, c, logger)
	if err != nil {
		return nil, err
	}
	undo.Add(func() { a.drain(ctx); a.close(ctx, false) })
	removeAddress(c.Storage.Data) // an earlier owner's, who was killed
	made, err := a.tenants.Bootstrap(ctx, filepath.Join(c.Storage.Data, adminKey))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", c.Server.Listen)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the address cannot be listened on").WithTry("--listen 127.0.0.1:0 takes a free port")
	}
	undo.Add(func() { listener.Close() })
	s := &server{app: a, config: c, certificate: certificate, madeKey: made, listener: listener, logger: logger, announced: announce,
		http: gateway.NewServer(a.handler, logger)}
	s.url = reachable(listener.Addr(), certificate != "")
	if pair != nil {
		s.http.TLSConfig = &tls.Config{Certificates: pair, MinVersion: tls.VersionTLS12}
	}
	if s.control, err = openControl(c.Storage.Data, a.tenants); err != nil {
		return nil, err
	}
	undo.Add(s.control.close)
	if announce {
		if err := writeAddress(c.Storage.Data, address{URL: s.url, Certificate: certificate}); err != nil {
			return nil, err
		}
	}
	undo.Release()
	return s, nil
}

// serve answers until the context ends or the listener fails, and then stops in order.
func (s *server) serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go s.control.serve()
	go func() {
		if s.certificate != "" {
			failed <- s.http.ServeTLS(s.listener, "", "")
			return
		}
		failed <- s.http.Serve(s.listener)
	}()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	if e := s.stop(); e != nil {
		err = errors.Join(err, stopError{e})
	}
	return err
}

// stopError is what went wrong while a server stopped: that it was told to stop does not explain it.
type stopError struct{ error }

// Error says when it was.
func (e stopError) Error() string { return "the server did not stop cleanly: " + e.error.Error() }

// Unwrap shows what went wrong.
func (e stopError) Unwrap() error { return e.error }

// stop takes the address away, accepts no more, ends the runs so that their clients read an honest end, and only then
// the boxes and the database. It takes at most drainTime and closeTime.
func (s *server) stop() error {
	if s.announced {
		removeAddress(s.config.Storage.Data)
	}
	drained, cancel := context.WithTimeout(context.Background(), drainTime) // the caller's context has ended: that is why we stop
	defer cancel()
	shut := make(chan error, 1)
	go func() { shut <- s.http.Shutdown(drained) }()
	err := s.app.drain(drained)
	if e := <-shut; e != nil {
		s.logger.Warn("clients were cut off", "error", e)
		s.http.Close()
	}
	s.control.close()
	closed, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return errors.Join(err, s.app.close(closed, s.announced))
}

// checkPublic refuses to show keys to a network.
func checkPublic(s config.Server) error {
	if err := config.CheckListen(s.Listen); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(s.Listen)
	addr, err := netip.ParseAddr(host)
	loopback := host == "localhost" || err == nil && addr.Unmap().IsLoopback()
	if loopback || s.AllowPublic || s.TLS.Cert != "" {
		return nil
	}
	return fault.New(fault.Invalid, "other machines can reach %s, and without TLS they can read every key on the way", s.Listen).
		WithTry("set cert and key in [server.tls], or add --allow-public if something in front ends TLS")
}

// reachable is the URL under which this machine reaches a listener.
func reachable(a net.Addr, secure bool) string {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	addr, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return scheme + a.String()
	}
	ip := addr.Addr().Unmap()
	if ip.IsUnspecified() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return scheme + netip.AddrPortFrom(ip, addr.Port()).String()
}
