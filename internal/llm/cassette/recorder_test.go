package cassette_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/llm/cassette"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
)

const patience = 30 * time.Second

// recording is a recorder before an upstream, and what it wrote.
type recording struct {
	url  string
	told chan error

	mu  sync.Mutex
	out bytes.Buffer
	t   testing.TB
}

func (r *recording) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(b)
}

// bytes is the file so far.
func (r *recording) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.out.Bytes())
}

// next waits for an exchange to be written, or left out.
func (r *recording) next() error {
	r.t.Helper()
	select {
	case err := <-r.told:
		return err
	case <-time.After(patience):
		r.t.Fatal("no exchange has ended")
		return nil
	}
}

func record(t *testing.T, h http.Handler) *recording {
	t.Helper()
	r := &recording{t: t, told: make(chan error, 64)}
	at, err := url.Parse(providertest.Serve(t, h) + "/base")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	rec, err := cassette.NewRecorder(cassette.RecordOptions{Upstream: at, Out: r, Transport: transport,
		Told: func(_ cassette.Exchange, err error) { r.told <- err }})
	if err != nil {
		t.Fatal(err)
	}
	r.url = providertest.Serve(t, rec)
	t.Cleanup(rec.Wait)
	return r
}

// What a dialect's upstream said through the recorder is played again to the byte, and gives the same items.
func TestRecordedAndPlayedAgain(t *testing.T) {
	for dialect, open := range dialects {
		t.Run(dialect, func(t *testing.T) {
			c := read(t, dialect)
			rec := record(t, http.StripPrefix("/base", cassette.NewPlayer(c, cassette.PlayOptions{Split: 3})))
			p := open(upstream.Options{Name: dialect, BaseURL: rec.url, APIKey: "sk-test-0123456789abcdef", MaxTries: 1})
			r := begin()
			for range fiveTurns {
				a := providertest.Collect(t, t.Context(), p, r)
				if a.Err != nil {
					t.Fatal(a.Err)
				}
				if err := rec.next(); err != nil {
					t.Fatal(err)
				}
				reply(t, &r, a)
			}
			again, err := cassette.Parse(rec.bytes())
			if err != nil || again.Head.Origin != cassette.Recorded || len(again.Exchanges) != len(fiveTurns) {
				t.Fatalf("%v, %+v", err, again)
			}
			if bytes.Contains(rec.bytes(), []byte("sk-test")) {
				t.Error("the key was written")
			}
			for i, x := range again.Exchanges {
				if !bytes.Equal(x.Body(), c.Exchanges[i].Body()) {
					t.Errorf("exchange %d has other bytes:\n%q\n%q", i, x.Body(), c.Exchanges[i].Body())
				}
			}
			p = open(upstream.Options{Name: dialect, BaseURL: providertest.Serve(t, cassette.NewPlayer(again, cassette.PlayOptions{})), APIKey: "another", MaxTries: 1})
			r = begin()
			for n, want := range fiveTurns {
				a := providertest.Collect(t, t.Context(), p, r)
				if a.Err != nil || said(t, dialect, a) != want {
					t.Fatalf("turn %d: %v\n got %s\nwant %s", n+1, a.Err, said(t, dialect, a), want)
				}
				reply(t, &r, a)
			}
		})
	}
}

// A piece goes out when it has come, before the next one is there.
func TestAnAnswerPassesUnbuffered(t *testing.T) {
	more := make(chan struct{})
	rec := record(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		providertest.WriteStream(w, "data: one\n\n")
		<-more
		providertest.WriteStream(w, "data: two\n\n")
	}))
	res, err := http.Post(rec.url+"/x", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, 11)
	if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "data: one\n\n" {
		t.Fatalf("%q, %v", first, err)
	}
	close(more)
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "data: two\n\n" {
		t.Errorf("%q, %v", rest, err)
	}
	if err := rec.next(); err != nil {
		t.Error(err)
	}
}

// How an answer ended is part of it.
func TestEndsAreRecorded(t *testing.T) {
	gone := make(chan struct{})
	rec := record(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // else nobody notices who leaves
		providertest.WriteStream(w, "data: one\n\n")
		switch r.URL.Path {
		case "/base/cut":
			panic(http.ErrAbortHandler)
		case "/base/left":
			<-r.Context().Done()
			close(gone)
		}
	}))
	for _, end := range []string{cassette.Complete, cassette.Cut, cassette.Left} {
		ctx, leave := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "POST", rec.url+"/"+end, strings.NewReader("{}"))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 11)
		if _, err := io.ReadFull(res.Body, first); err != nil {
			t.Fatal(err)
		}
		if end == cassette.Left {
			leave()
			select {
			case <-gone:
			case <-time.After(patience):
				t.Fatal("the upstream is still asked")
			}
		}
		_, err = io.ReadAll(res.Body)
		if (err == nil) != (end == cassette.Complete) {
			t.Errorf("%s: %v", end, err)
		}
		res.Body.Close()
		leave()
		if err := rec.next(); err != nil {
			t.Errorf("%s: %v", end, err)
		}
	}
	c, err := cassette.Parse(rec.bytes())
	if err != nil || len(c.Exchanges) != 3 {
		t.Fatal(err)
	}
	for i, end := range []string{cassette.Complete, cassette.Cut, cassette.Left} {
		if x := c.Exchanges[i]; x.End != end || string(x.Body()) != "data: one\n\n" {
			t.Errorf("%+v, want %s", x, end)
		}
	}
	// A cut is played as one.
	res, err := http.Post(providertest.Serve(t, cassette.NewPlayer(c, cassette.PlayOptions{}))+"/cut", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil || string(body) != "data: one\n\n" {
		t.Errorf("%q, %v", body, err)
	}
}

// What may not be written does not keep the client from its answer, and is not in the file.
func TestARefusedExchangeIsAnsweredAllTheSame(t *testing.T) {
	rec := record(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		io.WriteString(w, "\x89PNG")
	}))
	res, err := http.Post(rec.url+"/x", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "\x89PNG" {
		t.Errorf("%q, %v", body, err)
	}
	if err := rec.next(); err == nil {
		t.Error("it was recorded")
	}
	if c, err := cassette.Parse(rec.bytes()); err != nil || len(c.Exchanges) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestARecorderIsForThisMachine(t *testing.T) {
	rec := record(t, http.NotFoundHandler())
	for host, want := range map[string]int{"evil.example": 403, "evil.example:80": 403, "10.0.0.1": 403, "localhost:1": 404, "127.0.0.1": 404, "[::1]:5": 404} {
		req, _ := http.NewRequest("POST", rec.url+"/x", strings.NewReader("{}"))
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, res.StatusCode, want)
		}
	}
}

// A file that ends anywhere is a cassette of its whole exchanges.
func TestEveryPrefixIsACassette(t *testing.T) {
	c := read(t, "chat")
	raw, err := c.Head.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	head, ends := len(raw), []int{}
	for _, x := range c.Exchanges[:2] {
		if raw, err = x.Append(raw); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(raw))
	}
	for n := head; n <= len(raw); n++ {
		want := 0
		for _, end := range ends {
			if n >= end-1 { // the last line break is not needed
				want++
			}
		}
		got, err := cassette.Parse(raw[:n])
		if err != nil || len(got.Exchanges) != want {
			t.Fatalf("%d of %d bytes: %d exchanges, want %d: %v", n, len(raw), len(got.Exchanges), want, err)
		}
	}
}

func TestWhatIsNoCassette(t *testing.T) {
	head := `{"cassette":1,"origin":"recorded"}` + "\n"
	request, response := `{"request":{"method":"POST","path":"/x"}}`+"\n", `{"response":{"status":200}}`+"\n"
	for text, want := range map[string]string{
		"":     "no cassette",
		"{}\n": "line 1: version 0",
		`{"cassette":2,"origin":"recorded"}` + "\n":                                 "version 2",
		`{"cassette":1}` + "\n":                                                     "origin is",
		`{"cassette":1,"origin":"made up"}` + "\n":                                  "origin is",
		`{"cassette":1,"origin":"written from documentation, not recorded"}` + "\n": "names its sources",
		head + `{"txt":"a"}` + "\n":                                                 "line 2: json: unknown field",
		head + response:                                                             "line 2: a response",
		head + request + request:                                                    "line 3: the exchange before it has no end",
		head + request + `{"text":"a"}` + "\n":                                      "line 3: it belongs to no response",
		head + request + `{"response":{"status":99}}` + "\n":                        "status from 200",
		head + request + response + `{"end":"soon"}` + "\n":                         "an end is",
		head + request + response + `{"text":"a","end":"cut"}` + "\n":               "it has 2",
		head + request + response + `{"text":"a","after_ms":-1}` + "\n":             "below 0",
		head + `{"request":{"method":"POST","path":"x"}}` + "\n":                    "begins with /",
	} {
		if _, err := cassette.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"cassette":1,"origin":"recorded"}` + "\n" + `{"request":{"method":"POST","path":"/x"}}` + "\n" + `{"response":{"status":200}}` + "\n" + `{"base64":"AA=="}` + "\n" + `{"end":"cut"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := cassette.Parse(raw)
		if err != nil {
			return
		}
		again, err := c.Head.Append(nil)
		for _, x := range c.Exchanges {
			if err == nil {
				again, err = x.Append(again)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if read, err := cassette.Parse(again); err != nil || len(read.Exchanges) != len(c.Exchanges) {
			t.Errorf("%v\n%s", err, again)
		}
	})
}

// A question that failed is followed by what was recorded behind it; one that was answered is answered again.
func TestWhichExchangeAnswers(t *testing.T) {
	head := `{"cassette":1,"origin":"recorded"}` + "\n"
	exchange := func(body, status, text string) string {
		return `{"request":{"method":"POST","path":"/v1/projects/scrubbed-project-1/x","body":` + body + `}}` + "\n" + `{"response":{"status":` + status + `}}` + "\n" +
			`{"text":"` + text + `"}` + "\n" + `{"end":"complete"}` + "\n"
	}
	c, err := cassette.Parse([]byte(head + exchange(`{"q":1}`, "429", "wait") + exchange(`{"q":1}`, "200", "one") + exchange(`{"q":2}`, "200", "two")))
	if err != nil {
		t.Fatal(err)
	}
	p := cassette.NewPlayer(c, cassette.PlayOptions{})
	for _, q := range [][2]string{{`{"q":2}`, "two"}, {`{ "q": 1 }`, "wait"}, {`{ "q": 1 }`, "one"}, {`{ "q": 1 }`, "one"}, {`{"q":2}`, "two"}, {`{"q":3}`, "holds no answer"}} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest("POST", "/api/v1/projects/mine/x", strings.NewReader(q[0])))
		if !strings.Contains(w.Body.String(), q[1]) {
			t.Errorf("%s: %s, want %s", q[0], w.Body, q[1])
		}
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("GET", "/v1/projects/a/b/x", nil))
	if w.Code != 404 {
		t.Errorf("%d", w.Code)
	}
}

// A disk that refuses ends the recording, and never the answers.
func TestADiskThatRefuses(t *testing.T) {
	full := errors.New("full")
	at, _ := url.Parse(providertest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { providertest.WriteStream(w, "data: x\n\n") })))
	told := make(chan error, 2)
	rec, err := cassette.NewRecorder(cassette.RecordOptions{Upstream: at, Out: &once{err: full}, Told: func(_ cassette.Exchange, err error) { told <- err }})
	if err != nil {
		t.Fatal(err)
	}
	base := providertest.Serve(t, rec)
	for range 2 {
		res, err := http.Post(base, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "data: x\n\n" {
			t.Errorf("%q, %v", body, err)
		}
		res.Body.Close()
		select {
		case err := <-told:
			if !errors.Is(err, full) {
				t.Errorf("%v", err)
			}
		case <-time.After(patience):
			t.Fatal("nothing was told")
		}
	}
}

// once is a file that takes its head alone.
type once struct {
	n   int
	err error
}

func (o *once) Write(b []byte) (int, error) {
	if o.n++; o.n > 1 {
		return 0, o.err
	}
	return len(b), nil
}
