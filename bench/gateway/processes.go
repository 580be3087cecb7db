package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func waitForEOF(b []byte) {
	for {
		if _, err := os.Stdin.Read(b); err != nil {
			return
		}
	}
}

// processes are what this program started. They stay in its process group and end with it.
type processes struct {
	all []process
}

type process struct {
	*exec.Cmd
	in    io.Closer     // nil = ended by a signal alone
	ended chan struct{} // closed when it is gone
}

func (p *processes) start(cmd *exec.Cmd, in io.Closer) (ended chan struct{}, err error) {
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	ended = make(chan struct{})
	go func() {
		cmd.Wait() // how it ended shows in its log
		close(ended)
	}()
	p.all = append(p.all, process{cmd, in, ended})
	return ended, nil
}

// last is the process that was started last.
func (p *processes) last() int { return p.all[len(p.all)-1].Process.Pid }

// child starts this program again as the mock or the floor and returns its URL.
func (p *processes) child(ctx context.Context, kind string, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"-child", kind}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // its end tells the child to go
	if err != nil {
		return "", err
	}
	out, said := io.Pipe()
	cmd.Stdout = said
	ended, err := p.start(cmd, in)
	if err != nil {
		return "", err
	}
	go func() { <-ended; said.Close() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the address of the %s: %w", kind, err)
	}
	return strings.TrimSpace(line), nil
}

func build(ctx context.Context, binary string, profiled bool) error {
	args := []string{"build", "-trimpath", "-o", binary}
	if profiled {
		args = append(args, "-tags", "profile")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/hardshell-dev/hardshell/cmd/hardshell")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build hardshell: %w\n%s", err, out)
	}
	return nil
}

// hardshell serves from a fresh data folder with the mock as its only provider, and returns its URL and key.
func (p *processes) hardshell(ctx context.Context, s settings, d dialect, mock string) (url, key string, err error) {
	data := filepath.Join(s.dir, "data")
	conf := filepath.Join(s.dir, "hardshell.toml")
	text := fmt.Sprintf("[providers.mock]\ntype = %q\nbase_url = %q\napi_key = \"none\"\nmodels = [\"mock\", %q]\n", d.name, mock+d.base, s.pacedModel())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return "", "", err
	}
	// The access log is on, as it is for everybody, and goes to a file.
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return "", "", err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, s.binary, "serve", "--listen", "127.0.0.1:0", "--data", data, "--config", conf)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + os.TempDir()}
	for _, name := range []string{"GOMAXPROCS", "GODEBUG", "GOGC", "GOMEMLIMIT"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	if s.profile != "" {
		cmd.Env = append(cmd.Env, "HARDSHELL_CPUPROFILE="+filepath.Join(s.profile, d.name+".pprof"))
	}
	cmd.Stderr = log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	ended, err := p.start(cmd, nil)
	if err != nil {
		return "", "", err
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var address struct {
			URL string `json:"url"`
		}
		raw, err := os.ReadFile(filepath.Join(data, "server.json"))
		if err == nil && json.Unmarshal(raw, &address) == nil && address.URL != "" {
			secret, err := os.ReadFile(filepath.Join(data, "admin.key"))
			return address.URL, strings.TrimSpace(string(secret)), err
		}
		gone := false
		select {
		case <-ended:
			gone = true
		default:
		}
		if gone || time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			return "", "", errors.New("hardshell did not come up:\n" + string(said))
		}
	}
}

// stop ends every process and waits for it.
func (p *processes) stop() {
	for _, c := range p.all {
		if c.in != nil {
			c.in.Close()
		}
		c.Process.Signal(syscall.SIGTERM) // fails for one that is gone
	}
	for _, c := range p.all {
		<-c.ended
	}
}
