package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

// controlSocket is where the owner of a data folder takes orders from whoever may open the folder. Keys are the
// operator's affair and not the API's: no key can make another one over the network.
const controlSocket = "control.sock"

// keyring is what `key` works on: the database itself, or the server that holds it.
type keyring interface {
	Create(ctx context.Context, org, name string, scopes []tenant.Scope) (tenant.Key, string, error)
	List(ctx context.Context, org string) ([]tenant.Key, error)
	Revoke(ctx context.Context, id string) error
}

// order is a request on the socket, answer what comes back.
type order struct {
	Do     string         `json:"do"` // create | list | revoke
	Org    string         `json:"org,omitempty"`
	Name   string         `json:"name,omitempty"`
	Scopes []tenant.Scope `json:"scopes,omitempty"`
	ID     string         `json:"id,omitempty"`
}

type answer struct {
	Key    tenant.Key   `json:"key"`
	Secret string       `json:"secret,omitempty"`
	Keys   []tenant.Key `json:"keys,omitempty"`
	Error  *refusal     `json:"error,omitempty"`
}

type refusal struct {
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
	Try     string     `json:"try,omitempty"`
}

// control is the server's side of the socket.
type control struct {
	path   string
	http   *http.Server
	socket net.Listener
}

// openControl listens on the socket. The data folder is ours by now, so a socket that is there is a dead one's.
func openControl(data string, keys *tenant.Service) (*control, error) {
	path := filepath.Join(data, controlSocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	var socket *net.UnixListener
	err := near(data, func(short string) (err error) {
		socket, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	socket.SetUnlinkOnClose(false) // its name may have been a short one that means nothing any more
	if err := os.Chmod(path, 0o600); err != nil {
		socket.Close()
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	ring := localKeys{keys}
	c := &control{path: path, socket: socket}
	c.http = &http.Server{ReadTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o order
		var a answer
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&o)
		if err == nil {
			a, err = obey(r.Context(), ring, o)
		}
		if err != nil {
			a = answer{Error: &refusal{Kind: fault.KindOf(err), Message: err.Error()}}
			if f, ok := fault.As(err); ok {
				a.Error.Try = f.Try
			}
		}
		json.NewEncoder(w).Encode(a) // a failed write is the client's affair
	})}
	return c, nil
}

// serve answers until close.
func (c *control) serve() { c.http.Serve(c.socket) }

func (c *control) close() {
	c.http.Close()
	c.socket.Close()
	os.Remove(c.path)
}

// obey carries an order out.
func obey(ctx context.Context, ring keyring, o order) (a answer, err error) {
	switch o.Do {
	case "create":
		a.Key, a.Secret, err = ring.Create(ctx, o.Org, o.Name, o.Scopes)
	case "list":
		a.Keys, err = ring.List(ctx, o.Org)
	case "revoke":
		err = ring.Revoke(ctx, o.ID)
	default:
		err = fault.New(fault.Invalid, "there is no order %q", o.Do)
	}
	return a, err
}

// localKeys works on the database of this process.
type localKeys struct{ tenants *tenant.Service }

func (l localKeys) Create(ctx context.Context, org, name string, scopes []tenant.Scope) (tenant.Key, string, error) {
	return l.tenants.CreateKey(ctx, org, name, scopes)
}

func (l localKeys) List(ctx context.Context, org string) ([]tenant.Key, error) {
	return l.tenants.Keys(ctx, org)
}

func (l localKeys) Revoke(ctx context.Context, id string) error { return l.tenants.Revoke(ctx, id) }

// remoteKeys gives orders to the server that owns the data folder.
type remoteKeys struct{ data string }

func (r remoteKeys) order(ctx context.Context, o order) (answer, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return answer{}, err
	}
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
			err = near(r.data, func(short string) error {
				conn, err = new(net.Dialer).DialContext(ctx, "unix", short)
				return err
			})
			return conn, err
		}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://control/", bytes.NewReader(raw))
	if err != nil {
		return answer{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, fault.Wrap(fault.Unavailable, err, "the server that owns %s does not answer", r.data).WithTry("stop it, or wait until it has started")
	}
	defer response.Body.Close()
	var a answer
	if err := json.NewDecoder(io.LimitReader(response.Body, 16<<20)).Decode(&a); err != nil {
		return answer{}, fault.Wrap(fault.Unavailable, err, "the server that owns %s does not answer", r.data)
	}
	if e := a.Error; e != nil {
		f := fault.New(e.Kind, "%s", e.Message)
		f.Try = e.Try
		return answer{}, f
	}
	return a, nil
}

func (r remoteKeys) Create(ctx context.Context, org, name string, scopes []tenant.Scope) (tenant.Key, string, error) {
	a, err := r.order(ctx, order{Do: "create", Org: org, Name: name, Scopes: scopes})
	return a.Key, a.Secret, err
}

func (r remoteKeys) List(ctx context.Context, org string) ([]tenant.Key, error) {
	a, err := r.order(ctx, order{Do: "list", Org: org})
	return a.Keys, err
}

func (r remoteKeys) Revoke(ctx context.Context, id string) error {
	_, err := r.order(ctx, order{Do: "revoke", ID: id})
	return err
}

// maxSocketPath is what a socket's address can hold, its NUL included.
const maxSocketPath = 104

// near calls do with a path of the control socket that is short enough for a socket's address. A data folder that is
// too deep is opened and named by its descriptor.
func near(data string, do func(path string) error) error {
	path := filepath.Join(data, controlSocket)
	if len(path) < maxSocketPath || runtime.GOOS != "linux" {
		return do(path)
	}
	dir, err := os.Open(data)
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), controlSocket))
}
