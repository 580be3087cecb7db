package tenant

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// DefaultOrg is the organisation of the key that the first start makes.
const DefaultOrg = "default"

// Bootstrap sees to it that path holds a key that works: it keeps one that does and otherwise makes a key for the
// default organisation (run and admin) and writes it there, readable by this user only. A file that it may not trust
// is refused, not replaced.
func (s *Service) Bootstrap(ctx context.Context, path string) (created bool, err error) {
	token, err := ReadKey(path)
	switch {
	case err == nil:
		if _, err := s.Authenticate(ctx, token); err == nil {
			return false, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	key, secret, err := s.CreateKey(ctx, DefaultOrg, "admin.key", []Scope{ScopeAdmin, ScopeRun})
	if err != nil {
		return false, fmt.Errorf("make the admin key: %w", err)
	}
	if err := writeKey(path, secret); err != nil {
		// Nobody will ever know this key; it must not stay good.
		return false, errors.Join(fmt.Errorf("write the admin key: %w", err), s.Revoke(context.WithoutCancel(ctx), key.ID))
	}
	return true, nil
}

// writeKey puts the key in place whole or not at all, never through a link that somebody else has laid.
func writeKey(path, secret string) error {
	temp := filepath.Join(filepath.Dir(path), ".admin.key-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(temp) // gone already when all went well
	_, err = f.WriteString(secret + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// maxKeyFile bounds what is read of a key file; a key has about 85 bytes.
const maxKeyFile = 4096

// ReadKey reads a key file. It refuses a link, a file of another user, and a file that others may read: a key that
// was open to others is no secret. An absent file is fault.NotFound and fs.ErrNotExist.
func ReadKey(path string) (string, error) {
	f, err := openKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.Wrap(fault.NotFound, err, "There is no key file %s.", path)
	}
	if err != nil {
		return "", fault.Wrap(fault.Forbidden, err, "The key file %s cannot be read.", path).WithTry("the user who started the server, or HARDSHELL_API_KEY")
	}
	defer f.Close()
	if err := trusted(f, path); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "The key file %s cannot be read.", path)
	}
	return strings.TrimSpace(string(b)), nil
}
