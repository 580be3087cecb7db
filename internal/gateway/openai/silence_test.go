package openai

import (
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
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

// A stream that fails while a comment is being sent tells so behind it, and touches no head that the comment is reading:
// under the race detector that would be seen here, and elsewhere it can end the server.
func TestAFailureBesideAComment(t *testing.T) {
	w := &busyWriter{ResponseRecorder: httptest.NewRecorder(), began: make(chan struct{})}
	run := newRun()
	run.failure = errBroken
	go func() {
		<-w.began
		close(run.frames)
	}()
	d := &Door{Keepalive: time.Millisecond}
	if err := d.stream(w, httptest.NewRequest("POST", "/v1/responses", nil), run.Subscribe(-1)); err != errBroken {
		t.Errorf("%v", err)
	}
	if text := w.Body.String(); !strings.HasPrefix(text, ": keepalive") || !strings.Contains(text, "event: error") || strings.Contains(text, errBroken.Error()) {
		t.Error(text)
	}
}
