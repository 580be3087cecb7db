package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// server is a running binary with a data folder of its own.
type server struct {
	URL, Key string
	Client   openai.Client
}

func start(t *testing.T) *server {
	t.Helper()
	bin := os.Getenv("HARDSHELL_BIN")
	if bin == "" {
		bin = filepath.Join("..", "bin", "hardshell")
	}
	data := t.TempDir()
	cmd := exec.Command(bin, "serve", "--listen", "127.0.0.1:0", "--data", data)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + data}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", bin, err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		defer timer.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server did not stop cleanly: %v\n%s", err, log.String())
		}
	})
	s := &server{}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the server did not answer:\n%s", log.String())
		}
		raw, err := os.ReadFile(filepath.Join(data, "server.json"))
		if err != nil {
			continue
		}
		var at struct{ URL string }
		if json.Unmarshal(raw, &at) != nil || at.URL == "" {
			continue
		}
		resp, err := http.Get(at.URL + "/healthz")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			s.URL = at.URL
			break
		}
	}
	key, err := os.ReadFile(filepath.Join(data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	s.Key = strings.TrimSpace(string(key))
	s.Client = openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey(s.Key), option.WithMaxRetries(0))
	return s
}
