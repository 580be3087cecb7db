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

	bin, data string
	config    string   // a file, or none
	env       []string // beside the usual
	cmd       *exec.Cmd
	log       bytes.Buffer // to be read when the server has ended
}

func start(t *testing.T) *server {
	t.Helper()
	return startWith(t, "")
}

// startWith starts the binary with a configuration and more variables.
func startWith(t *testing.T, config string, env ...string) *server {
	t.Helper()
	bin := os.Getenv("HARDSHELL_BIN")
	if bin == "" {
		bin = filepath.Join("..", "bin", "hardshell")
	}
	s := &server{bin: bin, data: t.TempDir(), env: env}
	if config != "" {
		s.config = filepath.Join(t.TempDir(), "hardshell.toml")
		if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.launch(t)
	t.Cleanup(func() { s.stop(t) })
	return s
}

// launch starts the binary on the data folder, on a port of its choice.
func (s *server) launch(t *testing.T) {
	t.Helper()
	s.log.Reset()
	args := []string{"serve", "--listen", "127.0.0.1:0", "--data", s.data}
	if s.config != "" {
		args = append(args, "--config", s.config)
	}
	s.cmd = exec.Command(s.bin, args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.data}, s.env...)
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", s.bin, err)
	}
	probe := http.Client{Timeout: 10 * time.Second}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			s.cmd.Process.Kill()
			s.cmd.Wait()
			t.Fatalf("the server did not answer\n%s", s.log.String())
		}
		raw, err := os.ReadFile(filepath.Join(s.data, "server.json"))
		if err != nil {
			continue
		}
		var at struct{ URL string }
		if json.Unmarshal(raw, &at) != nil || at.URL == "" {
			continue
		}
		resp, err := probe.Get(at.URL + "/healthz")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			s.URL = at.URL
			break
		}
	}
	key, err := os.ReadFile(filepath.Join(s.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	s.Key = strings.TrimSpace(string(key))
	s.Client = openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey(s.Key), option.WithMaxRetries(0))
}

// stop ends the server in order.
func (s *server) stop(t *testing.T) {
	t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.ended(t)
}

// ended waits for a server that has been told to end.
func (s *server) ended(t *testing.T) {
	t.Helper()
	timer := time.AfterFunc(20*time.Second, func() { s.cmd.Process.Kill() })
	defer timer.Stop()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server did not stop cleanly: %v\n%s", err, s.log.String())
	}
}
