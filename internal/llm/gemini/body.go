package gemini

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// maxName bounds a function's name, as the API does.
const maxName = 64

// Dialect is how requests are written.
type Dialect struct {
	Provider string
}

// LeftOut lists what of a request may be left out without a refusal, and when. Everything else is mapped or refused.
func LeftOut() map[string]string {
	return map[string]string{
		"parallel_tool_calls": "false: the API has no word for it, and calls of one turn are run all the same",
		"reasoning":           "of models up to Gemini 2.0, which do not think",
		"reasoning.effort":    "none, of models that cannot do without thinking: they think as little as they can",
		"text.verbosity":      "always",
		"text.format.name":    "always, and its description: the schema says what is wanted",
		"text.format.strict":  "the schema is always followed",
		"tools[].strict":      "always: the API decides how closely a schema is followed",
		"user":                "always: the API keeps no user",
		"safety_identifier":   "always: the API keeps no user",
		"prompt_cache_key":    "always: the API finds by itself what it has seen",
		"cache_control":       "always: the API finds by itself what it has seen",
		"service_tier":        "auto and default, which are what is served anyway",
		"input[].encrypted":   "reasoning of another provider, or without a seal",
		"input[].detail":      "of an image: always",
		"input[].id":          "always: an id of this gateway's means nothing to the upstream",
		"input[].phase":       "of a message: the API has no place for it",
		"input[].filename":    "always: the API knows no names of files",
		"input[].annotation":  "of an answer's text: always",
	}
}

// Body translates a request to the bytes to send.
func (d Dialect) Body(r llm.Request) ([]byte, error) {
	_, body, err := d.request(r)
	return body, err
}

// seal is the provider's mark on signatures.
func (d Dialect) seal() llm.Seal { return llm.Seal{Dialect: "gemini", Provider: d.Provider} }

// request translates a request, and remembers the names that it changed.
func (d Dialect) request(r llm.Request) (*dialect.Names, []byte, error) {
	n := &dialect.Names{Max: maxName, Letter: true}
	is := generationOf(r.Model)
	g := &grammar{dialect: d, names: n, shown: is >= levels}
	c, err := dialect.Converse(r, d.Provider, g)
	if err != nil {
		return nil, nil, err
	}
	var req wire.Request
	if len(c.System) > 0 {
		req.System = &wire.Content{Parts: settle(c.System, false)}
	}
	for _, turn := range c.Turns {
		req.Contents = append(req.Contents, contents(turn, is >= levels)...)
	}
	if err := d.tools(&req, r, n); err != nil {
		return nil, nil, err
	}
	if err := d.generation(&req, r, is); err != nil {
		return nil, nil, err
	}
	tier, err := dialect.Tier(r, d.Provider)
	if err != nil {
		return nil, nil, err
	}
	req.ServiceTier = tier
	body, err := dialect.Encode(req)
	return n, body, err
}

// contents are those of one turn. The answers to calls have a content of their own: they must be as many as the calls.
// A turn of which nothing is left has none; the API takes two contents of one role behind each other.
func contents(turn dialect.Turn[block], strict bool) []wire.Content {
	if turn.Role == dialect.Model {
		if parts := settle(turn.Content, strict); len(parts) > 0 {
			return []wire.Content{{Role: "model", Parts: parts}}
		}
		return nil
	}
	var answers, rest []wire.Part
	for _, p := range settle(turn.Content, false) {
		if p.FunctionResponse != nil {
			answers = append(answers, p)
		} else {
			rest = append(rest, p)
		}
	}
	var out []wire.Content
	for _, parts := range [][]wire.Part{answers, rest} {
		if len(parts) > 0 {
			out = append(out, wire.Content{Role: "user", Parts: parts})
		}
	}
	return out
}

// tools declares the functions and the choice among them.
func (d Dialect) tools(req *wire.Request, r llm.Request, n *dialect.Names) error {
	choice, err := dialect.ReadFunctions(r, d.Provider)
	if err != nil {
		return err
	}
	if len(choice.Tools) == 0 {
		return nil
	}
	var tool wire.Tool
	for _, t := range choice.Tools {
		f := wire.Function{Name: n.Sent(t.Name), Description: t.Description}
		if dialect.Present(t.Parameters) {
			if f.Schema, err = dialect.ObjectSchema(t); err != nil {
				return err
			}
		}
		tool.Functions = append(tool.Functions, f)
	}
	req.Tools = []wire.Tool{tool}
	var calling wire.Calling
	switch choice.Mode {
	case "":
		return nil
	case "none":
		calling.Mode = wire.ModeNone
	case "auto":
		calling.Mode = wire.ModeAuto
	case "required":
		calling.Mode = wire.ModeAny
	case "function":
		calling = wire.Calling{Mode: wire.ModeAny, Allowed: []string{n.Sent(choice.Name)}}
	}
	req.ToolConfig = &wire.ToolConfig{Calling: calling}
	return nil
}

// generation translates limits, the answer's wanted form and effort.
func (d Dialect) generation(req *wire.Request, r llm.Request, is generation) error {
	c := wire.Generation{MaxOutputTokens: r.MaxOutputTokens, Temperature: r.Temperature, TopP: r.TopP}
	f, err := dialect.ReadText(r.Text)
	if err != nil {
		return err
	}
	switch f.Type {
	case "text":
	case "json_object", "json_schema":
		if is < levels && len(req.Tools) > 0 {
			return dialect.Unserved("text.format.type", d.Provider, "text.format of type %q together with tools, before Gemini 3,", f.Type).
				WithTry("a model from Gemini 3 on, or a request without tools")
		}
		c.MIMEType, c.Schema = "application/json", f.Schema
	default:
		return f.Unserved(d.Provider)
	}
	want, err := dialect.ReadEffort(r.Reasoning)
	if err != nil {
		return err
	}
	c.Thinking = thinking(r.Model, want)
	if c.MaxOutputTokens != nil || c.Temperature != nil || c.TopP != nil || c.MIMEType != "" || c.Thinking != nil {
		req.Generation = &c
	}
	return nil
}

// grammar writes the API's parts.
type grammar struct {
	dialect Dialect
	names   *dialect.Names
	shown   bool // the model sees pictures within a function's answer
}

var _ dialect.Grammar[block] = (*grammar)(nil)

// Call implements [dialect.Grammar].
func (g *grammar) Call(c dialect.Call) []block {
	return []block{{name: c.Name, Part: wire.Part{FunctionCall: &wire.FunctionCall{ID: c.CallID, Name: g.names.Sent(c.Name), Args: c.Input}}}}
}

// Result implements [dialect.Grammar].
func (g *grammar) Result(c dialect.Call, content []block, failed bool, _ json.RawMessage) []block {
	answer := &wire.FunctionResponse{ID: c.CallID, Name: g.names.Sent(c.Name)}
	var words []string
	var behind []block
	for _, b := range content {
		switch {
		case b.Text != nil:
			words = append(words, *b.Text)
		case g.shown && b.InlineData != nil:
			answer.Parts = append(answer.Parts, b.Part)
		default:
			behind = append(behind, b)
		}
	}
	text := strings.Join(words, "\n")
	if failed {
		answer.Response.Error = &text
	} else {
		answer.Response.Output = &text
	}
	return slices.Concat([]block{{Part: wire.Part{FunctionResponse: answer}}}, behind)
}

// Thoughts implements [dialect.Grammar]. What the model showed of its thinking stays here; its signatures go back.
func (g *grammar) Thoughts(item openai.Item) ([]block, error) {
	raw, err := g.dialect.seal().OpenItem(item)
	if err != nil {
		return nil, err
	}
	var blocks []block
	for _, r := range raw {
		if m, ok := readMark(r); ok {
			blocks = append(blocks, block{mark: &m})
		}
	}
	return blocks, nil
}

// Thinks implements [dialect.Grammar]. What stands behind a text belongs to it.
func (g *grammar) Thinks(b block) bool { return b.mark != nil && b.mark.On != onText }
