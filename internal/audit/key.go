package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// The names in an audit folder beside the writers' own.
const (
	keyName     = "key"     // the private half, for its owner only
	publicName  = "key.pub" // the public half
	writersName = "writers"
	logSuffix   = ".jsonl"
	headSuffix  = ".head"
)

// Fingerprint is a key's digest: what a person compares.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:16])
}

// loadKey reads the folder's key, or makes one. The writers' list is locked by the caller, so it is made once.
func loadKey(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, keyName)
	text, err := readOwn(path)
	if errors.Is(err, os.ErrNotExist) {
		return makeKey(dir)
	}
	if err != nil {
		return nil, err
	}
	seed, err := strict64.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fault.New(fault.Internal, "the audit key %s cannot be read", path)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func makeKey(dir string) (ed25519.PrivateKey, error) {
	if old, _ := filepath.Glob(filepath.Join(dir, "*"+headSuffix)); len(old) > 0 {
		return nil, fault.New(fault.Internal, "the audit folder %s has records and no key", dir).
			WithTry("put the key back, or move the folder away: a new one is begun")
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the audit key: %w", err)
	}
	if err := replace(dir, publicName, []byte(strict64.EncodeToString(public)+"\n"), true); err != nil {
		return nil, err
	}
	if err := replace(dir, keyName, []byte(strict64.EncodeToString(key.Seed())+"\n"), true); err != nil {
		return nil, err
	}
	if err := settlePath(dir); err != nil {
		return nil, err
	}
	return key, nil
}

// loadPublic reads the public half alone: it is enough to verify.
func loadPublic(dir string) (ed25519.PublicKey, error) {
	text, err := readOwn(filepath.Join(dir, publicName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "there is no audit in %s yet", dir).WithTry("--data DIR, with the data folder of what wrote one")
	}
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "there is no audit in %s", dir)
	}
	key, err := strict64.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fault.New(fault.Internal, "the audit folder's public key cannot be read")
	}
	return key, nil
}

// readOwn reads a small file that is no link.
func readOwn(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, fmt.Errorf("read the audit: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the audit: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fault.New(fault.Internal, "%s in the audit folder is no file", filepath.Base(path))
	}
	return io.ReadAll(io.LimitReader(f, maxLine))
}

// replace writes a file as a whole, or not at all. A lasting one is on the disk before it has its name.
func replace(dir, name string, text []byte, lasting bool) error {
	f, err := os.CreateTemp(dir, "."+name+"-*") // 0600
	if err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	_, err = f.Write(text)
	if err == nil && lasting {
		err = settle(f)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write the audit: %w", err)
	}
	return nil
}
