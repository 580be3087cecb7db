package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

func TestTriesAgainBeforeTheFirstWord(t *testing.T) {
	status := func(code int, header ...string) func() (*http.Response, error) {
		return func() (*http.Response, error) {
			return answer(code, "application/json", strings.NewReader(`{"error":{"message":"no"}}`), header...), nil
		}
	}
	said := func(code int, body string) func() (*http.Response, error) {
		return func() (*http.Response, error) { return answer(code, "application/json", strings.NewReader(body)), nil }
	}
	streams := func(s string) func() (*http.Response, error) {
		return func() (*http.Response, error) { return stream(s), nil }
	}
	broken := func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	tests := []struct {
		name    string
		answers []func() (*http.Response, error) // the last one for all further tries
		tries   int
		code    string // "" where it ends well
	}{
		{"429 then well", []func() (*http.Response, error){status(429, "Retry-After", "0"), streams(okStream)}, 2, ""},
		{"500 and 503 then well", []func() (*http.Response, error){status(500), status(503), streams(okStream)}, 3, ""},
		{"529 then well", []func() (*http.Response, error){status(529), streams(okStream)}, 2, ""},
		{"connection closed then well", []func() (*http.Response, error){broken, streams(okStream)}, 2, ""},
		{"empty stream then well", []func() (*http.Response, error){streams(": hi\n\n"), streams(okStream)}, 2, ""},
		{"overloaded in the stream then well", []func() (*http.Response, error){streams("data: {\"error\":{\"message\":\"x\",\"code\":503}}\n\n"), streams(okStream)}, 2, ""},
		{"the server says yes", []func() (*http.Response, error){status(409, "X-Should-Retry", "true"), streams(okStream)}, 2, ""},
		{"the server says no", []func() (*http.Response, error){status(500, "X-Should-Retry", "false")}, 1, "server_error"},
		{"always 503", []func() (*http.Response, error){status(503)}, 3, "server_error"},
		{"always 429", []func() (*http.Response, error){status(429)}, 3, "rate_limit_exceeded"},
		{"429 without credit", []func() (*http.Response, error){said(429, `{"error":{"code":"insufficient_quota"}}`)}, 1, "insufficient_quota"},
		{"429 for longer than we wait", []func() (*http.Response, error){status(429, "Retry-After", "3600")}, 1, "rate_limit_exceeded"},
		{"400", []func() (*http.Response, error){status(400)}, 1, "invalid_prompt"},
		{"401", []func() (*http.Response, error){status(401)}, 1, "server_error"},
		{"401 in the stream", []func() (*http.Response, error){streams("data: {\"error\":{\"type\":\"authentication_error\"}}\n\n")}, 1, "server_error"},
		{"400 in the stream", []func() (*http.Response, error){streams("data: {\"error\":{\"type\":\"invalid_request_error\"}}\n\n")}, 1, "invalid_prompt"},
		{"404", []func() (*http.Response, error){status(404)}, 1, "model_not_found"},
		{"501", []func() (*http.Response, error){status(501)}, 1, "server_error"},
		{"cut behind the first word", []func() (*http.Response, error){streams("data: token\n\n")}, 1, "server_error"},
		{"an error behind the first word", []func() (*http.Response, error){streams("data: token\n\ndata: {\"error\":{\"code\":503}}\n\n")}, 1, "server_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				s := in(Options{}, func(r *http.Request) (*http.Response, error) {
					body, _ := io.ReadAll(r.Body)
					if !bytes.Contains(body, []byte("hello")) {
						t.Errorf("the body of a try is %q", body)
					}
					tries++
					return tt.answers[min(tries, len(tt.answers))-1]()
				})
				a, err := ask(t.Context(), s, false)
				if tries != tt.tries || a.begun != tries {
					t.Errorf("%d tries, begun %d; want %d (%v)", tries, a.begun, tt.tries, err)
				}
				if tt.code == "" {
					if err != nil || a.said() != "token" || !a.closed {
						t.Errorf("err %v, said %q", err, a.said())
					}
				} else if e, ok := fault.As(err); !ok || e.Code != tt.code || e.Kind != fault.Upstream {
					t.Errorf("err %v, want code %q", err, tt.code)
				}
			})
		})
	}
}

// slow is a body that waits before each piece. What stands behind the pieces ends with the context.
type slow struct {
	ctx    context.Context
	pieces []string
	wait   time.Duration
	hang   bool // there is no end
}

func (s *slow) Read(b []byte) (int, error) {
	if len(s.pieces) == 0 && !s.hang {
		return 0, io.EOF
	}
	wait := time.After(s.wait)
	if len(s.pieces) == 0 {
		wait = nil
	}
	select {
	case <-wait:
		n := copy(b, s.pieces[0])
		s.pieces = s.pieces[1:]
		return n, nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

// Silence ends a call, in whichever phase; time that passes otherwise does not.
func TestPatience(t *testing.T) {
	hang := func(status int, pieces ...string) trip {
		return func(r *http.Request) (*http.Response, error) {
			return answer(status, "text/event-stream", &slow{ctx: r.Context(), pieces: pieces, hang: true}), nil
		}
	}
	tests := []struct {
		name string
		trip trip
		want string // "" where it ends well
	}{
		{"no head", func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }, "did not answer within 5m0s"},
		{"head and nothing more", hang(200), "sent nothing for 5m0s"},
		{"silent in the middle", hang(200, "data: token\n\n"), "sent nothing for 5m0s"},
		{"silent in an error body", hang(400, "part"), "refused the request"},
		{"silent behind the end of the turn", hang(200, "data: token\n\n", "data: END\n\n"), ""},
		{"open behind the end", hang(200, okStream), ""},
		{"slow but not silent", func(r *http.Request) (*http.Response, error) {
			time.Sleep(4 * time.Minute)
			return answer(200, "text/event-stream", &slow{ctx: r.Context(), wait: 4 * time.Minute,
				pieces: append(strings.SplitAfter(strings.Repeat("data: token\n\n", 20), "\n\n"), okStream)}), nil
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				a, err := ask(t.Context(), in(Options{}, tt.trip), false)
				if tt.want == "" && (err != nil || !a.closed) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("err = %v, want %q", err, tt.want)
				}
				if took := time.Since(begun); tt.name == "silent behind the end of the turn" && took > time.Minute {
					t.Errorf("waited %s for an end that matters to nobody", took)
				}
			})
		})
	}
}

// The time in which the consumer is slow does not count as silence.
func TestASlowConsumerIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := false
		w := &watch{src: strings.NewReader("ab"), idle: time.Second}
		w.timer = time.AfterFunc(time.Second, func() { cancelled = true })
		var b [1]byte
		for range 2 {
			w.Read(b[:])
			time.Sleep(time.Hour)
		}
		synctest.Wait()
		if cancelled {
			t.Error("the consumer's time was counted")
		}
	})
}

// An answer in one piece is asked for once; whatever goes wrong with it, the next try streams.
func TestWhole(t *testing.T) {
	says := func(status int, message string) trip {
		return func(*http.Request) (*http.Response, error) {
			return answer(status, "application/json", strings.NewReader(fmt.Sprintf(`{"error":{"message":%q}}`, message))), nil
		}
	}
	tests := []struct {
		name   string
		answer trip // to a request for the whole
		asked  string
		code   string
	}{
		{"answered", func(*http.Request) (*http.Response, error) {
			return answer(200, "application/json", strings.NewReader("  {\"text\":\"token\"}\n")), nil
		}, "whole", ""},
		{"streamed all the same", func(*http.Request) (*http.Response, error) { return stream(okStream), nil }, "whole", ""},
		{"a proxy lost patience", says(504, "upstream timed out"), "whole stream", ""},
		{"cut", func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, "whole stream", ""},
		{"cut in the middle", func(*http.Request) (*http.Response, error) {
			return answer(200, "application/json", io.MultiReader(strings.NewReader(`{"te`), broken{})), nil
		}, "whole stream", ""},
		{"streams only", says(400, "This model supports Stream mode only."), "whole stream", ""},
		{"a bad request", says(400, "no such parameter"), "whole", "invalid_prompt"},
		{"never answered", func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }, "whole stream", ""},
		{"no answer of the dialect's", func(*http.Request) (*http.Response, error) {
			return answer(200, "application/json", strings.NewReader(`{"x":1}`)), nil
		}, "whole stream", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				s := in(Options{}, func(r *http.Request) (*http.Response, error) {
					body, _ := io.ReadAll(r.Body)
					if bytes.Contains(body, []byte(`"stream":true`)) {
						if asked = append(asked, "stream"); r.Header.Get("Accept") != "text/event-stream" {
							t.Errorf("a stream is asked for with Accept %q", r.Header.Get("Accept"))
						}
						return stream(okStream), nil
					}
					if asked = append(asked, "whole"); r.Header.Get("Accept") != "application/json" {
						t.Errorf("the whole is asked for with Accept %q", r.Header.Get("Accept"))
					}
					return tt.answer(r)
				})
				a, err := ask(t.Context(), s, true)
				if got := strings.Join(asked, " "); got != tt.asked {
					t.Errorf("asked for %s, want %s", got, tt.asked)
				}
				if e, ok := fault.As(err); tt.code != "" && (!ok || e.Code != tt.code) {
					t.Errorf("err %v, want code %s", err, tt.code)
				} else if tt.code == "" && (err != nil || a.said() != "token") {
					t.Errorf("err %v, said %q", err, a.said())
				}
			})
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// No more calls than allowed are under way; one that waits leaves with its context.
func TestCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		release := make(chan struct{})
		s := in(Options{MaxConcurrent: 2}, func(*http.Request) (*http.Response, error) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-release
			now.Add(-1)
			return stream(okStream), nil
		})
		errs := make(chan error, 5)
		for range 5 {
			go func() { _, err := ask(t.Context(), s, false); errs <- err }()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error)
		go func() { _, err := ask(ctx, s, false); waiting <- err }()
		synctest.Wait()
		cancel()
		if err := <-waiting; fault.KindOf(err) != fault.Cancelled {
			t.Errorf("one that waited and left: %v", err)
		}
		close(release)
		for range 5 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if most.Load() != 2 {
			t.Errorf("%d at once, want 2", most.Load())
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "2", 2 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "-1", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "1e300", 1e6 * time.Second},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:15 GMT", 10 * time.Second},
		{"Retry-After", "Fri, 02 Jan 2020 03:04:15 GMT", 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
	} {
		if got := retryAfter(http.Header{http.CanonicalHeaderKey(tt.name): {tt.value}}, now); got != tt.want {
			t.Errorf("%s: %s = %v, want %v", tt.name, tt.value, got, tt.want)
		}
	}
}
