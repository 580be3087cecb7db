package container

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// sealName is the file of the service's folder that holds the key under which secrets stand in rows. A copy of the
// database alone shows none.
const sealName = "seal.key"

// sealer encrypts what must not stand in a row as it is.
type sealer struct{ aead cipher.AEAD }

func newSealer(dir string) (sealer, error) {
	path := filepath.Join(dir, sealName)
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, 32)
		rand.Read(key)
		err = replaceFile(path, string(key)) // 0600, as every file of CreateTemp
	}
	if err == nil && len(key) != 32 {
		err = errors.New("it has not 32 bytes")
	}
	if err != nil {
		return sealer{}, fmt.Errorf("read %s: %w", sealName, err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

// sealed is a secret as it is sealed, with the placeholder that the container's commands know.
type sealed struct {
	Name        string   `json:"name"`
	Value       string   `json:"value"`
	Hosts       []string `json:"hosts"`
	Placeholder string   `json:"placeholder"`
}

// seal closes the secrets of a container. The text is bound to the container: in another's row it opens nothing.
func (s sealer) seal(id string, secrets []egress.Secret) (string, error) {
	if len(secrets) == 0 {
		return "", nil
	}
	list := make([]sealed, len(secrets))
	placeholders := map[string]string{} // one a variable
	for i, secret := range secrets {
		if placeholders[secret.Name] == "" {
			placeholders[secret.Name] = egress.NewPlaceholder()
		}
		list[i] = sealed{secret.Name, secret.Value.Reveal(), secret.Hosts, placeholders[secret.Name]}
	}
	plain, err := json.Marshal(list)
	if err != nil {
		return "", errors.New("seal secrets") // json's own error could quote one
	}
	return base64.RawStdEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(id))), nil
}

func (s sealer) open(id, text string) ([]egress.Secret, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("open secrets: %w", err)
	}
	plain, err := s.aead.Open(nil, nil, raw, []byte(id))
	if err != nil {
		return nil, fmt.Errorf("open secrets: %w", err)
	}
	var list []sealed
	if json.Unmarshal(plain, &list) != nil {
		return nil, errors.New("open secrets: they are not readable")
	}
	secrets := make([]egress.Secret, len(list))
	for i, l := range list {
		secrets[i] = egress.Secret{Name: l.Name, Value: egress.NewValue(l.Value), Hosts: l.Hosts, Placeholder: l.Placeholder}
	}
	return secrets, nil
}

// Seal closes what must not stand in a row as it is. The text is bound to its owner: for another it opens nothing.
func (s *Service) Seal(owner string, plain []byte) string {
	return base64.RawStdEncoding.EncodeToString(s.seal.aead.Seal(nil, nil, plain, []byte("owner "+owner)))
}

// Unseal opens what Seal has closed, here or in an earlier run on the same data folder.
func (s *Service) Unseal(owner, text string) ([]byte, error) {
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("open what was sealed: %w", err)
	}
	plain, err := s.seal.aead.Open(nil, nil, raw, []byte("owner "+owner))
	if err != nil {
		return nil, fmt.Errorf("open what was sealed: %w", err)
	}
	return plain, nil
}
