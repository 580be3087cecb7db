package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// asked is a request, read: what is asked of the loop, and how its answer is to be told.
type asked struct {
	request openai.CreateRequest
	stream  bool
	thinks  bool     // the client wants to see the model think
	stops   []string // the answer ends before the first of them
}

// readMessages reads the body of a request, which must be one JSON object. What the vendor adds is ignored, as clients
// run ahead of servers; a known field of the wrong type is refused.
func readMessages(r *http.Request) (*wire.Request, error) {
	raw, err := gateway.ReadBody(r)
	if err != nil {
		return nil, err
	}
	body := bytes.TrimLeft(raw, " \t\r\n")
	if len(body) == 0 || body[0] != '{' {
		return nil, invalid("", "The request body must be one JSON object.")
	}
	var m wire.Request
	if err := json.Unmarshal(body, &m); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			what, _, _ := strings.Cut(mismatch.Value, " ") // "number 1.5" would show the value
			return nil, invalid(mismatch.Field, "must not be %s", article(what))
		}
		return nil, fault.Wrap(fault.Invalid, err, "The request body is not valid JSON: %s.", err)
	}
	return &m, nil
}

func article(word string) string {
	if word == "array" || word == "object" {
		return "an " + word
	}
	return "a " + word
}

// dated is the form of every version of the API.
var dated = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^20\d\d-[01]\d-[0-3]\d$`) })

// readVersion reads the version of the API that the client speaks. One that is not known is taken for the latest before
// it, as what clients need of it is what they needed then.
func readVersion(r *http.Request) (string, error) {
	v := r.Header.Get(header)
	switch {
	case v == "":
		return wire.Version2023, nil
	case !dated().MatchString(v) || v < wire.Version2023:
		return "", invalid("anthropic-version", "%q is not a valid version", clip(v)).WithTry("%s or %s", wire.Version2023, wire.Version2026)
	case v < wire.Version2026:
		return wire.Version2023, nil
	}
	return wire.Version2026, nil
}

// clip shortens what a client sent before it is shown back.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// translate reads a request of a version of the API. What counts tokens alone needs no max_tokens.
func translate(m *wire.Request, version string, counting bool) (*asked, error) {
	if err := check(m, version, counting); err != nil {
		return nil, err
	}
	no, yes := false, true
	a := &asked{stream: m.Stream, stops: m.StopSequences, request: openai.CreateRequest{Model: m.Model, MaxOutputTokens: m.MaxTokens,
		Store: &no, Stream: &yes, Temperature: m.Temperature, TopP: m.TopP}}
	var c conversation
	if err := c.system(m.System, &a.request); err != nil {
		return nil, err
	}
	for i, message := range m.Messages {
		if err := c.message(fmt.Sprintf("messages.%d", i), message); err != nil {
			return nil, err
		}
	}
	a.request.Input = c.items
	if err := a.readTools(m); err != nil {
		return nil, err
	}
	if err := a.readThinking(m); err != nil {
		return nil, err
	}
	if m.Metadata != nil && m.Metadata.UserID != "" {
		a.request.User = &m.Metadata.UserID
	}
	if m.TopK != nil {
		a.request.Warn("top_k is left out: no provider is asked with it")
	}
	if m.ServiceTier == "auto" {
		a.request.ServiceTier = &m.ServiceTier
	}
	return a, nil
}

// check refuses known fields with bad values.
func check(m *wire.Request, version string, counting bool) error {
	switch {
	case m.Model == "":
		return invalid("model", "Field required")
	case m.MaxTokens == nil && !counting:
		return invalid("max_tokens", "Field required")
	case m.MaxTokens != nil && *m.MaxTokens < 1:
		return invalid("max_tokens", "must be at least 1")
	case len(m.Messages) == 0:
		return invalid("messages", "at least one message is required")
	case m.ServiceTier != "" && m.ServiceTier != "auto" && m.ServiceTier != "standard_only":
		return invalid("service_tier", "must be auto or standard_only")
	}
	for _, f := range []struct {
		name  string
		given bool
	}{{"temperature", m.Temperature != nil}, {"top_p", m.TopP != nil}, {"top_k", m.TopK != nil}} {
		if f.given && version == wire.Version2026 {
			return invalid(f.name, "is not a field of version %s", version).WithTry("the header anthropic-version: %s", wire.Version2023)
		}
	}
	if t := m.Temperature; t != nil && !(*t >= 0 && *t <= 1) {
		return invalid("temperature", "must be from 0 to 1")
	}
	if p := m.TopP; p != nil && !(*p >= 0 && *p <= 1) {
		return invalid("top_p", "must be from 0 to 1")
	}
	if slices.ContainsFunc(m.StopSequences, func(s string) bool { return strings.TrimSpace(s) == "" }) {
		return invalid("stop_sequences", "each stop sequence must contain non-whitespace")
	}
	if servers := m.Extra["mcp_servers"]; present(servers) && string(bytes.TrimSpace(servers)) != "[]" {
		return invalid("mcp_servers", "MCP servers are not served here")
	}
	return nil
}

// budgets are the efforts that stand for a budget of thinking, the greatest first. They are the reverse of what a provider
// that thinks by budget makes of an effort.
var budgets = []struct {
	from   int64
	effort string
}{{20000, "xhigh"}, {12000, "high"}, {4096, "medium"}, {1500, "low"}, {0, "minimal"}}

// readThinking reads how the model is to think, and the form of its answer.
func (a *asked) readThinking(m *wire.Request) error {
	var want openai.ReasoningConfig
	auto := "auto"
	if t := m.Thinking; t != nil {
		switch t.Type {
		case "disabled":
		case "enabled":
			if t.BudgetTokens < 1024 {
				return invalid("thinking.budget_tokens", "must be at least 1024")
			}
			if m.MaxTokens != nil && t.BudgetTokens >= *m.MaxTokens {
				return invalid("thinking.budget_tokens", "must be less than max_tokens")
			}
			for _, b := range budgets {
				if t.BudgetTokens >= b.from {
					want.Effort = &b.effort
					break
				}
			}
			want.Summary = &auto
		case "adaptive", "between_tools":
			want.Summary = &auto
		default:
			return invalid("thinking.type", "%q is not known", clip(t.Type))
		}
		a.thinks = want.Summary != nil && t.Display != "omitted"
	}
	if o := m.OutputConfig; o != nil {
		switch o.Effort {
		case "":
		case "low", "medium", "high", "xhigh", "max":
			want.Effort = &o.Effort
		default:
			return invalid("output_config.effort", "%q is not known", clip(o.Effort))
		}
		if f := o.Format; f != nil {
			if f.Type != "json_schema" || !isObject(f.Schema) {
				return invalid("output_config.format", "must be {type: json_schema, schema}")
			}
			a.request.Text = marshal(map[string]any{"format": map[string]any{"type": "json_schema", "name": "answer", "strict": true, "schema": f.Schema}})
		}
	}
	if want.Effort != nil || want.Summary != nil {
		a.request.Reasoning = marshal(want)
	}
	return nil
}

// marshal writes what always marshals: strings, and JSON that was read before.
func marshal(v any) json.RawMessage {
	raw, err := wire.Marshal(v)
	if err != nil {
		panic("gateway/anthropic: " + err.Error())
	}
	return raw
}

// present says whether an optional raw field was given; null counts as left out.
func present(raw json.RawMessage) bool {
	s := strings.TrimSpace(string(raw))
	return s != "" && s != "null"
}

func isObject(raw json.RawMessage) bool {
	return strings.HasPrefix(strings.TrimSpace(string(raw)), "{")
}
