package terminal

import (
	"encoding/json"
	"strings"
	"testing"
)

// R12: a sandbox that is another one than that of the call before, though nobody asked for that, is told once, by name.
func TestALostSandboxIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		lose   func(t *testing.T, r *rig, b *fakeBackend)
		reason string
	}{
		"it died": {func(t *testing.T, r *rig, b *fakeBackend) { close(b.made()[0].done) }, ResetLost},
		"it did not answer": {func(t *testing.T, r *rig, b *fakeBackend) {
			b.made()[0].silence()
			if got := r.call(ToolExecCommand, `{"cmd":"python3","yield_time_ms":250}`); got.Failure != "io" {
				t.Errorf("%+v", got)
			}
		}, ResetLost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) {
				look := func() *ExecResult {
					got := r.call(ToolExecCommand, `{"cmd":"python3","tty":true,"yield_time_ms":250}`)
					if s, err := r.session.Live().Get(got.SessionID); err == nil {
						s.Kill()
						<-s.Done()
					}
					return got
				}
				if got := look(); got.Restarted != nil {
					t.Errorf("the first sandbox is told of: %+v", got.Restarted)
				}
				c.lose(t, r, b)
				got := look()
				if got.Restarted == nil || got.Restarted.Reason != c.reason {
					t.Fatalf("%+v", got)
				}
				raw, err := json.Marshal(got)
				if err != nil || !strings.Contains(string(raw), `"session_restarted":{"reason":"`+c.reason+`"`) {
					t.Errorf("%v %s", err, raw)
				}
				if text := got.Format(Labelled); !strings.Contains(text, "session_restarted ("+c.reason+")") {
					t.Errorf("the model is not told: %q", text)
				}
				if got := look(); got.Restarted != nil {
					t.Errorf("told twice: %+v", got.Restarted)
				}
			})
		})
	}
}
