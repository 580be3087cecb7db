// Package dialect reads the parts of a request that every upstream dialect must understand, once for all of them: the
// choice among the tools, the wanted form of the answer, effort and service tier, parts of content, which output answers
// which call, names that an upstream takes, and the turns of a conversation.
//
// It writes no vendor's JSON and calls nobody. What holds: what a request says wrongly is refused with the field's
// name, never guessed.
package dialect

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Present says whether a raw field holds something; null counts as left out.
func Present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// Invalid is a 400 that names the request field.
func Invalid(param, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).WithCode("invalid_value").WithParam(param)
}

// Malformed is a 400 for an item whose fields have wrong types.
func Malformed(param, typ string, cause error) *fault.Error {
	return fault.Wrap(fault.Invalid, cause, "%s is not a %s of a known form", param, typ).WithCode("invalid_value").WithParam(param)
}

// Unserved is a 400 for an item, or a part of one, that a provider has no place for. What is said of it begins with an
// article.
func Unserved(param, provider, format string, args ...any) *fault.Error {
	return Invalid(param, format+" cannot be served by provider %q", append(args, provider)...)
}

// RefuseItem refuses an item that a dialect has no place for. A shell item here is a defect of ours.
func RefuseItem(item openai.Item, at, provider string) *fault.Error {
	switch item.Type {
	case openai.TypeShellCall, openai.TypeShellCallOutput:
		return fault.New(fault.Internal, "%s is a %s: it reached provider %q without having been rewritten to a function item",
			at, item.Type, provider)
	}
	return Unserved(at+".type", provider, "an input item of type %q", item.Type)
}

// Encode writes a vendor's request.
func Encode(v any) ([]byte, error) {
	body, err := openai.Marshal(v)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the request cannot be written as JSON")
	}
	return body, nil
}

// Choice is a tool_choice, read.
type Choice struct {
	Mode  string // auto, none, required, function, or "" where the request says nothing
	Name  string // of the function that must be called
	Tools []openai.Tool
}

// ReadFunctions is [ReadChoice] for a provider that knows functions only; it refuses every other tool by name.
func ReadFunctions(r llm.Request, provider string) (Choice, error) {
	if err := llm.CheckTools(provider, r.Tools); err != nil {
		return Choice{}, err
	}
	return ReadChoice(r, provider)
}

// ReadChoice reads tool_choice and which tools it leaves. A function without a name, and two of one name, are refused, as
// servers refuse them. allowed_tools narrows the list, as few servers have a word for
// it. Where no tool is left the mode is "": servers refuse a choice where nothing is declared.
func ReadChoice(r llm.Request, provider string) (Choice, error) {
	out := Choice{Tools: r.Tools}
	names := map[string]bool{}
	for _, t := range r.Tools {
		switch {
		case t.Type != "function":
		case t.Name == "":
			return out, Invalid("tools", "a function in tools has no name")
		case names[t.Name]:
			return out, Invalid("tools", "two functions in tools have the name %q", t.Name)
		default:
			names[t.Name] = true
		}
	}
	if !Present(r.ToolChoice) {
		return out, nil
	}
	type named struct{ Type, Name string }
	var c struct {
		Type, Name, Mode string
		Tools            []named
	}
	if r.ToolChoice[0] == '"' {
		if err := json.Unmarshal(r.ToolChoice, &c.Mode); err != nil {
			return out, Invalid("tool_choice", "tool_choice is not valid JSON")
		}
	} else if err := json.Unmarshal(r.ToolChoice, &c); err != nil {
		return out, Invalid("tool_choice", "tool_choice is neither a word nor an object of a known form")
	}
	declared := func(name string) bool {
		return slices.ContainsFunc(r.Tools, func(t openai.Tool) bool { return t.Name == name })
	}
	switch c.Type {
	case "":
	case "function":
		if !declared(c.Name) {
			return out, Invalid("tool_choice", "tool_choice names the function %q, which tools does not declare", c.Name)
		}
		out.Mode, out.Name = "function", c.Name
		return out, nil
	case "allowed_tools":
		for _, t := range c.Tools {
			if t.Type != "function" || !declared(t.Name) {
				return out, Invalid("tool_choice", "tool_choice allows the %s %q, which tools does not declare", t.Type, t.Name)
			}
		}
		out.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t openai.Tool) bool {
			return !slices.ContainsFunc(c.Tools, func(a named) bool { return a.Name == t.Name })
		})
	default:
		return out, Unserved("tool_choice", provider, "tool_choice of type %q", c.Type)
	}
	switch c.Mode {
	case "auto", "none", "required":
	default:
		return out, Invalid("tool_choice", "tool_choice %q is not one of auto, none, required", c.Mode)
	}
	switch {
	case len(out.Tools) > 0:
		out.Mode = c.Mode
	case c.Mode == "required":
		return out, Invalid("tool_choice", "tool_choice is required, and no tool is declared")
	}
	return out, nil
}

// AnyObject is the schema of a function of which nothing is known: some servers demand a schema.
var AnyObject = json.RawMessage(`{"type":"object","properties":{}}`)

// ObjectSchema is a function's schema as strict servers want it: an object with a type.
func ObjectSchema(t openai.Tool) (json.RawMessage, error) {
	if !Present(t.Parameters) {
		return AnyObject, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(t.Parameters, &keys); err != nil {
		return nil, Invalid("tools", "the parameters of the function %q are not a JSON schema", t.Name)
	}
	if Present(keys["type"]) {
		return t.Parameters, nil
	}
	keys["type"] = json.RawMessage(`"object"`)
	return openai.Marshal(keys)
}

// CacheMark is what a tool's declaration says of caching, nil if it says nothing.
func CacheMark(t openai.Tool) json.RawMessage {
	var more struct {
		CacheControl json.RawMessage `json:"cache_control"`
	}
	if json.Unmarshal(t.Raw, &more) != nil || !Present(more.CacheControl) {
		return nil
	}
	return more.CacheControl
}

// Format is the wanted form of the answer.
type Format struct {
	Type        string          `json:"type"` // text, json_object or json_schema
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Strict      *bool           `json:"strict"`
	Verbosity   string          `json:"-"`
}

// ReadText reads a request's text.
func ReadText(raw json.RawMessage) (Format, error) {
	var text struct {
		Format    *Format `json:"format"`
		Verbosity string  `json:"verbosity"`
	}
	if Present(raw) {
		if err := json.Unmarshal(raw, &text); err != nil {
			return Format{}, Invalid("text", "text is not an object of a known form")
		}
	}
	f := Format{}
	if text.Format != nil {
		f = *text.Format
	}
	if f.Type == "" {
		f.Type = "text"
	}
	f.Verbosity = text.Verbosity
	if f.Type == "json_schema" && !Present(f.Schema) {
		return f, Invalid("text.format.schema", "text.format of type json_schema needs a schema")
	}
	return f, nil
}

// Unserved refuses the form.
func (f Format) Unserved(provider string) *fault.Error {
	return Unserved("text.format.type", provider, "text.format of type %q", f.Type)
}

// Effort is a request's reasoning, read.
type Effort struct {
	Effort  string `json:"effort"` // none, minimal, low, medium, high, xhigh, max, or ""
	Summary string `json:"summary"`
}

// ReadEffort reads a request's reasoning, and refuses an effort that is no word of the API's.
func ReadEffort(raw json.RawMessage) (Effort, error) {
	var e Effort
	if Present(raw) {
		if err := json.Unmarshal(raw, &e); err != nil {
			return Effort{}, Invalid("reasoning", "reasoning is not an object with a text effort")
		}
	}
	if !slices.Contains([]string{"", "none", "minimal", "low", "medium", "high", "xhigh", "max"}, e.Effort) {
		return Effort{}, Invalid("reasoning.effort", "reasoning.effort %q is not known", e.Effort)
	}
	return e, nil
}

// Budget is how many tokens for thinking an effort stands for, in models that think by budget.
func (e Effort) Budget() int64 {
	switch e.Effort {
	case "minimal":
		return 1024
	case "low":
		return 2048
	case "medium":
		return 8192
	case "high":
		return 16384
	default: // xhigh, max
		return 24576
	}
}

// Tier reads a request's service tier for vendors that know flex and priority; it is "" for what is served anyway.
func Tier(r llm.Request, provider string) (string, error) {
	switch r.ServiceTier {
	case "", "auto", "default":
		return "", nil
	case "flex", "priority":
		return r.ServiceTier, nil
	}
	return "", Unserved("service_tier", provider, "the service_tier %q", r.ServiceTier)
}
