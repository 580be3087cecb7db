package approval

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/hardshell-dev/hardshell/fault"
)

// Book keeps what a person approved for always in a file of theirs, readable and revocable by hand as well: a person
// who deletes an entry has revoked it. Several processes may use one file.
type Book struct{ path string }

// OpenBook returns the book in a file, which need not be there yet.
func OpenBook(path string) *Book { return &Book{path: path} }

// page is the file.
type page struct {
	Grant []entry `toml:"grant"`
}

// entry is one grant in it.
type entry struct {
	ID      string    `toml:"id"`
	By      string    `toml:"by"`
	Issued  time.Time `toml:"issued"`
	Expires time.Time `toml:"expires"`
	Ended   time.Time `toml:"ended,omitempty"`
	Rules   []line    `toml:"rule"`
}

// line is one rule of a grant. It always allows.
type line struct {
	Prefix [][]string `toml:"prefix"`
	Exact  bool       `toml:"exact"`
}

// Grants are those of the book, held or not.
func (b *Book) Grants() (Grants, error) {
	p, err := b.read()
	if err != nil {
		return nil, err
	}
	var out Grants
	for _, e := range p.Grant {
		g := Grant{ID: e.ID, Scope: Always, By: e.By, Issued: e.Issued, Expires: e.Expires, Ended: e.Ended}
		for _, l := range e.Rules {
			g.Rules = append(g.Rules, Rule{Prefix: l.Prefix, Exact: l.Exact, Verdict: Allowed, Origin: Granted, File: b.path})
		}
		out = append(out, g)
	}
	return out, nil
}

// Add writes a grant for always into the book. It must have an end, and rules that may be granted.
func (b *Book) Add(g Grant) error {
	if g.Scope != Always || len(g.Rules) == 0 || g.Expires.IsZero() {
		return fault.New(fault.Invalid, "Only rules, and for a time, are approved for always.")
	}
	e := entry{ID: g.ID, By: g.By, Issued: g.Issued.UTC(), Expires: g.Expires.UTC()}
	for _, r := range g.Rules {
		if err := r.check(); err != nil {
			return err
		}
		if r.Verdict != Allowed || r.mustBeExact() && !r.Exact {
			return fault.New(fault.Forbidden, "%s can be approved only exactly.", said(&r))
		}
		e.Rules = append(e.Rules, line{Prefix: r.Prefix, Exact: r.Exact})
	}
	return b.change(func(p *page) error { p.Grant = append(p.Grant, e); return nil })
}

// Revoke ends a grant.
func (b *Book) Revoke(id string, at time.Time) error {
	return b.change(func(p *page) error {
		for i := range p.Grant {
			if e := &p.Grant[i]; e.ID == id {
				if e.Ended.IsZero() {
					e.Ended = at.UTC()
				}
				return nil
			}
		}
		return fault.New(fault.NotFound, "There is no grant %s.", id).WithTry("hardshell policy grants")
	})
}

// maxBook bounds the file: it is read before each decision.
const maxBook = 1 << 20

// read reads the file, if it is the user's own.
func (b *Book) read() (p page, err error) {
	info, err := os.Lstat(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read grants: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || info.Size() > maxBook {
		return p, fault.New(fault.Forbidden, "The grants in %s do not count: others could have written them.", b.path).WithTry("chmod 600 %s", b.path)
	}
	text, err := os.ReadFile(b.path)
	if err != nil {
		return p, fmt.Errorf("read grants: %w", err)
	}
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&p); err != nil {
		return page{}, fault.Wrap(fault.Invalid, err, "The grants in %s cannot be read.", b.path)
	}
	return p, nil
}

// change rewrites the file, whole or not at all, while nobody else does.
func (b *Book) change(edit func(*page) error) error {
	dir := filepath.Dir(b.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save grants: %w", err)
	}
	unlock, err := lock(b.path + ".lock")
	if err != nil {
		return fmt.Errorf("save grants: %w", err)
	}
	defer unlock()
	p, err := b.read()
	if err != nil {
		return err
	}
	if err := edit(&p); err != nil {
		return err
	}
	text, err := toml.Marshal(p)
	if err != nil {
		return fmt.Errorf("save grants: %w", err)
	}
	f, err := os.CreateTemp(dir, ".grants-*") // 0600
	if err != nil {
		return fmt.Errorf("save grants: %w", err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), b.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("save grants: %w", err)
	}
	return nil
}
