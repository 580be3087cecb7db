package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

type keyCommand struct {
	Create keyCreateCommand `cmd:"" help:"Create a key; the secret is printed this once."`
	List   keyListCommand   `cmd:"" help:"List an organisation's keys, without secrets."`
	Revoke keyRevokeCommand `cmd:"" help:"Revoke a key, at once."`
}

// withKeys works on the data folder's keys: through the server that owns the folder while there is one, else on the
// database itself.
func (p *program) withKeys(ctx context.Context, g globals, do func(keyring) error) error {
	loaded, err := p.load(g)
	if err != nil {
		return err
	}
	data := loaded.Config.Storage.Data
	if err := config.PrepareData(data); err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(data, config.Database)})
	if fault.KindOf(err) == fault.Conflict {
		return do(remoteKeys{data})
	}
	if err != nil {
		return err
	}
	defer db.Close()
	tenants, err := tenant.New(ctx, db)
	if err != nil {
		return err
	}
	return do(localKeys{tenants})
}

type keyCreateCommand struct {
	globals
	Org   string   `default:"default" help:"The organisation that the key belongs to; it is made when it is new (default: default)."`
	Name  string   `help:"What the key is for, for people."`
	Scope []string `enum:"run,approve,admin,metrics" default:"run" help:"What the key may do: run (use the API), approve (answer questions), admin, metrics (read /metrics, and nothing else). Repeat, or separate with commas (default: run)."`
	JSON  bool     `help:"Print a JSON object."`
}

func (keyCreateCommand) Help() string {
	return `The key alone is printed on stdout. It works at once, also while a server runs.

Example:

  export HARDSHELL_API_KEY=$(hardshell key create --org research --name notebook)
`
}

// Run makes a key.
func (c keyCreateCommand) Run(ctx context.Context, p *program) error {
	scopes := make([]tenant.Scope, len(c.Scope))
	for i, s := range c.Scope {
		scopes[i] = tenant.Scope(s)
	}
	return p.withKeys(ctx, c.globals, func(ring keyring) error {
		key, secret, err := ring.Create(ctx, c.Org, c.Name, scopes)
		if err != nil {
			return err
		}
		if c.JSON {
			shown := showKey(key)
			shown.Secret = secret
			return writeJSON(p.Out, shown)
		}
		fmt.Fprintf(p.Err, "%s of organisation %s, for %s. It is shown this once:\n", key.ID, key.Org, strings.Join(c.Scope, ", "))
		_, err = fmt.Fprintln(p.Out, secret)
		return err
	})
}

// shownKey is a key as JSON.
type shownKey struct {
	ID      string         `json:"id"`
	Org     string         `json:"org"`
	Name    string         `json:"name"`
	Scopes  []tenant.Scope `json:"scopes"`
	Created time.Time      `json:"created"`
	Revoked *time.Time     `json:"revoked,omitempty"`
	Secret  string         `json:"key,omitempty"`
}

func showKey(k tenant.Key) shownKey {
	s := shownKey{ID: k.ID, Org: k.Org, Name: k.Name, Scopes: k.Scopes, Created: k.Created}
	if !k.Revoked.IsZero() {
		s.Revoked = &k.Revoked
	}
	return s
}

type keyListCommand struct {
	globals
	Org  string `default:"default" help:"The organisation (default: default)."`
	JSON bool   `help:"Print a JSON list."`
}

func (keyListCommand) Help() string { return "Example:\n\n  hardshell key list --org research\n" }

// Run lists keys.
func (c keyListCommand) Run(ctx context.Context, p *program) error {
	return p.withKeys(ctx, c.globals, func(ring keyring) error {
		keys, err := ring.List(ctx, c.Org)
		if err != nil {
			return err
		}
		if c.JSON {
			list := make([]shownKey, len(keys))
			for i, k := range keys {
				list[i] = showKey(k)
			}
			return writeJSON(p.Out, list)
		}
		table := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tSCOPES\tCREATED\tSTATE\tNAME")
		for _, k := range keys {
			state := "good"
			if !k.Revoked.IsZero() {
				state = "revoked " + k.Revoked.Format(time.DateTime)
			}
			scopes := make([]string, len(k.Scopes))
			for i, s := range k.Scopes {
				scopes[i] = string(s)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", k.ID, strings.Join(scopes, ","), k.Created.Format(time.DateTime), state, visible(k.Name))
		}
		return table.Flush()
	})
}

type keyRevokeCommand struct {
	globals
	ID string `arg:"" help:"The key's id, from key list."`
}

func (keyRevokeCommand) Help() string {
	return "Example:\n\n  hardshell key revoke key_06ejz3…\n"
}

// Run revokes a key.
func (c keyRevokeCommand) Run(ctx context.Context, p *program) error {
	return p.withKeys(ctx, c.globals, func(ring keyring) error {
		if err := ring.Revoke(ctx, c.ID); err != nil {
			return err
		}
		_, err := fmt.Fprintf(p.Err, "%s is revoked\n", c.ID)
		return err
	})
}
