package agent

import (
	"slices"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm/chat"
	upstreamhttp "github.com/hardshell-dev/hardshell/internal/llm/upstream"
)

// What the model's provider has no place for is known before anything is asked, and told once.
func TestWhatAProviderLeavesOutIsTold(t *testing.T) {
	g := newGround(t)
	g.model = chat.New(chat.Options{Options: upstreamhttp.Options{BaseURL: "http://127.0.0.1:9/v1"}})
	_, a := newHouse(t, g).now()
	for body, want := range map[string][]string{
		`{"model":"m","input":"go"}`: nil,
		`{"model":"m","input":"go","service_tier":"auto","temperature":0.5,"tools":[{"type":"shell"}]}`: nil,
		`{"model":"m","input":"go","service_tier":"flex","prompt_cache_key":"k","user":"u"}`:            {"chat leaves out: prompt_cache_key, service_tier"},
	} {
		req := request(t, body)
		if _, err := a.plan(within(t), principal, req); err != nil || !slices.Equal(req.Warnings, want) {
			t.Errorf("%s: %q, %v", body, req.Warnings, err)
		}
	}
}
