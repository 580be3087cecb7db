package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/blob/blobtest"
	"github.com/hardshell-dev/hardshell/internal/require"
)

// TestS3 holds the store to its contract against a real S3 server, the one that tools/s3 names.
func TestS3(t *testing.T) {
	o := server(t)
	blobtest.Run(t, func(t testing.TB) blob.Store { return open(t, o) })
	t.Run("a prefix", func(t *testing.T) {
		with := o
		with.Prefix = "tenant-a/"
		a, plain := open(t, with), open(t, o)
		ctx := context.Background()
		if _, err := a.Put(ctx, "x", strings.NewReader("of a")); err != nil {
			t.Fatal(err)
		}
		if _, err := plain.Open(ctx, "x", 0, -1); fault.KindOf(err) != fault.NotFound {
			t.Errorf("without the prefix: %v", err)
		}
		r, err := plain.Open(ctx, "tenant-a/x", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if data, _ := io.ReadAll(r); string(data) != "of a" {
			t.Errorf("under its whole name: %q", data)
		}
	})
	t.Run("a wrong key", func(t *testing.T) {
		wrong := o
		wrong.SecretKey = "not-the-secret-at-all"
		_, err := open(t, wrong).Put(context.Background(), "x", strings.NewReader("x"))
		if fault.KindOf(err) != fault.Unavailable || strings.Contains(err.Error(), wrong.SecretKey) {
			t.Errorf("put: %v", err)
		}
	})
	t.Run("a bucket that is not there", func(t *testing.T) {
		wrong := o
		wrong.Bucket = "absent-bucket"
		s := open(t, wrong)
		if _, err := s.Open(context.Background(), "x", 0, -1); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("open: %v: a bucket that is not there is no missing file", err)
		}
		if err := s.Delete(context.Background(), "x"); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("delete: %v", err)
		}
	})
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// server starts the S3 server that HARDSHELL_S3_SERVER or the PATH names, with a bucket.
func server(t *testing.T) Options {
	t.Helper()
	path := os.Getenv("HARDSHELL_S3_SERVER")
	var err error
	if path == "" {
		path, err = exec.LookPath("versitygw")
	}
	require.Feature(t, "s3", err)
	dir, secret := t.TempDir(), rand.Text()
	if err := os.Mkdir(filepath.Join(dir, "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	cmd := exec.Command(path, "--port", address, "posix", "--sidecar", t.TempDir(), dir)
	cmd.Env = []string{"ROOT_ACCESS_KEY=tester", "ROOT_SECRET_KEY=" + secret, "HOME=" + dir}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			cmd.Process.Kill()
			cmd.Wait()
			t.Fatalf("the S3 server does not listen:\n%s", log.String())
		}
	}
	return Options{Endpoint: "http://" + address, Bucket: "bucket", AccessKey: "tester", SecretKey: secret, PathStyle: true}
}

// TestVendorsExample signs the example of the vendor's own documentation ("GET Object").
func TestVendorsExample(t *testing.T) {
	s := open(t, Options{Endpoint: "https://s3.amazonaws.com", Bucket: "examplebucket", AccessKey: "AKIAIOSFODNN7EXAMPLE",
		SecretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", Clock: func() time.Time { return time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC) }})
	req, err := http.NewRequest(http.MethodGet, s.base.String()+"test.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=0-9")
	s.sign(req, nil)
	const want = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
	if got := req.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+want) {
		t.Errorf("signed %s, want signature %s", got, want)
	}
}

// TestATemporaryFailureIsTriedAgain: and an upload that is given up is aborted.
func TestATemporaryFailureIsTriedAgain(t *testing.T) {
	var asked, aborted atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && !r.URL.Query().Has("partNumber") && asked.Add(1) < 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Method == http.MethodPost:
			io.WriteString(w, `<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>`)
		case r.Method == http.MethodDelete && r.URL.Query().Get("uploadId") == "u1":
			aborted.Add(1)
		}
	}))
	defer h.Close()
	s := open(t, Options{Endpoint: h.URL, Bucket: "b", AccessKey: "a", SecretKey: "s", PathStyle: true})
	if n, err := s.Put(context.Background(), "x", strings.NewReader("four")); err != nil || n != 4 || asked.Load() != 3 {
		t.Errorf("put: %d, %v after %d requests", n, err, asked.Load())
	}
	broken := errors.New("gone")
	r := io.MultiReader(io.LimitReader(zeros{}, partSize+1), failing{broken})
	if _, err := s.Put(context.Background(), "x", r); !errors.Is(err, broken) || aborted.Load() != 1 {
		t.Errorf("a client that goes away: %v, %d aborts", err, aborted.Load())
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestOpenRefusesHalfAConfiguration(t *testing.T) {
	for _, o := range []Options{{}, {Endpoint: "s3.example.com", Bucket: "b", AccessKey: "a", SecretKey: "s"},
		{Endpoint: "https://s3.example.com", AccessKey: "a", SecretKey: "s"}, {Endpoint: "https://s3.example.com", Bucket: "b"},
		{Endpoint: "https://s3.example.com/path", Bucket: "b", AccessKey: "a", SecretKey: "s"}} {
		if _, err := Open(o); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
