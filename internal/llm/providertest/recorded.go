package providertest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Serve starts an upstream whose handlers may abort on purpose, and returns its URL.
func Serve(t testing.TB, h http.Handler) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// WriteStream sends a piece of an event stream at once.
func WriteStream(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, s)
	w.(http.Flusher).Flush()
}

// Hello is the least request.
func Hello() llm.Request {
	return llm.Request{Model: "m", Items: []openai.Item{openai.UserText("hello")}}
}

// Split is a way in which bytes come.
type Split struct {
	Name string
	How  func(io.Reader) io.Reader
}

// Splits are the ways in which bytes may come. None of them may change an answer.
var Splits = []Split{
	{"whole", func(r io.Reader) io.Reader { return r }},
	{"seven bytes", func(r io.Reader) io.Reader { return sevenBytes{r} }}, // splits lines, escapes and characters
	OneByte,
	{"end with data", iotest.DataErrReader},
}

// OneByte brings a byte at a time.
var OneByte = Split{"one byte", iotest.OneByteReader}

type sevenBytes struct{ r io.Reader }

func (s sevenBytes) Read(b []byte) (int, error) { return s.r.Read(b[:min(7, len(b))]) }

// Recorded answers every request with the bytes of an HTTP answer, split in a certain way.
func Recorded(raw []byte, split func(io.Reader) io.Reader) *http.Client {
	return &http.Client{Transport: recorded{raw, split}}
}

type recorded struct {
	raw   []byte
	split func(io.Reader) io.Reader
}

func (r recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(r.raw)), req)
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(r.split(res.Body))
	return res, nil
}

// Streamed is Recorded for the body of an event stream.
func Streamed(body string, split func(io.Reader) io.Reader) *http.Client {
	return Recorded([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+body), split)
}

// Counter mints ids that are valid and the same in every run.
func Counter() func(string) string {
	n := 0
	return func(prefix string) string {
		n++
		return fmt.Sprintf("%s_%026d", prefix, n)
	}
}
