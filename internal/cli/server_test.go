package cli

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/telemetry"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

func TestWhoMayBeReached(t *testing.T) {
	for name, c := range map[string]struct {
		server config.Server
		ok     bool
	}{
		"loopback":             {config.Server{Listen: "127.0.0.1:7070"}, true},
		"another loopback":     {config.Server{Listen: "127.0.0.9:0"}, true},
		"IPv6 loopback":        {config.Server{Listen: "[::1]:7070"}, true},
		"mapped loopback":      {config.Server{Listen: "[::ffff:127.0.0.1]:7070"}, true},
		"localhost":            {config.Server{Listen: "localhost:7070"}, true},
		"everybody":            {config.Server{Listen: "0.0.0.0:7070"}, false},
		"everybody, unsaid":    {config.Server{Listen: ":7070"}, false},
		"everybody, IPv6":      {config.Server{Listen: "[::]:7070"}, false},
		"a network":            {config.Server{Listen: "192.168.0.7:7070"}, false},
		"everybody, with TLS":  {config.Server{Listen: "0.0.0.0:7070", TLS: config.TLS{Cert: "c", Key: "k"}}, true},
		"everybody, knowingly": {config.Server{Listen: "0.0.0.0:7070", AllowPublic: true}, true},
		"no address":           {config.Server{Listen: "7070", AllowPublic: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkPublic(c.server)
			if (err == nil) != c.ok {
				t.Errorf("error = %v", err)
			}
			if f, ok := fault.As(err); err != nil && (!ok || f.Try == "") {
				t.Errorf("%v says nothing to try", err)
			}
		})
	}
}

func TestReachable(t *testing.T) {
	for address, want := range map[string]string{"127.0.0.1:7": "http://127.0.0.1:7", "0.0.0.0:7": "http://127.0.0.1:7", "[::]:7": "http://127.0.0.1:7", "[::1]:7": "http://[::1]:7"} {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := reachable(a, false); got != want {
			t.Errorf("reachable(%s) = %s, want %s", address, got, want)
		}
	}
}

// TestAStaleAddressIsNotBelieved: the admin key must not go to whoever took the port of a server that was killed.
func TestAStaleAddressIsNotBelieved(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if err := config.PrepareData(data); err != nil {
		t.Fatal(err)
	}
	if err := writeAddress(data, address{URL: "http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if _, ok := readAddress(data); ok {
		t.Error("an address was believed though nobody owns the folder")
	}
	lock := filepath.Join(data, config.Database+".lock")
	for content, want := range map[string]bool{"1\n": false, "": false, "nonsense": false, "0": false} {
		if err := os.WriteFile(lock, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := readAddress(data); ok != want {
			t.Errorf("with owner %q it was believed: %v", content, ok)
		}
	}
	c := config.Default()
	c.Storage.Data, c.Server.Listen, c.Features.Shell.Type = data, "127.0.0.1:0", config.ShellNone
	s, err := openServer(t.Context(), c, telemetry.Discard(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	if a, ok := readAddress(data); !ok || a.URL != s.url {
		t.Errorf("the owner's own address %+v was not believed", a)
	}
}

func TestTheLocalKeyStaysOnThisMachine(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, adminKey), []byte("hsk_local_secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{}
	for url, want := range map[string]string{"http://127.0.0.1:7070": "hsk_local_secret", "http://localhost:1/v1": "hsk_local_secret", "https://[::1]:1": "hsk_local_secret",
		"http://192.0.2.1:7070": "", "https://example.org": "", "http://127.0.0.1.example.org": "", "http://localhost.example.org": ""} {
		if got, err := p.apiKey(url, data); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: key %q, error %v", url, got, err)
		}
	}
	p.environ = []string{"HARDSHELL_API_KEY=hsk_given"}
	if got, err := p.apiKey("https://example.org", data); got != "hsk_given" || err != nil {
		t.Errorf("the given key: %q, %v", got, err)
	}
}

// TestKeysThroughADeepFolder: a socket's address is short, a data folder need not be.
func TestKeysThroughADeepFolder(t *testing.T) {
	c := config.Default()
	c.Storage.Data = filepath.Join(t.TempDir(), strings.Repeat("deep/", 40), "data")
	c.Server.Listen, c.Features.Shell.Type = "127.0.0.1:0", config.ShellNone
	s, err := openServer(t.Context(), c, telemetry.Discard(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	go s.control.serve()
	ring := remoteKeys{c.Storage.Data}
	key, secret, err := ring.Create(t.Context(), "acme", "test", []tenant.Scope{tenant.ScopeRun})
	if err != nil {
		t.Fatal(err)
	}
	if who, err := s.app.tenants.Authenticate(t.Context(), secret); err != nil || who.Org != "acme" {
		t.Errorf("the new key is %+v, %v", who, err)
	}
	keys, err := ring.List(t.Context(), "acme")
	if err != nil || len(keys) != 1 || keys[0].ID != key.ID {
		t.Errorf("keys = %+v, %v", keys, err)
	}
	if err := ring.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.app.tenants.Authenticate(t.Context(), secret); err == nil {
		t.Error("the revoked key still works")
	}
	if _, _, err := ring.Create(t.Context(), "no such name!", "", nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a bad name: %v", err)
	}
}

// TestAnUncleanStopIsTold: a signal explains why a server stopped, not why it could not keep what it had.
func TestAnUncleanStopIsTold(t *testing.T) {
	c := config.Default()
	c.Storage.Data, c.Server.Listen, c.Features.Shell.Type = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", config.ShellNone
	for _, broken := range []error{nil, fault.New(fault.Unavailable, "The disk that holds the database is full.").WithTry("free space on that disk")} {
		ctx, cancel := context.WithCancelCause(t.Context())
		s, err := openServer(ctx, c, telemetry.Discard(), false)
		if err != nil {
			t.Fatal(err)
		}
		closed := s.app.close
		s.app.close = func(ctx context.Context, keep bool) error {
			if err := closed(ctx, keep); err != nil {
				t.Error(err)
			}
			return broken
		}
		cancel(Signal{syscall.SIGTERM})
		err = s.serve(ctx)
		if broken == nil {
			if err != nil {
				t.Errorf("a clean stop: %v", err)
			}
			continue
		}
		var told bytes.Buffer
		p := &program{Streams: Streams{Err: &told}}
		if code := p.fail(ctx, err); code != exitFailed || !strings.Contains(told.String(), "disk") || !strings.Contains(told.String(), "\ntry: free space") {
			t.Errorf("exit %d, told %q", code, told.String())
		}
	}
}
