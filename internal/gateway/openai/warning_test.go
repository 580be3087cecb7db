package openai

import (
	"context"
	"slices"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// warner is an agent that has something to say of each request.
type warner struct {
	Agent
	lines []string
}

func (w warner) Create(ctx context.Context, p tenant.Principal, req *wire.CreateRequest) (Run, error) {
	req.Warn(w.lines...)
	req.Warn(w.lines...)
	return w.Agent.Create(ctx, p, req)
}

// What is done otherwise than a request says is told in front of its answer, whatever form that has.
func TestWarningsStandInTheHead(t *testing.T) {
	for name, body := range map[string]string{
		"an answer":         `{"model":"m","input":"a"}`,
		"a stream":          `{"model":"m","input":"a","stream":true}`,
		"in the background": `{"model":"m","input":"a","background":true}`,
	} {
		for _, want := range [][]string{nil, {"one leaves out: user", "two leaves out: top_p"}} {
			h := openOver(t, 0, func(d *Door) { d.Agent = warner{d.Agent, want} })
			h.agent.run = newRun()
			close(h.agent.run.frames)
			res, text := h.do(t, "POST", "/v1/responses", []byte(body), nil)
			if got := res.Header.Values("X-Hardshell-Warning"); res.StatusCode != 200 || !slices.Equal(got, want) {
				t.Errorf("%s: %d, %q: %s", name, res.StatusCode, got, text)
			}
		}
	}
}
