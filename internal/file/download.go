package file

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// Codes of a download that is refused, and of one that failed.
const (
	codeURL      = "invalid_input_file_url"
	codeTooLarge = "input_file_too_large"
	codeFetch    = "input_file_fetch_failed"
)

const (
	// downloadsAtOnce bounds what clients can have the server fetch: each is held in memory while it comes.
	downloadsAtOnce = 8
	maxRedirects    = 5
	maxURL          = 8 << 10
)

// DownloadOptions say where files may be fetched from. The zero value fetches nothing.
type DownloadOptions struct {
	Schemes []string       // "https", or "http" as well
	Timeout time.Duration  // for one file; 30 s
	Egress  egress.Options // how a host is found and reached: Pinned, Resolver, Dial, Roots
}

// A Downloader fetches files from addresses that clients give. The address may be anything, so it trusts none: each
// hop of each redirect must be a name, every address that the name leads to must be a public one, and the address that
// was checked is the one that is dialled. Nothing is sent along: no credentials, no cookies, no referrer.
type Downloader struct {
	schemes []string
	timeout time.Duration
	client  *http.Client
	slots   chan struct{}
}

// A Download is a file that was fetched.
type Download struct {
	MediaType string // without parameters, perhaps empty
	Data      []byte
}

// NewDownloader makes a downloader.
func NewDownloader(o DownloadOptions) *Downloader {
	d := &Downloader{schemes: o.Schemes, timeout: o.Timeout, slots: make(chan struct{}, downloadsAtOnce)}
	if d.timeout <= 0 {
		d.timeout = 30 * time.Second
	}
	d.client = &http.Client{
		CheckRedirect: d.redirect,
		// No proxy: one would do the dialling, and nobody would check where to.
		Transport: &http.Transport{DialContext: o.Egress.Dialer(), DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
			TLSClientConfig: &tls.Config{RootCAs: o.Egress.Roots, MinVersion: tls.VersionTLS12}},
	}
	return d
}

// Fetch returns a file of at most limit bytes. Its errors are fit for the client and name the host only: the rest of an
// address may be a secret.
func (d *Downloader) Fetch(ctx context.Context, address string, limit int64) (Download, error) {
	u, err := d.read(address)
	if err != nil {
		return Download{}, err
	}
	asked := ctx
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return Download{}, d.failed(asked, u, ctx.Err())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Download{}, badURL("It cannot be read.")
	}
	req.Header.Set("User-Agent", "hardshell")
	resp, err := d.client.Do(req)
	if err != nil {
		return Download{}, d.failed(asked, u, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Download{}, fault.New(fault.Upstream, "The file could not be fetched: %s answered %d.", u.Hostname(), resp.StatusCode).WithCode(codeFetch)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return Download{}, d.failed(asked, u, err)
	}
	if int64(len(data)) > limit {
		return Download{}, fault.New(fault.TooLarge, "The file of %s has more than the %d bytes that are left to this request.", u.Hostname(), limit).WithCode(codeTooLarge)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	return Download{MediaType: media, Data: data}, nil
}

// read checks an address that came in a request.
func (d *Downloader) read(address string) (*url.URL, error) {
	if len(d.schemes) == 0 {
		return nil, badURL("This server fetches no files.").WithTry("sending the bytes in file_data, or uploading to /v1/files")
	}
	u, err := url.Parse(address)
	if err != nil || len(address) > maxURL {
		return nil, badURL("It cannot be read.")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, d.check(u)
}

// check judges the address of one hop. What its name leads to is judged when it is dialled.
func (d *Downloader) check(u *url.URL) error {
	switch {
	case !slices.Contains(d.schemes, u.Scheme):
		return badURL("Only %s addresses are fetched.", d.schemes[0]).WithTry("an %s:// address, or the bytes in file_data", d.schemes[0])
	case u.User != nil:
		return badURL("It holds a user name.").WithTry("the bytes in file_data")
	}
	if _, err := egress.Name(u.Hostname()); err != nil {
		return badURL("Its host is not a name.").WithTry("the name of a public host")
	}
	return nil
}

// redirect judges every hop after the first.
func (d *Downloader) redirect(req *http.Request, before []*http.Request) error {
	if len(before) > maxRedirects {
		return fault.New(fault.Upstream, "The file could not be fetched: it was redirected more than %d times.", maxRedirects).WithCode(codeFetch)
	}
	req.Header.Del("Referer") // an address may hold a signature, which is not the next host's
	if err := d.check(req.URL); err != nil {
		if f, ok := fault.As(err); ok {
			f = f.WithTry("an address that does not redirect there")
			f.Message = "It redirects to an address that is not fetched: " + f.Message
			return f
		}
		return err
	}
	return nil
}

// failed tells why a file did not come. Causes are told without the address.
func (d *Downloader) failed(asked context.Context, u *url.URL, err error) error {
	switch {
	case errors.Is(asked.Err(), context.DeadlineExceeded):
		return fault.Wrap(fault.Upstream, err, "The file of %s could not be fetched: the request's time for files is over.", u.Hostname()).WithCode(codeFetch)
	case asked.Err() != nil:
		return asked.Err() // the client went away
	}
	var whole *url.Error
	for errors.As(err, &whole) {
		err = whole.Err
	}
	switch f, ok := fault.As(err); {
	case ok && f.Code != "":
		return f
	case ok && f.Kind == fault.Forbidden:
		return badURL("%s.", f.Message).WithTry("the address of a public host, or the bytes in file_data")
	case ok:
		return fault.Wrap(fault.Upstream, f, "The file could not be fetched: %s.", f.Message).WithCode(codeFetch)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.Upstream, err, "The file could not be fetched: %s did not send it within %v.", u.Hostname(), d.timeout).WithCode(codeFetch)
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return fault.Wrap(fault.Upstream, err, "The file could not be fetched: the certificate of %s cannot be verified.", u.Hostname()).WithCode(codeFetch)
	}
	return fault.Wrap(fault.Upstream, fmt.Errorf("fetch: %w", err), "The file could not be fetched: %s broke off.", u.Hostname()).WithCode(codeFetch)
}

func badURL(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "The address of a file can't be used: "+format, args...).WithCode(codeURL)
}
