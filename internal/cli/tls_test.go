package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/telemetry"
)

// certificate writes a certificate that nobody has signed, and its key.
func certificate(t testing.TB, name string) config.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := config.TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for path, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: cert}, files.Key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestAskOverTLS: ask trusts the certificate of the server that runs on the data folder, signed or not, and no other.
func TestAskOverTLS(t *testing.T) {
	c := config.Default()
	c.Storage.Data, c.Server.Listen = filepath.Join(t.TempDir(), "data"), "0.0.0.0:0"
	c.Features.Shell.Type, c.Server.TLS = config.ShellNone, certificate(t, "hardshell")
	c = config.WithFound(t.Context(), c, []string{"OLLAMA_HOST=127.0.0.1:1"})
	s, err := openServer(t.Context(), c, telemetry.Discard(), true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx) }()
	ask := func() (int, string, string) {
		var out, told strings.Builder
		code := Main(t.Context(), []string{"ask", "--data", c.Storage.Data, "--model", "scripted", "hello"},
			Streams{In: strings.NewReader(""), Out: &out, Err: &told}, []string{"HOME=" + t.TempDir(), "OLLAMA_HOST=127.0.0.1:1"})
		return code, out.String(), told.String()
	}
	if code, out, told := ask(); code != 0 || out == "" {
		t.Errorf("exit %d\n%s\n%s", code, out, told)
	}
	api := newClient(s.url, "k", strings.Repeat("0", 64))
	if _, err := api.do(t.Context(), "GET", "/healthz", "", nil); err == nil || !strings.Contains(err.Error(), "not the certificate") {
		t.Errorf("another certificate was trusted: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAWrongCertificateIsToldBeforeAnythingStarts(t *testing.T) {
	c := config.Default()
	c.Storage.Data, c.Server.Listen = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0"
	c.Server.TLS = config.TLS{Cert: certificate(t, "a").Cert, Key: certificate(t, "b").Key}
	if _, err := openServer(t.Context(), c, telemetry.Discard(), true); err == nil {
		t.Error("a certificate with another's key was taken")
	}
	if _, err := os.Stat(c.Storage.Data); err == nil {
		t.Error("the data folder was made")
	}
}
