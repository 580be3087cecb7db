package compact

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// KeyFile is the file of the data folder with the key under which windows are sealed.
const KeyFile = "compaction.key"

// version begins every sealed window.
const version = "hsc1"

// maxOpened bounds what a sealed window may unfold to. One that we sealed ourselves is no larger.
const maxOpened = 128 << 20

// Sealer seals windows, so that a client can carry one and neither read nor change it. The zero value seals nothing.
type Sealer struct{ aead cipher.AEAD }

// NewSealer makes a sealer with a key that is nowhere else: what it seals nobody opens after it.
func NewSealer() Sealer {
	key := make([]byte, 32)
	rand.Read(key) // documented never to fail
	s, err := sealerOf(key)
	if err != nil {
		panic("compact.NewSealer: " + err.Error()) // a key of 32 bytes is always taken
	}
	return s
}

// OpenSealer makes a sealer with the key in a file, which it makes where it is missing, for its owner alone.
func OpenSealer(path string) (Sealer, error) {
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = newKey(path)
	}
	if err == nil && len(key) != 32 {
		err = errors.New("it has not 32 bytes")
	}
	if err != nil {
		return Sealer{}, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return sealerOf(key)
}

// newKey writes a key under a name of its own and then gives it its name, so that no half of one is ever read.
func newKey(path string) ([]byte, error) {
	key := make([]byte, 32)
	rand.Read(key)
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-") // 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(key)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return key, err
}

func sealerOf(key []byte) (Sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return Sealer{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return Sealer{aead}, err
}

// Seals says whether the sealer has a key.
func (s Sealer) Seals() bool { return s.aead != nil }

// Seal closes a window for an organisation and the key that asks. In another's hands it opens nothing.
func (s Sealer) Seal(org, key string, w Window) (string, error) {
	plain, err := openai.Marshal(w)
	if err != nil {
		return "", fmt.Errorf("seal conversation: %w", err)
	}
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err == nil {
		_, err = z.Write(plain)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return "", fmt.Errorf("seal conversation: %w", err)
	}
	return strings.Join([]string{version, encode([]byte(key)), encode(s.aead.Seal(nil, nil, b.Bytes(), bound(org, key)))}, "."), nil
}

// strict takes every text for one sequence of bytes only.
var strict = base64.RawURLEncoding.Strict()

func encode(b []byte) string { return strict.EncodeToString(b) }

// bound is what a sealed window is bound to.
func bound(org, key string) []byte {
	raw, err := json.Marshal([]string{version, org, key})
	if err != nil { // strings always marshal
		return nil
	}
	return raw
}

// Open opens a window that was sealed for an organisation and a key. An empty key is any of the organisation's: so is read
// what the server itself has kept.
func (s Sealer) Open(org, key, text string) (Window, error) {
	var w Window
	fields := strings.Split(text, ".")
	if len(fields) != 3 || fields[0] != version || s.aead == nil {
		return w, refused(nil)
	}
	whose, err := strict.DecodeString(fields[1])
	if err != nil || key != "" && string(whose) != key {
		return w, refused(err)
	}
	closed, err := strict.DecodeString(fields[2])
	if err != nil {
		return w, refused(err)
	}
	packed, err := s.aead.Open(nil, nil, closed, bound(org, string(whose)))
	if err != nil {
		return w, refused(err)
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxOpened))
	if err == nil {
		err = json.Unmarshal(plain, &w)
	}
	if err != nil {
		return Window{}, refused(err)
	}
	return w, nil
}

// refused is the same for everything that does not open: whose it is is nobody's business.
func refused(cause error) error {
	return fault.Wrap(fault.Invalid, cause, "The encrypted_content of this compaction item can't be opened: it was made elsewhere, for another "+
		"organisation or key, or it was changed.").WithCode("invalid_compaction").
		WithTry("the item as it was given out, with the key that asked for it, or the conversation itself")
}
