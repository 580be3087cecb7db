package gemini

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/llm/ambient"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	// scope is what a token is for.
	scope = "https://www.googleapis.com/auth/cloud-platform"
	// tokenURI is the vendor's, where a file names none.
	tokenURI = "https://oauth2.googleapis.com/token"
	// lifetime is how long a signed claim holds; the service allows an hour at most.
	lifetime = time.Hour
)

// read reads a token as all of the services write it.
func (c *Chain) read(raw []byte) (Token, bool) {
	var told struct {
		Value   string `json:"access_token"`
		Seconds int64  `json:"expires_in"`
	}
	if json.Unmarshal(raw, &told) != nil || told.Value == "" {
		return Token{}, false
	}
	return Token{Value: told.Value, Expires: c.Env.Time().Add(time.Duration(told.Seconds) * time.Second)}, true
}

// trade posts a form for a token.
func (c *Chain) trade(ctx context.Context, address string, form url.Values, whose string) (Token, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && !ambient.Loopback(u.Hostname()) {
		return Token{}, ambient.None("the token_uri of the Google credentials is not an https address")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return Token{}, ambient.None("the token_uri of the Google credentials is not an https address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	said, err := ambient.Far(req)
	if err != nil {
		return Token{}, ambient.None("the token service of %s cannot be reached", whose)
	}
	t, ok := c.read(said.Body)
	if !ok || !said.OK {
		var refusal struct {
			Error string `json:"error"`
		}
		json.Unmarshal(said.Body, &refusal) // another form says nothing of use
		return Token{}, ambient.None("the token service refused %s: %.40q", whose, cmp.Or(refusal.Error, "no token")).WithTry("credentials that have not been revoked, and a clock that is right")
	}
	return t, nil
}

// serviceAccount signs a claim with the account's key (RFC 7523).
func (c *Chain) serviceAccount(ctx context.Context, keys credentials) (Token, error) {
	if keys.TokenURI == "" {
		keys.TokenURI = tokenURI
	}
	claim, err := keys.claim(c.Env.Time())
	if err != nil {
		return Token{}, ambient.None("the private_key of the service account %s cannot be used: %s", keys.ClientEmail, err).
			WithTry("the file as the console gave it")
	}
	t, err := c.trade(ctx, keys.TokenURI, url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {claim}},
		"the service account "+keys.ClientEmail)
	t.Project, t.Quota = keys.ProjectID, keys.QuotaProject
	return t, err
}

// claim is a signed JWT. An error says nothing of the key.
func (k credentials) claim(now time.Time) (string, error) {
	block, _ := pem.Decode([]byte(k.PrivateKey))
	if block == nil {
		return "", errors.New("it is not PEM")
	}
	var key *rsa.PrivateKey
	if any, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		key, _ = any.(*rsa.PrivateKey)
	} else {
		key, _ = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	if key == nil {
		return "", errors.New("it is no RSA key")
	}
	header, err := openai.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": k.PrivateKeyID})
	if err != nil {
		return "", err
	}
	body, err := openai.Marshal(map[string]any{"iss": k.ClientEmail, "scope": scope, "aud": k.TokenURI,
		"iat": now.Unix(), "exp": now.Add(lifetime).Unix()})
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	text := enc.EncodeToString(header) + "." + enc.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	signed, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", errors.New("it cannot sign")
	}
	return text + "." + enc.EncodeToString(signed), nil
}

// authorizedUser trades the refresh token that gcloud got for a person.
func (c *Chain) authorizedUser(ctx context.Context, keys credentials) (Token, error) {
	if keys.TokenURI == "" {
		keys.TokenURI = tokenURI
	}
	t, err := c.trade(ctx, keys.TokenURI, url.Values{"grant_type": {"refresh_token"}, "client_id": {keys.ClientID},
		"client_secret": {keys.ClientSecret}, "refresh_token": {keys.RefreshToken}}, "the person of the credentials")
	t.Project, t.Quota = keys.ProjectID, keys.QuotaProject
	return t, err
}
