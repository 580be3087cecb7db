package llm

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// An Omitter can say what of a request its upstream has no place for, where the request is served without it.
type Omitter interface {
	// Omits names those fields as a client writes them. It calls nobody.
	Omits(r Request) []string
}

// Warnings are what a caller is to be told of a request that a provider serves, a line for each provider that may answer
// it: which fields that provider leaves out.
func (r Route) Warnings(q Request) []string {
	routes, ok := r.Provider.(fallbacks)
	if !ok {
		routes = fallbacks{r}
	}
	var lines []string
	for _, route := range routes {
		q.Model = route.Model
		o, ok := route.Provider.(Omitter)
		if !ok {
			continue
		}
		fields := o.Omits(q)
		if len(fields) == 0 || len(routes) > 1 && Check(route.Provider, q) != nil { // the dearer question last
			continue
		}
		line := route.ProviderName + " leaves out: " + strings.Join(fields, ", ")
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Omitted finds what of a request changes nothing in what body makes of it, among what list says may be left out; list is
// by field, and what it says of a field is for people. Items of an answer that come back as they were given (their ids,
// thinking and annotations) are nobody's wish and are not told, nor is a value that means what is done anyway. The
// conversation is not translated again: what is said of it is looked for, and the rest is tried with a word in its place.
func Omitted(r Request, list map[string]string, body func(Request) ([]byte, error)) []string {
	var out []string
	var with []byte
	base := r
	base.Items = []openai.Item{openai.UserText("a")}
	for _, o := range omissions {
		if !slices.ContainsFunc(o.keys, func(key string) bool { return list[key] != "" }) || !o.set(r) {
			continue
		}
		if o.unset != nil {
			if with == nil {
				var err error
				if with, err = body(base); err != nil {
					return nil // the request is refused, with its reason
				}
			}
			less := base
			o.unset(&less)
			without, err := body(less)
			if err != nil || !bytes.Equal(with, without) {
				continue
			}
		}
		out = append(out, o.name)
	}
	return out
}

// omission is a wish of a client's that a provider may have no place for.
type omission struct {
	name  string
	keys  []string           // under which of a provider's list it stands
	set   func(Request) bool // whether a client has it, and means something by it
	unset func(*Request)     // nil where being in the list is enough
}

var omissions = []omission{
	{"parallel_tool_calls", []string{"parallel_tool_calls"}, func(r Request) bool { return r.ParallelToolCalls != nil && !*r.ParallelToolCalls },
		func(r *Request) { r.ParallelToolCalls = nil }},
	{"temperature", []string{"temperature"}, func(r Request) bool { return r.Temperature != nil }, func(r *Request) { r.Temperature = nil }},
	{"top_p", []string{"top_p"}, func(r Request) bool { return r.TopP != nil }, func(r *Request) { r.TopP = nil }},
	{"user", []string{"user"}, func(r Request) bool { return r.User != "" }, func(r *Request) { r.User = "" }},
	{"prompt_cache_key", []string{"prompt_cache_key"}, func(r Request) bool { return r.PromptCacheKey != "" }, func(r *Request) { r.PromptCacheKey = "" }},
	{"safety_identifier", []string{"safety_identifier"}, func(r Request) bool { return r.SafetyIdentifier != "" }, func(r *Request) { r.SafetyIdentifier = "" }},
	{"service_tier", []string{"service_tier"}, func(r Request) bool {
		return r.ServiceTier != "" && r.ServiceTier != "auto" && r.ServiceTier != "default"
	},
		func(r *Request) { r.ServiceTier = "" }},
	{"reasoning.effort", []string{"reasoning.effort", "reasoning"}, wishes(reasoningOf, "effort"), without(reasoningOf, "effort")},
	{"reasoning.summary", []string{"reasoning.summary", "reasoning"}, wishes(reasoningOf, "summary"), without(reasoningOf, "summary")},
	{"text.verbosity", []string{"text.verbosity"}, wishes(textOf, "verbosity"), without(textOf, "verbosity")},
	{"text.format.description", []string{"text.format.description", "text.format.name"}, wishes(textOf, "format", "description"), without(textOf, "format", "description")},
	{"text.format.strict", []string{"text.format.strict", "text.format.name"}, wishes(textOf, "format", "strict"), without(textOf, "format", "strict")},
	{"text.format.name", []string{"text.format.name"}, func(r Request) bool { return wishes(textOf, "format", "name")(r) },
		func(r *Request) { r.Text = rewrite(r.Text, json.RawMessage(`"other"`), "format", "name") }},
	{"tools[].strict", []string{"tools[].strict"}, func(r Request) bool { return slices.ContainsFunc(r.Tools, r.strict) }, func(r *Request) {
		r.Tools = slices.Clone(r.Tools)
		for i := range r.Tools {
			r.Tools[i].Strict = nil
		}
	}},
	{"cache_control", []string{"cache_control", "input[].cache_control"}, func(r Request) bool { return slices.ContainsFunc(r.Items, hasKey("cache_control")) }, nil},
	{"tools[].cache_control", []string{"cache_control", "tools[].cache_control"}, func(r Request) bool {
		return slices.ContainsFunc(r.Tools, func(t openai.Tool) bool { return keyed(t.Raw, "cache_control") })
	}, nil},
	{"input[].detail", []string{"input[].detail"}, func(r Request) bool { return slices.ContainsFunc(r.Items, detailed) }, nil},
	{"input[].filename", []string{"input[].filename"}, func(r Request) bool { return slices.ContainsFunc(r.Items, hasKey("filename")) }, nil},
}

// strict says whether a tool of the client's is to be held to its schema.
func (r Request) strict(t openai.Tool) bool { return t.Strict != nil && *t.Strict && t.Name != r.Shell }

func textOf(r *Request) *json.RawMessage      { return &r.Text }
func reasoningOf(r *Request) *json.RawMessage { return &r.Reasoning }

// wishes says whether a field of an object is there and not null.
func wishes(field func(*Request) *json.RawMessage, path ...string) func(Request) bool {
	return func(r Request) bool {
		raw := *field(&r)
		for _, key := range path {
			var object map[string]json.RawMessage
			if len(raw) == 0 || json.Unmarshal(raw, &object) != nil {
				return false
			}
			raw = object[key]
		}
		return len(raw) > 0 && string(raw) != "null" && string(raw) != "false"
	}
}

// without takes a field out of an object.
func without(field func(*Request) *json.RawMessage, path ...string) func(*Request) {
	return func(r *Request) { *field(r) = rewrite(*field(r), nil, path...) }
}

// rewrite puts a value into an object, or takes one out.
func rewrite(raw, value json.RawMessage, path ...string) json.RawMessage {
	if len(path) == 0 {
		return value
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return raw
	}
	if inner := rewrite(object[path[0]], value, path[1:]...); inner == nil {
		delete(object, path[0])
	} else {
		object[path[0]] = inner
	}
	out, err := openai.Marshal(object)
	if err != nil {
		return raw
	}
	return out
}

// keyed says whether JSON has a key of a name. A text that speaks of one has its quotes escaped.
func keyed(raw []byte, key string) bool { return bytes.Contains(raw, []byte(`"`+key+`":`)) }

func hasKey(key string) func(openai.Item) bool {
	return func(i openai.Item) bool { return keyed(i.Raw, key) }
}

// detailed says whether an image is to be looked at in another way than the provider likes.
func detailed(i openai.Item) bool {
	if !keyed(i.Raw, "detail") {
		return false
	}
	type part struct {
		Detail string `json:"detail"`
	}
	var item struct {
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"output"`
	}
	if json.Unmarshal(i.Raw, &item) != nil {
		return false
	}
	for _, list := range []json.RawMessage{item.Content, item.Output} {
		var parts []part
		if json.Unmarshal(list, &parts) == nil && slices.ContainsFunc(parts, func(p part) bool { return p.Detail != "" && p.Detail != "auto" }) {
			return true
		}
	}
	return false
}
