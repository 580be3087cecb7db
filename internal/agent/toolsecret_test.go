package agent

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/response"
)

// turner is a sealer whose seal is easily read, but not by whoever looks for a word.
type turner struct{}

func (turner) Seal(owner string, plain []byte) string {
	return owner + ":" + hex.EncodeToString(plain)
}

func (turner) Unseal(owner, text string) ([]byte, error) {
	rest, ok := strings.CutPrefix(text, owner+":")
	if !ok {
		return nil, errors.New("it is another's")
	}
	return hex.DecodeString(rest)
}

// What an mcp tool shows its server stands in no row as it is, and is there again for the owner who goes on; where it
// cannot be had, nobody goes on without it.
func TestWhatAToolShowsItsServerIsKeptSealed(t *testing.T) {
	const tools = `"tools":[{"type":"web_search"},{"type":"mcp","server_label":"m","server_url":"https://m.example","authorization":"sk-of-the-mcp-server","HEADERS":{"X-Key":"sk-of-the-header"}},` +
		`{"type":"mcp","server_label":"open","server_url":"https://o.example"}]`
	g := newGround(t)
	_, a := newHouse(t, g).now()
	work := func(s Sealer) []byte {
		p := &plan{request: request(t, `{"model":"m","input":"go",`+tools+`}`), sealer: s}
		p.principal.Org = "org"
		raw, err := p.work()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte("sk-of-the")) {
			t.Errorf("a secret is in the row: %s", raw)
		}
		return raw
	}
	a.options.Sealer = turner{}
	again, err := a.replan(within(t), &response.Claim{Work: work(turner{}), Org: "org"})
	if err != nil {
		t.Fatal(err)
	}
	var sent strings.Builder
	for _, f := range again.functions {
		sent.Write(f.Raw)
		sent.WriteByte('\n')
	}
	for _, want := range []string{`"authorization":"sk-of-the-mcp-server"`, `"HEADERS":{"X-Key":"sk-of-the-header"}`, `"server_label":"open"`, `"type":"web_search"`} {
		if !strings.Contains(sent.String(), want) {
			t.Errorf("%s is not in\n%s", want, sent.String())
		}
	}
	for name, c := range map[string]struct {
		work   []byte
		sealer Sealer
		org    string
	}{
		"another organisation's": {work(turner{}), turner{}, "rival"},
		"nobody can open it":     {work(turner{}), nil, "org"},
		"nobody could seal it":   {work(nil), turner{}, "org"},
	} {
		a.options.Sealer = c.sealer
		if _, err := a.replan(within(t), &response.Claim{Work: c.work, Org: c.org}); fault.KindOf(err) != fault.Internal || strings.Contains(err.Error(), "sk-of") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
