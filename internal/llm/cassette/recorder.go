package cassette

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// RecordOptions says what is recorded, and to where. Upstream and Out are required.
type RecordOptions struct {
	Upstream  *url.URL
	Out       io.Writer         // gets the head, and then each exchange in one write; a Sync method is called behind it
	Scrub     *Scrubber         // nil: one that knows no secret yet
	About, By string            // of the head
	Now       func() time.Time  // nil: the clock
	Transport http.RoundTripper // nil: one that neither compresses nor follows

	// Told is told of each exchange behind its end, with the reason for which it was left out. nil: nobody is.
	Told func(x Exchange, err error)
}

// Recorder is a proxy before a model server that writes what it carries to a cassette. Answers pass unbuffered and as
// they are; only what is written is scrubbed. It holds no key: clients send their own.
type Recorder struct {
	o     RecordOptions
	proxy *httputil.ReverseProxy
	busy  sync.WaitGroup

	mu  sync.Mutex // of Out
	err error      // with which writing ended
}

// NewRecorder makes one and writes the cassette's head.
func NewRecorder(o RecordOptions) (*Recorder, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Scrub == nil {
		o.Scrub = NewScrubber()
	}
	if o.Told == nil {
		o.Told = func(Exchange, error) {}
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, ForceAttemptHTTP2: true,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
	}
	r := &Recorder{o: o}
	r.proxy = &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Transport: o.Transport, ModifyResponse: r.answered,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(o.Upstream)
			p.Out.Header.Set("Accept-Encoding", "identity") // what is compressed cannot be looked into
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			refuse(w, http.StatusBadGateway, "the upstream cannot be reached; nothing was recorded")
		}}
	head, err := Head{Version: Version, Origin: Recorded, About: o.About, By: o.By, At: o.Now().UTC().Format(time.RFC3339)}.Append(nil)
	if err != nil {
		return nil, err
	}
	return r, r.write(head)
}

// bodyKey is where a request's body is in its context.
type bodyKey struct{}

// ServeHTTP implements [http.Handler].
func (r *Recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.busy.Add(1)
	defer r.busy.Done()
	if !here(req.Host) {
		refuse(w, http.StatusForbidden, "this recorder is for this machine alone")
		return
	}
	if req.Header.Get("Upgrade") != "" {
		refuse(w, http.StatusNotImplemented, "only requests and their answers are recorded")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "the request cannot be read")
		return
	}
	req = req.WithContext(context.WithValue(req.Context(), bodyKey{}, body))
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(body) == 0 {
		req.Body = http.NoBody
	}
	asked := req.Clone(req.Context()) // the proxy changes its own copy, but who knows of the next version
	r.proxy.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), askedKey{}, asked)))
}

// askedKey is where the client's request is in the context of what is sent on.
type askedKey struct{}

// here says whether a Host header names this machine: a web page may reach a loopback address by another name.
func here(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// answered listens to an answer.
func (r *Recorder) answered(res *http.Response) error {
	asked, ok := res.Request.Context().Value(askedKey{}).(*http.Request)
	if !ok {
		return errors.New("an answer to nothing")
	}
	body, _ := res.Request.Context().Value(bodyKey{}).([]byte)
	res.Body = &tape{ReadCloser: res.Body, recorder: r, last: r.o.Now(),
		raw: raw{request: asked, body: body, status: res.StatusCode, headers: res.Header.Clone()}}
	return nil
}

// maxAnswer bounds an answer that is recorded.
const maxAnswer = 64 << 20

// tape is a body that keeps what is read of it.
type tape struct {
	io.ReadCloser
	recorder *Recorder
	raw      raw
	last     time.Time
	size     int
	ended    bool
}

// Read implements [io.Reader].
func (t *tape) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	if n > 0 && !t.raw.tooLarge {
		now := t.recorder.o.Now()
		t.size += n
		if t.size > maxAnswer {
			t.raw.tooLarge, t.raw.pieces = true, nil
		} else {
			t.raw.pieces = append(t.raw.pieces, Piece{After: now.Sub(t.last).Truncate(time.Millisecond), Data: bytes.Clone(b[:n])})
			t.last = now
		}
	}
	switch {
	case err == io.EOF:
		t.end(Complete)
	case err != nil && t.raw.request.Context().Err() == nil:
		t.end(Cut)
	case err != nil:
		t.end(Left)
	}
	return n, err
}

// Close implements [io.Closer].
func (t *tape) Close() error {
	t.end(Left)
	return t.ReadCloser.Close()
}

// end writes what was kept.
func (t *tape) end(how string) {
	if t.ended {
		return
	}
	t.ended, t.raw.end = true, how
	x, err := t.recorder.o.Scrub.scrub(t.raw)
	var lines []byte
	if err == nil {
		lines, err = x.Append(nil)
	}
	if err == nil {
		err = t.recorder.write(lines)
	}
	t.recorder.o.Told(x, err)
}

// write writes whole lines.
func (r *Recorder) write(lines []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if _, err := r.o.Out.Write(lines); err != nil {
		r.err = fmt.Errorf("write the cassette: %w", err) // what follows a torn line could not be read
		return r.err
	}
	if file, ok := r.o.Out.(interface{ Sync() error }); ok {
		if err := file.Sync(); err != nil {
			return fmt.Errorf("write the cassette: %w", err)
		}
	}
	return nil
}

// Wait waits until every answer has ended. The server before the recorder has been closed by then.
func (r *Recorder) Wait() { r.busy.Wait() }
