package openai

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// fakeCompaction answers with what it was asked for.
type fakeCompaction struct {
	org     string
	asked   *wire.CompactRequest
	ignored string
}

func (f *fakeCompaction) Compact(_ context.Context, p tenant.Principal, req *wire.CompactRequest) (*wire.Compacted, error) {
	f.org, f.asked = p.Org, req
	if req.Model == "" {
		return nil, fault.New(fault.Invalid, "A compaction needs a model.").WithCode("missing_required_parameter").WithParam("model")
	}
	return &wire.Compacted{ID: "resp_1", Object: "response.compaction", CreatedAt: 7,
		Output: []wire.Item{wire.NewItem(wire.Compaction{Type: wire.TypeCompaction, ID: "cmp_1", EncryptedContent: "x"})}}, nil
}

func (f *fakeCompaction) Ignored(context.Context, tenant.Principal, *wire.CreateRequest) string {
	return f.ignored
}

func openCompaction(t testing.TB, f *fakeCompaction) *house {
	return openOver(t, 0, func(d *Door) { d.Compaction = f })
}

func TestCompactRoute(t *testing.T) {
	f := &fakeCompaction{}
	h := openCompaction(t, f)
	res, body := h.do(t, http.MethodPost, "/v1/responses/compact", []byte(`{"model":"m","input":"hello","strategy":"truncate"}`), nil)
	if res.StatusCode != http.StatusOK || f.org != "one" || len(f.asked.Input) != 1 || *f.asked.Strategy != "truncate" {
		t.Errorf("%d, %s, %+v", res.StatusCode, body, f.asked)
	}
	for _, want := range []string{`"object":"response.compaction"`, `"created_at":7`, `"output":[{"type":"compaction","id":"cmp_1","encrypted_content":"x"}]`, `"usage":{"input_tokens":0,`} {
		if !strings.Contains(body, want) {
			t.Errorf("the answer has no %s: %s", want, body)
		}
	}
	if res, body = h.do(t, http.MethodPost, "/v1/responses/compact", []byte(`{"input":"hello"}`), nil); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"param":"model"`) {
		t.Errorf("without a model: %d, %s", res.StatusCode, body)
	}
}

func TestWhatIsIgnoredStandsInAHeader(t *testing.T) {
	f := &fakeCompaction{ignored: "context_management is ignored"}
	h := openCompaction(t, f)
	for _, body := range []string{`{"model":"m","input":"hi"}`, `{"model":"m","input":"hi","stream":true}`} {
		res, _ := h.do(t, http.MethodPost, "/v1/responses", []byte(body), nil)
		if got := res.Header.Get(gateway.WarningHeader); got != f.ignored {
			t.Errorf("%s: %q", body, got)
		}
	}
	f.ignored = ""
	if res, _ := h.do(t, http.MethodPost, "/v1/responses", []byte(`{"model":"m","input":"hi"}`), nil); res.Header.Get(gateway.WarningHeader) != "" {
		t.Error("nothing is ignored, and it is said")
	}
}
