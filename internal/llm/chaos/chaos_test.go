package chaos_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/anthropic"
	"github.com/hardshell-dev/hardshell/internal/llm/bedrock"
	"github.com/hardshell-dev/hardshell/internal/llm/cassette"
	"github.com/hardshell-dev/hardshell/internal/llm/chaos"
	"github.com/hardshell-dev/hardshell/internal/llm/chat"
	"github.com/hardshell-dev/hardshell/internal/llm/gemini"
	"github.com/hardshell-dev/hardshell/internal/llm/openai"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

var dialects = map[string]func(upstream.Options) llm.Provider{
	"openai":    func(o upstream.Options) llm.Provider { return openai.New(openai.Options{Options: o}) },
	"chat":      func(o upstream.Options) llm.Provider { return chat.New(chat.Options{Options: o}) },
	"anthropic": func(o upstream.Options) llm.Provider { return anthropic.New(anthropic.Options{Options: o}) },
	"bedrock": func(o upstream.Options) llm.Provider {
		return bedrock.New(bedrock.Options{Options: o, Region: "eu-central-1"})
	},
	"gemini": func(o upstream.Options) llm.Provider { return gemini.New(gemini.Options{Options: o}) },
}

func read(t testing.TB, dialect string) *cassette.Cassette {
	t.Helper()
	raw, err := os.ReadFile("../cassette/testdata/" + dialect + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cassette.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// within is a transport whose server is a handler and whose wires are pipes, so that a test may have a clock of its own.
type within struct{ h http.Handler }

func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	asked := r.Clone(r.Context())
	asked.Body = io.NopCloser(bytes.NewReader(body))
	reader, writer := io.Pipe()
	answer := &piped{header: http.Header{}, to: writer, head: make(chan struct{})}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		defer func() {
			if gone := recover(); gone != nil {
				answer.broken = true
				writer.CloseWithError(io.ErrUnexpectedEOF)
			} else {
				answer.WriteHeader(http.StatusOK)
				writer.Close()
			}
			answer.once.Do(func() { close(answer.head) })
		}()
		w.h.ServeHTTP(answer, asked)
	}()
	select {
	case <-answer.head:
	case <-r.Context().Done():
		reader.Close()
		<-stop
		return nil, r.Context().Err()
	}
	if answer.status == 0 {
		<-stop
		return nil, io.EOF // the server hung up
	}
	return &http.Response{StatusCode: answer.status, Header: answer.sent, Body: ending{reader, stop}, ContentLength: -1, Request: r}, nil
}

// ending is a body whose close waits for the server.
type ending struct {
	*io.PipeReader
	stop chan struct{}
}

func (e ending) Close() error { e.PipeReader.Close(); <-e.stop; return nil }

type piped struct {
	header, sent http.Header
	to           *io.PipeWriter
	status       int
	broken       bool
	head         chan struct{}
	once         sync.Once
}

func (p *piped) Header() http.Header { return p.header }

func (p *piped) WriteHeader(status int) {
	p.once.Do(func() {
		p.status, p.sent = status, p.header.Clone()
		close(p.head)
	})
}

func (p *piped) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.to.Write(b)
}

// said are the words and calls of an answer; opaque thinking is left out.
func said(t testing.TB, a providertest.Answer) []string {
	var all []string
	for _, item := range a.Items {
		one := providertest.Answer{Items: []wire.Item{item}}
		var text strings.Builder
		text.WriteString(one.Thinking() + one.Text())
		for _, c := range one.Calls() {
			var arguments any
			if err := json.Unmarshal([]byte(c.Arguments), &arguments); err != nil {
				t.Errorf("arguments %q: %v", c.Arguments, err)
			}
			text.WriteString(fmt.Sprint(c.Name, " ", arguments))
		}
		if text.String() != "" {
			all = append(all, item.Type+" "+text.String())
		}
	}
	return all
}

// outputs adds what the model said and what its commands printed to a conversation.
func outputs(r *llm.Request, a providertest.Answer) {
	r.Items = append(r.Items, a.Items...)
	for _, c := range a.Calls() {
		command := strings.Trim(strings.TrimPrefix(c.Arguments, `{"commands":`), `[]"}`)
		r.Items = append(r.Items, wire.NewItem(wire.FunctionCallOutput{Type: wire.TypeFunctionCallOutput, CallID: c.CallID,
			Output: wire.OutputText(fmt.Sprintf(`{"stdout":"out-%s\n","exit_code":0}`, command))}))
	}
}

func begin() llm.Request {
	return llm.Request{Model: "m", Items: []wire.Item{wire.UserText("go")}, Tools: []wire.Tool{providertest.Shell}, Shell: "shell"}
}

const seeds = 200

// Under chaos every turn of every dialect ends once: with what the model said and called, no more and no less, or with
// one upstream error. The clock is the test's, so what hangs fails it.
func TestEveryTurnEndsOnceUnderChaos(t *testing.T) {
	for dialect, open := range dialects {
		t.Run(dialect, func(t *testing.T) {
			c := read(t, dialect)
			var clean [][]string
			synctest.Test(t, func(t *testing.T) {
				p := open(upstream.Options{Name: dialect, BaseURL: "http://upstream.example", APIKey: "sk-test",
					Client: &http.Client{Transport: within{cassette.NewPlayer(c, cassette.PlayOptions{})}}})
				r := begin()
				for range c.Exchanges {
					a := providertest.Collect(t, t.Context(), p, r)
					if a.Err != nil {
						t.Fatal(a.Err)
					}
					clean = append(clean, said(t, a))
					outputs(&r, a)
				}
			})
			failed, retried, whole := 0, 0, 0
			for seed := range uint64(seeds) {
				synctest.Test(t, func(t *testing.T) {
					var did []string
					h := chaos.New(cassette.NewPlayer(c, cassette.PlayOptions{}), chaos.Options{Seed: seed, MaxDelay: 20 * time.Second,
						Did: func(n uint64, plan string) { did = append(did, fmt.Sprint(n, ": ", plan)) }})
					p := open(upstream.Options{Name: dialect, BaseURL: "http://upstream.example", APIKey: "sk-test",
						Client: &http.Client{Transport: within{h}}})
					r := begin()
					for n := range c.Exchanges {
						before := len(did)
						a := providertest.Collect(t, t.Context(), p, r)
						if len(did) > before+1 {
							retried++
						}
						if len(did) > before+3 {
							t.Errorf("seed %d, turn %d: asked %d times", seed, n+1, len(did)-before)
						}
						if a.Err != nil {
							if fault.KindOf(a.Err) != fault.Upstream {
								t.Errorf("seed %d, turn %d: %v (%s)", seed, n+1, a.Err, did)
							}
							failed++
							return
						}
						if got := said(t, a); !reflect.DeepEqual(got, clean[n]) {
							t.Errorf("seed %d, turn %d: got %q, want %q (%s)", seed, n+1, got, clean[n], did)
							return
						}
						outputs(&r, a)
					}
					whole++
				})
			}
			if failed == 0 || retried == 0 || whole == 0 {
				t.Errorf("%d runs failed, %d turns were asked for again, %d runs were whole: no chaos", failed, retried, whole)
			}
			t.Logf("%d runs: %d whole, %d failed, %d turns asked for again", seeds, whole, failed, retried)
		})
	}
}

// The same seed does the same.
func TestASeedIsAStory(t *testing.T) {
	story := func(seed uint64) string {
		var b strings.Builder
		h := chaos.New(cassette.NewPlayer(read(t, "anthropic"), cassette.PlayOptions{}), chaos.Options{Seed: seed,
			Did: func(n uint64, plan string) { fmt.Fprintln(&b, n, plan) }})
		for range 40 {
			w := httptest.NewRecorder()
			func() {
				defer func() {
					if gone := recover(); gone != nil {
						fmt.Fprintln(&b, gone)
					}
				}()
				h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/messages", strings.NewReader("{}")))
			}()
			fmt.Fprintln(&b, w.Code, w.Header(), w.Body)
		}
		return b.String()
	}
	if again := story(1); again != story(1) {
		t.Error("the same seed did something else")
	}
	if story(1) == story(2) {
		t.Error("two seeds did the same")
	}
	told := story(3) + story(4) + story(5)
	for _, want := range []string{"429, Retry-After", "hangs up", "cut behind", "frames twice", "late usage", "no usage", "arguments only when done", "comments",
		"slow", "late", "nothing"} {
		if !strings.Contains(told, want) {
			t.Errorf("%q never happened", want)
		}
	}
}
