package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// server is the binary on one data folder and one port.
type server struct {
	binary, dir, data, config, url string

	client *http.Client
	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{}
	key    string
	log    *os.File
}

func newServer(s settings, model string) (*server, error) {
	binary, err := filepath.Abs(s.binary)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "hardshell-crash-")
	if err != nil {
		return nil, err
	}
	// A port that is free now is free again after each kill.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	srv := &server{binary: binary, dir: dir, data: filepath.Join(dir, "data"), config: filepath.Join(dir, "hardshell.toml"), url: "http://" + address,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	text := fmt.Sprintf("[providers.mock]\ntype = \"chat\"\nbase_url = %q\nmodels = [\"m\"]\n[features.shell.approval]\npolicy = \"on-request\"\n"+
		"[features.responses.compaction]\nenabled = true\nkeep_recent_items = 3\n", model)
	if err := os.WriteFile(srv.config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	srv.log, err = os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	return srv, err
}

// launch starts the process and does not wait for it.
func (s *server) launch() error {
	cmd := exec.Command(s.binary, "serve", "--listen", strings.TrimPrefix(s.url, "http://"), "--data", s.data, "--config", s.config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	s.mu.Lock()
	s.cmd, s.ended = cmd, ended
	s.mu.Unlock()
	return nil
}

// start starts the process and waits until it answers.
func (s *server) start(ctx context.Context) error {
	if err := s.launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if res, err := s.client.Get(s.url + "/healthz"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				key, err := os.ReadFile(filepath.Join(s.data, "admin.key"))
				s.mu.Lock()
				s.key = strings.TrimSpace(string(key))
				s.mu.Unlock()
				return err
			}
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the server ended by itself\n%s", s.tail())
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w\n%s", context.Cause(ctx), s.tail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// kill kills the process and waits for its end.
func (s *server) kill() {
	s.mu.Lock()
	cmd, ended := s.cmd, s.ended
	s.mu.Unlock()
	cmd.Process.Signal(syscall.SIGKILL)
	<-ended
}

// stop ends the process in order.
func (s *server) stop() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		s.kill()
		return errors.New("the server did not stop within 30 s")
	}
	return nil
}

func (s *server) remove() {
	if s.cmd != nil {
		s.kill()
	}
	// What a run that failed leaves in boxes would live on for their lease.
	for _, line := range s.strays() {
		pid, _, _ := strings.Cut(line, " ")
		if n, err := strconv.Atoi(pid); err == nil && n > 1 {
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
	s.log.Close()
	os.RemoveAll(s.dir)
}

// tail is the last that the server complained of.
func (s *server) tail() string {
	raw, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	var lines []string
	for line := range strings.Lines(string(raw)) {
		if !strings.Contains(line, `"level":"INFO"`) && !strings.Contains(line, "  ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-15):], "")
}

func (s *server) do(ctx context.Context, method, path string, body []byte, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	req.Header.Set("Authorization", "Bearer "+s.key)
	s.mu.Unlock()
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return s.client.Do(req)
}

// strays lists processes that have a mount of the data folder: what lives in a box of this server.
func (s *server) strays() (found []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err == nil && bytes.Contains(raw, []byte(s.data)) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			found = append(found, filepath.Base(filepath.Dir(name))+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
