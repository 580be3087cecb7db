package anthropic

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/gateway"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
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

// An answer that fails while a ping is being sent tells so behind it, and touches no head that the ping is reading: under
// the race detector that would be seen here, and elsewhere it can end the server. The log has the cause, which nobody
// is told.
func TestAFailureBesideAPing(t *testing.T) {
	w := &busyWriter{ResponseRecorder: httptest.NewRecorder(), began: make(chan struct{})}
	var log bytes.Buffer
	g := gateway.New(gateway.Options{Tenants: keys{}, AllowedHosts: []string{"example.com"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	Register(g, Door{Agent: &fakeAgent{late: w.began, play: func(p *player) { p.failure = errors.New("disk 7") }}, Ping: time.Millisecond})
	r := httptest.NewRequest("POST", "/v1/messages", strings.NewReader(strings.TrimSuffix(hello, "}")+`,"stream":true}`))
	r.Header.Set("X-Api-Key", keyOne)
	g.ServeHTTP(w, r)
	text := w.Body.String()
	all := events(t, text)
	if last := all[len(all)-1]; w.Code != 200 || all[1].Type != wire.EventPing || last.Type != wire.EventError || strings.Contains(text, "disk 7") {
		t.Errorf("%d %s", w.Code, text)
	}
	if strings.Count(log.String(), "disk 7") != 1 {
		t.Errorf("the log: %s", log.String())
	}
}
