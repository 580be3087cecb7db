package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
)

const okWhole = `{"choices":[{"index":0,"message":{"role":"assistant","content":"token "},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`

// An answer in one piece is asked for once; whatever goes wrong with it, the next try streams.
func TestWhole(t *testing.T) {
	whole := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, okWhole)
	}
	says := func(status int, message string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, fmt.Sprintf(`{"error":{"message":%q}}`, message), status) }
	}
	tests := []struct {
		name   string
		answer func(http.ResponseWriter) // to a request for the whole
		asked  []bool                    // "stream" of each try
		code   string
	}{
		{"answered", whole, []bool{false}, ""},
		{"streamed all the same", func(w http.ResponseWriter) { writeStream(w, okStream) }, []bool{false}, ""},
		{"a proxy lost patience", says(504, "upstream timed out"), []bool{false, true}, ""},
		{"cut", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, []bool{false, true}, ""},
		{"cut in the middle", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, okWhole[:50])
			panic(http.ErrAbortHandler)
		}, []bool{false, true}, ""},
		{"streams only", says(400, "This model supports Stream mode only."), []bool{false, true}, ""},
		{"a bad request", says(400, "no such parameter"), []bool{false}, "invalid_prompt"},
		{"never answered", func(http.ResponseWriter) { time.Sleep(3 * time.Second) }, []bool{false, true}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var asked []bool
			p := serve(t, Options{FirstByteTimeout: 500 * time.Millisecond, IdleTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var q struct{ Stream bool }
				if err := json.Unmarshal(body, &q); err != nil || bytes.Contains(body, []byte("stream_options")) != q.Stream {
					t.Errorf("body %s: %v", body, err)
				}
				if (r.Header.Get("Accept") == "text/event-stream") != q.Stream {
					t.Errorf("stream %t is asked for with Accept %q", q.Stream, r.Header.Get("Accept"))
				}
				mu.Lock()
				asked = append(asked, q.Stream)
				mu.Unlock()
				if q.Stream {
					writeStream(w, okStream)
					return
				}
				tt.answer(w)
			})
			req := hello()
			req.Whole = true
			a := providertest.Collect(t, t.Context(), p, req)
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(asked, tt.asked) {
				t.Errorf("asked for streams %v, want %v", asked, tt.asked)
			}
			if tt.code != "" {
				if e, ok := fault.As(a.Err); !ok || e.Code != tt.code {
					t.Errorf("err %v, want code %s", a.Err, tt.code)
				}
				return
			}
			if a.Err != nil || strings.TrimSpace(a.Text()) != "token" {
				t.Errorf("err %v, text %q", a.Err, a.Text())
			}
		})
	}
}
