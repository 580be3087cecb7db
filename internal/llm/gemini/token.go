package gemini

import (
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
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	// scope is what a token is for.
	scope = "https://www.googleapis.com/auth/cloud-platform"
	// tokenURI is the vendor's, where a file names none.
	tokenURI = "https://oauth2.googleapis.com/token"
	// lifetime is how long a signed claim holds; the service allows an hour at most.
	lifetime = time.Hour
	// maxAnswer bounds what is read of a service that gives tokens.
	maxAnswer = 64 << 10
)

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// near asks the service beside this process; no proxy stands between, and where there is none nobody waits long.
// tokenService may be behind a proxy.
var (
	near = &http.Client{
		Timeout:       5 * time.Second,
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, DisableKeepAlives: true},
		CheckRedirect: noRedirect,
	}
	tokenService = &http.Client{Timeout: lookup, CheckRedirect: noRedirect}
)

// fetch asks one of them. An answer that is not 200 is empty; why is the code that an OAuth service gives.
func fetch(client *http.Client, req *http.Request) (raw []byte, why string, err error) {
	res, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil || res.StatusCode == http.StatusOK {
		return raw, "", err
	}
	var said struct {
		Error string `json:"error"`
	}
	json.Unmarshal(raw, &said) // another form says nothing of use
	return nil, said.Error, nil
}

// read reads a token as all of the services write it.
func (c *Chain) read(raw []byte) (Token, bool) {
	var told struct {
		Value   string `json:"access_token"`
		Seconds int64  `json:"expires_in"`
	}
	if json.Unmarshal(raw, &told) != nil || told.Value == "" {
		return Token{}, false
	}
	return Token{Value: told.Value, Expires: c.now().Add(time.Duration(told.Seconds) * time.Second)}, true
}

// trade posts a form for a token.
func (c *Chain) trade(ctx context.Context, address string, form url.Values, whose string) (Token, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && !loopback(u.Hostname()) {
		return Token{}, none("the token_uri of the Google credentials is not an https address")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return Token{}, none("the token_uri of the Google credentials is not an https address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	raw, why, err := fetch(tokenService, req)
	if err != nil {
		return Token{}, none("the token service of %s cannot be reached", whose)
	}
	t, ok := c.read(raw)
	if !ok {
		if why == "" {
			why = "no token"
		}
		return Token{}, none("the token service refused %s: %.40q", whose, why).WithTry("credentials that have not been revoked, and a clock that is right")
	}
	return t, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// serviceAccount signs a claim with the account's key (RFC 7523).
func (c *Chain) serviceAccount(ctx context.Context, keys credentials) (Token, error) {
	if keys.TokenURI == "" {
		keys.TokenURI = tokenURI
	}
	claim, err := keys.claim(c.now())
	if err != nil {
		return Token{}, none("the private_key of the service account %s cannot be used: %s", keys.ClientEmail, err).
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
