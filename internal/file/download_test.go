package file

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// outside is a world of names. All its hosts are one loopback server, over TLS on port 443 and without on others; it
// keeps what it was asked.
type outside struct {
	tls, plain *httptest.Server
	mu         sync.Mutex
	names      map[string][]string // the addresses of a name, one after the other; others have a public one
	dialled    []string
	seen       []*http.Request
}

const publicAddress = "93.184.215.14"

func newOutside(t *testing.T, answer http.HandlerFunc) *outside {
	t.Helper()
	o := &outside{names: map[string][]string{}}
	all := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		o.mu.Lock()
		o.seen = append(o.seen, req.Clone(context.Background()))
		o.mu.Unlock()
		answer(w, req)
	})
	o.plain = httptest.NewServer(all)
	o.tls = httptest.NewUnstartedServer(all)
	o.tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	o.tls.StartTLS() // its certificate is for example.com and what is below it
	t.Cleanup(o.plain.Close)
	t.Cleanup(o.tls.Close)
	return o
}

// LookupNetIP answers the next address of a name.
func (o *outside) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	host = strings.TrimSuffix(host, ".")
	next := publicAddress
	if list := o.names[host]; len(list) > 0 {
		next = list[0]
		if len(list) > 1 {
			o.names[host] = list[1:]
		}
	}
	return []netip.Addr{netip.MustParseAddr(next)}, nil
}

func (o *outside) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	o.mu.Lock()
	o.dialled = append(o.dialled, to.Addr().String())
	o.mu.Unlock()
	server := o.plain
	if to.Port() == 443 {
		server = o.tls
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
}

func (o *outside) downloader(change func(*DownloadOptions)) *Downloader {
	roots := x509.NewCertPool()
	roots.AddCert(o.tls.Certificate())
	options := DownloadOptions{Schemes: []string{"https"}, Egress: egress.Options{Resolver: o, Dial: o.dial, Roots: roots}}
	if change != nil {
		change(&options)
	}
	return NewDownloader(options)
}

func withHTTP(o *DownloadOptions) { o.Schemes = append(o.Schemes, "http") }

// refusedAs checks an error, and that it tells nothing of an address but its host.
func refusedAs(t *testing.T, name string, err error, kind fault.Kind, code, text string) {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || f.Kind != kind || f.Code != code || !strings.Contains(f.Message, text) {
		t.Errorf("%s: %+v, want %v %s %q", name, err, kind, code, text)
	}
	if err != nil && strings.Contains(err.Error(), "canary") {
		t.Errorf("%s: the error tells the address: %v", name, err)
	}
}

func TestFetch(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/moved":
			http.Redirect(w, req, "https://cdn.example.com/there?signature=2", http.StatusFound)
		case "/packed":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, "unpacked")
			z.Close()
		default:
			w.Header().Set("Content-Type", "text/csv; charset=utf-8")
			http.SetCookie(w, &http.Cookie{Name: "c", Value: "1"})
			fmt.Fprint(w, "1,2")
		}
	})
	d := o.downloader(nil)
	for address, want := range map[string]Download{
		"https://www.example.com/a/data.csv?x=1#part": {"text/csv", []byte("1,2")},
		"https://example.com":                         {"text/csv", []byte("1,2")},
		"https://www.example.com/moved?signature=1":   {"text/csv", []byte("1,2")},
		"https://EXAMPLE.com:443/packed":              {"", []byte("unpacked")},
	} {
		got, err := d.Fetch(t.Context(), address, 100)
		if address == "https://EXAMPLE.com:443/packed" {
			got.MediaType = "" // what the server sniffed
		}
		if err != nil || got.MediaType != want.MediaType || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
	for _, req := range o.seen {
		if req.Header.Get("Referer") != "" || len(req.Cookies()) != 0 || req.Header.Get("Authorization") != "" {
			t.Errorf("%s was told %v", req.URL, req.Header)
		}
	}
}

func TestAddressesThatAreNotFetched(t *testing.T) {
	o := newOutside(t, func(http.ResponseWriter, *http.Request) {})
	for name, list := range map[string][]string{"loopback": {"127.0.0.1"}, "metadata": {"169.254.169.254"}, "private": {"10.1.2.3"}, "mapped": {"::ffff:10.1.2.3"}, "nat64": {"64:ff9b::a9fe:a9fe"}} {
		o.names[name+".example.com"] = list
	}
	for _, address := range []string{
		"http://www.example.com/canary", "ftp://example.com/canary", "file:///canary", "//example.com/canary", "canary", "", "https://", "https:canary",
		"https://canary@example.com/", "https://u:canary@example.com/", "https://127.0.0.1/canary", "https://[::1]/canary", "https://2130706433/canary",
		"https://0x7f.1/canary", "https://0177.0.0.1/canary", "https://127.1/canary", "https://[::ffff:127.0.0.1]/canary", "https://[fe80::1%25lo]/canary",
		"https://169.254.169.254/canary", "https://bücher.example.com/canary", "https://a..example.com/canary", "https://exa%6dple.com\x00/canary", "https://example.com:0/canary",
		"https://loopback.example.com/canary", "https://metadata.example.com/canary", "https://private.example.com/canary", "https://mapped.example.com/canary",
		"https://nat64.example.com./canary", "https://example.com/" + strings.Repeat("canary", 2000),
	} {
		_, err := o.downloader(nil).Fetch(t.Context(), address, 100)
		refusedAs(t, address, err, fault.Invalid, codeURL, "can't be used")
	}
	_, err := NewDownloader(DownloadOptions{}).Fetch(t.Context(), "https://example.com/", 100)
	refusedAs(t, "off", err, fault.Invalid, codeURL, "fetches no files")
	if len(o.dialled) != 0 || len(o.seen) != 0 {
		t.Errorf("dialled %v, %d requests", o.dialled, len(o.seen))
	}
}

// Every hop is judged as the first one is.
func TestRedirectsThatAreNotFollowed(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, req *http.Request) {
		if to := req.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	o.names["private.example.com"] = []string{"10.1.2.3"}
	o.names["turns.example.com"] = []string{publicAddress, "127.0.0.1"}
	for name, to := range map[string]string{
		"no TLS":                 "http://www.example.com/canary",
		"an address":             "https://127.0.0.1/canary",
		"metadata":               "https://169.254.169.254/latest/canary",
		"a private name":         "https://private.example.com/canary",
		"a file":                 "file:///etc/canary",
		"a user":                 "https://u:canary@www.example.com/",
		"a private name, two on": "https://www.example.com/?to=https%3A%2F%2Fprivate.example.com%2Fcanary",
	} {
		before := len(o.seen)
		_, err := o.downloader(nil).Fetch(t.Context(), "https://www.example.com/?to="+strings.ReplaceAll(to, "?to=", "%3Fto="), 100)
		refusedAs(t, name, err, fault.Invalid, codeURL, "")
		if hops := len(o.seen) - before; hops != 1+strings.Count(to, "?to=") {
			t.Errorf("%s: %d requests were made", name, hops)
		}
	}
	// A name that leads elsewhere the second time it is asked for, as of a rebinding resolver.
	_, err := o.downloader(nil).Fetch(t.Context(), "https://turns.example.com/?to=https%3A%2F%2Fturns.example.com%2Fcanary", 100)
	refusedAs(t, "rebinding", err, fault.Invalid, codeURL, "may not be reached")
	for _, at := range o.dialled {
		if at != publicAddress {
			t.Errorf("dialled %s", at)
		}
	}
	o.names["endless.example.com"] = nil
	endless := newOutside(t, func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "/again", http.StatusFound) })
	_, err = endless.downloader(nil).Fetch(t.Context(), "https://www.example.com/canary", 100)
	refusedAs(t, "endless", err, fault.Upstream, codeFetch, "redirected more than 5 times")
	if len(endless.seen) != maxRedirects+1 {
		t.Errorf("%d requests", len(endless.seen))
	}
}

func TestDownloadsThatFail(t *testing.T) {
	release := make(chan struct{})
	o := newOutside(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/none":
			http.NotFound(w, req)
		case "/large":
			w.Write(make([]byte, 101))
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(make([]byte, 1<<20))
			z.Close()
		case "/short":
			w.Header().Set("Content-Length", "50")
			io.WriteString(w, "short")
		case "/silent":
			w.(http.Flusher).Flush()
			<-release
		}
	})
	t.Cleanup(func() { close(release) })
	for path, want := range map[string]struct {
		kind       fault.Kind
		code, text string
	}{
		"/none":    {fault.Upstream, codeFetch, "www.example.com answered 404"},
		"/large":   {fault.TooLarge, codeTooLarge, "more than the 100 bytes"},
		"/endless": {fault.TooLarge, codeTooLarge, "more than the 100 bytes"},
		"/bomb":    {fault.TooLarge, codeTooLarge, "more than the 100 bytes"},
		"/short":   {fault.Upstream, codeFetch, "broke off"},
	} {
		_, err := o.downloader(nil).Fetch(t.Context(), "https://www.example.com"+path+"?canary", 100)
		refusedAs(t, path, err, want.kind, want.code, want.text)
	}
	_, err := o.downloader(func(o *DownloadOptions) { o.Timeout = 50 * time.Millisecond }).Fetch(t.Context(), "https://www.example.com/silent?canary", 100)
	refusedAs(t, "silent", err, fault.Upstream, codeFetch, "within 50ms")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = o.downloader(nil).Fetch(short, "https://www.example.com/silent?canary", 100)
	refusedAs(t, "the request's time", err, fault.Upstream, codeFetch, "time for files is over")
	_, err = o.downloader(nil).Fetch(t.Context(), "https://elsewhere.test/canary", 100) // not in the certificate
	refusedAs(t, "a certificate for others", err, fault.Upstream, codeFetch, "cannot be verified")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = o.downloader(nil).Fetch(gone, "https://www.example.com/", 100); err != context.Canceled {
		t.Errorf("a client that left: %v", err)
	}
}

// The operator's key opens a private range, for names only.
func TestAPinnedRangeIsFetchedFrom(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, req *http.Request) { io.WriteString(w, "inside") })
	o.names["private.example.com"] = []string{"10.1.2.3"}
	pinned := func(o *DownloadOptions) {
		withHTTP(o)
		o.Egress.Pinned = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	}
	if got, err := o.downloader(pinned).Fetch(t.Context(), "http://private.example.com:8080/x", 100); err != nil || string(got.Data) != "inside" {
		t.Errorf("%q, %v", got.Data, err)
	}
	_, err := o.downloader(pinned).Fetch(t.Context(), "http://10.1.2.3/x", 100)
	refusedAs(t, "its address", err, fault.Invalid, codeURL, "not a name")
}

// Only so many are fetched at once; who waits does not wait for ever.
func TestDownloadsAtOnce(t *testing.T) {
	release, began := make(chan struct{}), make(chan bool, downloadsAtOnce)
	o := newOutside(t, func(w http.ResponseWriter, req *http.Request) {
		began <- true
		<-release
	})
	d := o.downloader(nil)
	var all sync.WaitGroup
	for range downloadsAtOnce {
		all.Go(func() {
			if _, err := d.Fetch(t.Context(), "https://www.example.com/", 100); err != nil {
				t.Errorf("one of the first: %v", err)
			}
		})
	}
	for range downloadsAtOnce {
		<-began
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := d.Fetch(short, "https://www.example.com/one-more", 100)
	refusedAs(t, "one more", err, fault.Upstream, codeFetch, "time for files is over")
	close(release)
	all.Wait()
	if len(o.seen) != downloadsAtOnce {
		t.Errorf("%d requests were made", len(o.seen))
	}
}
