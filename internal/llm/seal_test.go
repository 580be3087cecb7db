package llm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestSeal(t *testing.T) {
	s := llm.Seal{Dialect: "d", Provider: "a"}
	blocks := []json.RawMessage{json.RawMessage(`{"b":"<a> & c","n":1.0}`), json.RawMessage(`"x"`)}
	good := s.Close(blocks)
	if diff := cmp.Diff(blocks, s.Open(good)); diff != "" {
		t.Fatal(diff)
	}
	for _, text := range []string{"", "x", "hsk-d-1.", "hsk-d-1.!!", good[:len(good)-4], strings.Replace(good, "1.", "2.", 1)} {
		if b := s.Open(text); len(b) != 0 {
			t.Errorf("%q gives %s", text, b)
		}
	}
	if len(llm.Seal{Dialect: "d", Provider: "b"}.Open(good)) != 0 || len(llm.Seal{Dialect: "e", Provider: "a"}.Open(good)) != 0 {
		t.Error("another provider, or another dialect, reads it")
	}
}

// What is kept is in the reasoning item that was open, which may show nothing, and in no other.
func TestKeep(t *testing.T) {
	s := llm.Seal{Dialect: "d", Provider: "a"}
	for name, tt := range map[string]struct {
		play func(*llm.Turn)
		want []string // per item: type, shown, sealed
	}{
		"behind shown thinking": {func(w *llm.Turn) {
			w.Reasoning([]byte("hm"))
			w.Keep(s, json.RawMessage("1"))
			w.Text([]byte("a"))
		}, []string{"reasoning hm [1]", "message a []"}},
		"nothing shown": {func(w *llm.Turn) {
			w.Keep(s, json.RawMessage("1"))
			w.Keep(s, json.RawMessage("2"))
			w.Call("f")
		}, []string{"reasoning  [1,2]", "function_call  []"}},
		"between texts": {func(w *llm.Turn) {
			w.Text([]byte("a"))
			w.Keep(s, json.RawMessage("1"))
			w.Text([]byte("b"))
			w.Reasoning([]byte("c"))
		}, []string{"message a []", "reasoning  [1]", "message b []", "reasoning c []"}},
	} {
		var a providertest.Answer
		w := llm.NewTurn(func(ev openai.Event, _ error) bool { a.Events = append(a.Events, ev); return true }, nil)
		tt.play(w)
		w.Complete(nil)
		if err := a.Judge(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, providertest.Dump(a.Events))
			continue
		}
		var got []string
		for _, item := range a.Items {
			var r openai.Reasoning
			if err := item.Decode(&r); err != nil {
				t.Fatal(err)
			}
			blocks, _ := openai.Marshal(s.Open(r.EncryptedContent))
			if string(blocks) == "null" {
				blocks = []byte("[]")
			}
			got = append(got, item.Type+" "+openai.Content(r.Content).Text()+" "+string(blocks))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
