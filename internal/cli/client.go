package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// maxAnswer bounds an answer that is read whole.
const maxAnswer = 64 << 20

// client speaks the HTTP API, as any other client does.
type client struct {
	base string // up to and without /v1
	key  string
	http *http.Client
}

// newClient makes a client. With a certificate's sum it trusts that certificate and no other: the sum comes from the
// server's own data folder.
func newClient(base, key, certificate string) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 0 // a model may think for long before the first byte
	if certificate != "" {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12,
			InsecureSkipVerify: true, // the check below is stricter: one certificate, by its sum
			VerifyConnection: func(state tls.ConnectionState) error {
				sum := sha256.Sum256(state.PeerCertificates[0].Raw)
				if hex.EncodeToString(sum[:]) != certificate {
					return errors.New("this is not the certificate of the server that runs on the data folder")
				}
				return nil
			}}
	}
	base = strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")
	return &client{base: base, key: key, http: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// do sends a request and returns an answer of status 200, or the server's error.
func (c *client) do(ctx context.Context, method, path, contentType string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the request cannot be made")
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, which the sentence has
		}
		return nil, fault.Wrap(fault.Unavailable, err, "the server at %s does not answer", c.base).WithTry("hardshell serve, or another --url")
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, readError(answer)
}

// get reads a JSON answer.
func (c *client) get(ctx context.Context, path string, into any) error {
	answer, err := c.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(into); err != nil {
		return fault.Wrap(fault.Upstream, err, "the server at %s answers what is not JSON", c.base)
	}
	return nil
}

// post sends JSON and returns the answer's stream.
func (c *client) post(ctx context.Context, path string, body any) (*http.Response, error) {
	raw, err := openai.Marshal(body)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the request cannot be written")
	}
	return c.do(ctx, http.MethodPost, path, "application/json", bytes.NewReader(raw))
}

// readError turns an answer that is no success into an error.
func readError(answer *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the server's answer %d broke off", answer.StatusCode)
	}
	kind := fault.Upstream
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		kind = fault.Unauthenticated
	case http.StatusForbidden:
		kind = fault.Forbidden
	case http.StatusNotFound:
		kind = fault.NotFound
	case http.StatusBadRequest:
		kind = fault.Invalid
	}
	var body openai.ErrorBody
	if json.Unmarshal(raw, &body) != nil || body.Error.Message == "" {
		return fault.New(kind, "the server answers %s", answer.Status)
	}
	message, try, _ := strings.Cut(body.Error.Message, ". Try: ")
	f := fault.New(kind, "%s", message)
	f.Try = try
	return f
}

// apiKey returns HARDSHELL_API_KEY, else the key that a server left in the data folder. That one goes to this machine
// only: another machine has other keys, and has no business with ours.
func (p *program) apiKey(base, data string) (string, error) {
	if key := p.getenv("HARDSHELL_API_KEY"); key != "" {
		return key, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usageError{fault.New(fault.Invalid, "%q is not the address of a server", base).WithTry("--url http://127.0.0.1:7070")}
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
		return "", fault.New(fault.Unauthenticated, "a server on another machine needs its key").WithTry("HARDSHELL_API_KEY=hsk_… hardshell ask …")
	}
	return tenant.ReadKey(filepath.Join(data, adminKey))
}

// connect finds the server that the data folder belongs to. It is false when the folder has no owner now.
func (p *program) connect(ctx context.Context, data string) (*client, bool, error) {
	a, ok := readAddress(data)
	if !ok {
		return nil, false, nil
	}
	key, err := p.apiKey(a.URL, data)
	if err != nil {
		return nil, false, err
	}
	c := newClient(a.URL, key, a.Certificate)
	return c, healthy(ctx, c.http, a.URL), nil
}

// ownerPause is how long to wait between two looks at a data folder that somebody else owns.
const ownerPause = 100 * time.Millisecond
