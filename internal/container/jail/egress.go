package jail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// Where a box with secrets finds whom to trust. Both files stand in its read-only /etc.
const (
	bundlePath = "/etc/hardshell/ca.pem"
	storePath  = "/etc/hardshell/ca.jks"
)

// keptName is the file of a container's folder, beside what it sees, that holds the authority its box trusts: a later
// process of ours that adopts the box needs it.
const keptName = "authority.pem"

// Proxied is nil: a jail has no network of its own but the proxy's port.
func (r *runtime) Proxied() error { return nil }

// exit is the way out of one box. Nil is none.
type exit struct {
	proxy     *egress.Proxy
	variables []string
	closed    bool // it lets nothing through, and says so
}

// newExit makes the proxy of a container with a network policy; adopted says that its box lives and trusts what is
// kept.
func newExit(spec container.Spec, adopted bool) (*exit, error) {
	if spec.Egress == nil {
		return nil, nil
	}
	options := *spec.Egress
	kept := filepath.Join(spec.Dir, keptName)
	if adopted && len(options.Secrets) > 0 {
		text, err := os.ReadFile(kept)
		if err != nil {
			return nil, fmt.Errorf("adopt the container's proxy: %w", err)
		}
		options.Kept = egress.NewValue(string(text))
	}
	options.Life = maxAuthority
	proxy, err := egress.New(options)
	if err != nil {
		return nil, err
	}
	if adopted && spec.Narrowed != nil {
		if err := proxy.Narrow(*spec.Narrowed); err != nil {
			proxy.Close()
			return nil, err
		}
	}
	if !adopted {
		if err := keep(kept, proxy); err != nil {
			proxy.Close()
			return nil, err
		}
	}
	return &exit{proxy: proxy, closed: options.Policy.Disabled()}, nil
}

// maxAuthority is how long a box may use its secrets without having been started anew.
const maxAuthority = 7 * 24 * time.Hour

func keep(path string, proxy *egress.Proxy) error {
	authority, err := proxy.Keep()
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the container's authority: %w", err)
	}
	text := authority.Reveal()
	if text == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("keep the container's authority: %w", err)
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// files are what the box must find in its /etc.
func (e *exit) files() ([]sandbox.File, error) {
	if e == nil || e.proxy.Certificate() == nil {
		return nil, nil
	}
	bundle := egress.Bundle(e.proxy.Certificate())
	store, err := egress.TrustStore(bundle, time.Now())
	if err != nil {
		return nil, err
	}
	return []sandbox.File{{Path: bundlePath, Text: string(bundle)}, {Path: storePath, Text: string(store)}}, nil
}

// join serves the proxy in a box.
func (e *exit) join(ctx context.Context, b *sandbox.Box) error {
	if e == nil {
		return nil
	}
	address, err := e.proxy.Join(ctx, b)
	if err != nil {
		return err
	}
	env := egress.Environment{Proxy: address, Placeholders: e.proxy.Placeholders(), Closed: e.closed}
	if e.proxy.Certificate() != nil {
		env.Bundle, env.TrustStore = bundlePath, storePath
	}
	e.variables = env.Variables()
	go func() {
		<-b.Done() // dead, closed or handed over: nobody comes out any more
		e.close()
	}()
	return nil
}

func (e *exit) close() {
	if e != nil {
		e.proxy.Close()
	}
}

// network is the box's.
func (e *exit) network() sandbox.Network {
	if e == nil || e.closed {
		return sandbox.NetworkOff
	}
	return sandbox.NetworkProxied
}

// Narrow has the proxy let through less.
func (b box) Narrow(to egress.Policy) error {
	if b.exit == nil {
		return nil
	}
	return b.exit.proxy.Narrow(to)
}

// Blocked says what the policy kept from commands since a time.
func (b box) Blocked(from int64) []string {
	if b.exit == nil {
		return nil
	}
	var lines []string
	for _, d := range b.exit.proxy.Denied(time.Unix(0, from)) {
		lines = append(lines, d.String())
	}
	return lines
}
