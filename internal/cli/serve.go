package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/telemetry"
)

type serveCommand struct {
	globals
	Listen      string `placeholder:"ADDR" help:"Address and port (default: 127.0.0.1:7070; port 0 takes a free one)."`
	AllowPublic bool   `help:"Listen on an address that is not loopback without TLS."`
}

func (serveCommand) Help() string {
	return `Needs no file, no flag and no network. The first start writes admin.key into the data folder. SIGTERM or SIGINT
stops it: what a client waits for has 3 s to end by itself, background responses and their commands go on at the next
start, exit code 0; a second one ends it at once. Everything that it says is on stderr.

Example:

  hardshell serve --listen 127.0.0.1:7070 --data ./data
`
}

// Run serves until a signal.
func (c serveCommand) Run(ctx context.Context, p *program) error {
	loaded, err := p.load(c.globals)
	if err != nil {
		return err
	}
	conf := config.WithFound(ctx, loaded.Config, p.environ)
	if c.Listen != "" {
		conf.Server.Listen = c.Listen
	}
	conf.Server.AllowPublic = conf.Server.AllowPublic || c.AllowPublic
	logger, err := telemetry.New(p.Err, telemetry.Options{Level: conf.Log.Level, Format: conf.Log.Format, Terminal: terminal(p.Err)})
	if err != nil {
		return err
	}
	s, err := openServer(ctx, conf, logger, true)
	if err != nil {
		return err
	}
	p.banner(s)
	if p.getenv("GOGC") == "" {
		defer relaxCollector()()
	}
	start := time.Now()
	if err := s.serve(ctx); err != nil {
		return err
	}
	logger.Info("stopped", "cause", fmt.Sprint(context.Cause(ctx)), "served", time.Since(start).Round(time.Millisecond).String())
	return nil
}

// While little is alive, collecting at Go's pace costs a fifth of a busy server's time: most of what a request needs
// dies with it. So a small heap may grow fivefold before it is collected, and a large one doubles as usual.
const (
	relaxedPercent = 400
	relaxedBelow   = 64 << 20 // bytes alive
)

// relaxCollector keeps the collector's pace right until stop is called. It looks after every collection.
func relaxCollector() (stop func()) {
	normal := debug.SetGCPercent(relaxedPercent)
	var stopped atomic.Bool
	now := relaxedPercent
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	type token struct{ _ *byte } // dies in each collection; with a pointer in it, so that it is not allocated among others
	var look func(*token)
	look = func(*token) {
		if stopped.Load() {
			return
		}
		metrics.Read(live)
		want := normal
		if live[0].Value.Uint64() < relaxedBelow {
			want = relaxedPercent
		}
		if want != now { // setting it stops the world
			debug.SetGCPercent(want)
			now = want
		}
		runtime.SetFinalizer(new(token), look)
	}
	runtime.SetFinalizer(new(token), look)
	return func() {
		stopped.Store(true)
		debug.SetGCPercent(normal)
	}
}

// banner says where everything is and how strong it is.
func (p *program) banner(s *server) {
	data := s.config.Storage.Data
	key := "key in " + p.tilde(filepath.Join(data, adminKey))
	if s.madeKey {
		key += " (new)"
	}
	line := func(name, text string) { fmt.Fprintf(p.Err, "%-8s %s\n", name, text) }
	line("api", s.url+"/v1     "+key)
	line("models", modelsLine(s.config))
	shell, remedy := shellLine(s)
	line("shell", shell)
	if remedy != "" {
		line("", "try: "+remedy)
	}
	line("data", p.tilde(data))
}

// modelsLine names the providers and where each was found.
func modelsLine(c config.Config) string {
	var parts []string
	for _, name := range c.ProviderNames() {
		origin := c.Providers[name].Origin
		if origin == "" {
			origin = "configured"
		}
		parts = append(parts, name+", "+origin)
	}
	return strings.Join(parts, "; ")
}

// shellLine tells the truth about hosted shells, and the remedy where there are none.
func shellLine(s *server) (text, remedy string) {
	f := s.app.shell
	if f.Available != nil {
		e, ok := fault.As(f.Available)
		if !ok {
			return "none: " + f.Available.Error(), "hardshell doctor"
		}
		return "none: " + e.Message, e.Try
	}
	text = f.Runtime
	if f.Runtime == config.ShellJail {
		text += ": namespaces, Landlock, seccomp"
	}
	if len(f.Isolation.Missing) > 0 {
		text += " · missing " + strings.Join(f.Isolation.Missing, ", ") + ", see hardshell doctor"
	}
	return text, ""
}

// tilde shortens the home folder, for people.
func (p *program) tilde(path string) string {
	home := p.getenv("HOME")
	if rest, ok := strings.CutPrefix(path, home+string(os.PathSeparator)); ok && home != "" {
		return "~/" + rest
	}
	return path
}
