package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// FuzzReadEvent: whatever a client says is a request that streams, or a refusal of its making that shows little of it.
func FuzzReadEvent(f *testing.F) {
	for _, seed := range []string{`{"type":"response.create","model":"m","input":"hello"}`, `{"type":"response.create","stream":false,"background":true}`,
		`{"type":"response.steer"}`, `{"type":"response.create","stream_id":"a"}`, `{"type":null,"stream_id":{}}`, `{"type":"\ud800"}`, `[]`, ``, ` {`,
		`{"type":"response.create","input":[{"type":"message"}],"tools":[{"type":1}]}`, `{"TYPE":"response.create","Type":"x"}`,
		`{"type":"` + strings.Repeat("é", 300) + `","stream_id":"` + strings.Repeat("é", 300) + `"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		req, lane, err := readEvent(text)
		if len(lane) > maxLane {
			t.Errorf("a stream_id of %d bytes is repeated", len(lane))
		}
		if err != nil {
			e, ok := fault.As(err)
			if req != nil || !ok || e.Kind != fault.Invalid || e.Code == "" {
				t.Errorf("%q: %v", text, err)
			}
			if e.Code == "unknown_event_type" && len(e.Public()) > 200+4*maxSaid*len(`\U0010ffff`) {
				t.Errorf("a refusal of %d bytes", len(e.Public()))
			}
			if _, err := wire.Marshal(errorEvent{Type: "error", Error: errorObject(err, "req_1"), Lane: lane}); err != nil {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if !req.Streams() || lane != "" || !json.Valid(req.Raw) {
			t.Errorf("%q is read as %+v", text, req)
		}
	})
}

func TestWhatAConnectionKeepsIsBounded(t *testing.T) {
	item := func(id string, bytes int) wire.Item { return wire.Item{ID: id, Raw: make([]byte, bytes)} }
	end := func(id string, bytes int) *wire.Response {
		return &wire.Response{ID: id, Output: []wire.Item{item("out", bytes)}}
	}
	t.Run("by number", func(t *testing.T) {
		m := memory{most: 1 << 20}
		for i := range 2 * maxTurns {
			m.keep(end(fmt.Sprint(i), 1), nil, nil)
		}
		if len(m.turns) != maxTurns || m.find(fmt.Sprint(maxTurns-1)) != nil || m.find(fmt.Sprint(maxTurns)) == nil {
			t.Errorf("%d are kept", len(m.turns))
		}
	})
	t.Run("by bytes", func(t *testing.T) {
		m := memory{most: 100}
		m.keep(end("a", 40), nil, []wire.Item{item("in", 10)})
		m.keep(end("b", 50), nil, nil)
		if m.find("a") == nil || m.find("b") == nil {
			t.Error("100 bytes are too many")
		}
		m.keep(end("c", 1), m.find("a"), nil) // 51 with what it went on from
		if m.find("a") != nil || m.find("b") != nil || m.find("c") == nil {
			t.Errorf("%+v", m.turns)
		}
		m.keep(end("d", 101), nil, nil)
		if len(m.turns) != 0 {
			t.Error("what is larger than all that is kept is kept")
		}
	})
	t.Run("and nothing is shared", func(t *testing.T) {
		m := memory{most: 1 << 20}
		m.keep(end("a", 1), nil, []wire.Item{item("in", 1)})
		before := m.find("a")
		for _, id := range []string{"b", "c"} {
			m.keep(&wire.Response{ID: id, Output: []wire.Item{item(id, 1)}}, before, nil)
		}
		if got := m.find("b").Items[2].ID; got != "b" {
			t.Errorf("one branch holds what another said: %s", got)
		}
		m.forget("a")
		m.forget("nobody")
		if m.find("a") != nil || m.find("b") == nil {
			t.Error("the wrong one is forgotten")
		}
	})
}
