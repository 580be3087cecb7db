package chat

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/gateway"
)

// busyWriter tells when its first write has begun, which reads the head of the answer like a server's.
type busyWriter struct {
	*httptest.ResponseRecorder
	once  sync.Once
	began chan struct{}
}

func (w *busyWriter) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.began) })
	return w.ResponseRecorder.Write(b)
}

// An answer that fails while a comment is being sent tells so behind it, and touches no head that the comment is reading:
// under the race detector that would be seen here, and elsewhere it can end the server. The log has the cause.
func TestAFailureBesideAComment(t *testing.T) {
	w := &busyWriter{ResponseRecorder: httptest.NewRecorder(), began: make(chan struct{})}
	var log bytes.Buffer
	g := gateway.New(gateway.Options{Tenants: keys{}, AllowedHosts: []string{"example.com"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	Register(g, Door{Agent: &fakeAgent{late: w.began}, Keepalive: time.Millisecond}, plainError)
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	r.Header.Set("Authorization", "Bearer key")
	g.ServeHTTP(w, r)
	text := w.Body.String()
	if w.Code != 200 || !strings.HasPrefix(text, ": keepalive") || !strings.Contains(text, `data: {"error":{"message":`) || strings.Contains(text, "disk 7") {
		t.Errorf("%d %s", w.Code, text)
	}
	if strings.Count(log.String(), "disk 7") != 1 {
		t.Errorf("the log: %s", log.String())
	}
}
