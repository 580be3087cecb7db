package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Limits of the vendor's that this door holds too. Beyond one the request is refused and says which.
const (
	maxMetadataPairs = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// rule is one thing that a known field must be. A field that the request leaves out always holds.
type rule struct {
	param string
	bad   func(*openai.CreateRequest) bool
	want  string
}

var rules = []rule{
	{"temperature", func(r *openai.CreateRequest) bool { return outside(r.Temperature, 0, 2) }, "a number from 0 to 2"},
	{"top_p", func(r *openai.CreateRequest) bool { return outside(r.TopP, 0, 1) }, "a number from 0 to 1"},
	{"top_logprobs", func(r *openai.CreateRequest) bool { return outside(r.TopLogprobs, 0, 0) },
		"0: token probabilities are not served here"},
	{"models", func(r *openai.CreateRequest) bool { return len(r.Models) > llm.MaxStandIns }, "a list of at most 7 models"},
	{"max_output_tokens", func(r *openai.CreateRequest) bool { return below(r.MaxOutputTokens, 1) }, "at least 1"},
	{"max_tool_calls", func(r *openai.CreateRequest) bool { return below(r.MaxToolCalls, 1) }, "at least 1"},
	{"truncation", func(r *openai.CreateRequest) bool { return not(r.Truncation, "auto", "disabled") },
		`"auto" or "disabled"`},
	{"service_tier", func(r *openai.CreateRequest) bool {
		return not(r.ServiceTier, "auto", "default", "flex", "scale", "priority", "fast", "ultrafast")
	}, "a known service tier"},
	{"background", func(r *openai.CreateRequest) bool { return r.InBackground() && isFalse(r.Store) },
		"false when store is false: a background response is read from the store"},
	{"store", func(r *openai.CreateRequest) bool { return isFalse(r.Store) && present(r.Conversation) },
		"true when conversation is given: the response is added to it"},
	{"previous_response_id", func(r *openai.CreateRequest) bool {
		return r.PreviousResponseID != nil && present(r.Conversation)
	}, "absent when conversation is given"},
}

// checkFields refuses known fields with bad values.
func checkFields(r *openai.CreateRequest) error {
	for _, rule := range rules {
		if rule.bad(r) {
			return invalid(rule.param, "%s must be %s.", rule.param, rule.want)
		}
	}
	if err := checkUnserved(r.Raw); err != nil {
		return err
	}
	for i, v := range r.Include {
		if !openai.KnownInclude(v) {
			return invalid(fmt.Sprintf("include[%d]", i), "include has an unknown value %q.", v)
		}
	}
	if err := checkMetadata(r.Metadata); err != nil {
		return err
	}
	if err := checkReasoning(r.Reasoning); err != nil {
		return err
	}
	return checkText(r.Text)
}

// checkUnserved refuses fields that change what a response is made of and are not served: to leave one out in silence
// would answer another question. It also refuses options of a stream that are no options.
func checkUnserved(raw json.RawMessage) error {
	named := func(field string) bool { return bytes.Contains(raw, []byte(`"`+field+`"`)) }
	if !named("prompt") && !named("stream_options") && !named("prompt_cache_retention") {
		return nil // most requests, which may be long, are not read twice
	}
	var r struct {
		Prompt         json.RawMessage `json:"prompt"`
		StreamOptions  json.RawMessage `json:"stream_options"`
		CacheRetention json.RawMessage `json:"prompt_cache_retention"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return invalid("", "The request body must be one JSON object.").WithCode("invalid_body")
	}
	if present(r.Prompt) {
		return invalid("prompt", "Stored prompts are not served yet.").WithCode("unsupported_parameter").
			WithTry("the prompt's text in instructions and input")
	}
	if present(r.StreamOptions) && !isObject(r.StreamOptions) {
		return invalid("stream_options", "stream_options must be an object.").WithCode("invalid_type")
	}
	switch string(r.CacheRetention) {
	case "", "null", `"in_memory"`, `"24h"`:
	default:
		return invalid("prompt_cache_retention", `prompt_cache_retention must be "in_memory" or "24h".`)
	}
	return nil
}

func checkMetadata(m map[string]string) error {
	if len(m) > maxMetadataPairs {
		return invalid("metadata", "metadata has %d pairs; %d are allowed.", len(m), maxMetadataPairs)
	}
	for k, v := range m {
		if n := utf8.RuneCountInString(k); n == 0 || n > maxMetadataKey {
			return invalid("metadata", "A metadata key has %d characters; 1 to %d are allowed.", n, maxMetadataKey)
		}
		if n := utf8.RuneCountInString(v); n > maxMetadataValue {
			return invalid("metadata", "The metadata value of %q has %d characters; %d are allowed.", k, n,
				maxMetadataValue)
		}
	}
	return nil
}

func checkReasoning(raw json.RawMessage) error {
	if !present(raw) {
		return nil
	}
	var r struct {
		openai.ReasoningConfig
		GenerateSummary *string `json:"generate_summary"`
		Context         *string `json:"context"`
		Mode            *string `json:"mode"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return invalid("reasoning", "reasoning must be an object with effort and summary.")
	}
	if not(r.Effort, "none", "minimal", "low", "medium", "high", "xhigh", "max") {
		return invalid("reasoning.effort", "reasoning.effort has an unknown value %q.", *r.Effort)
	}
	if not(r.Summary, "auto", "concise", "detailed") {
		return invalid("reasoning.summary", "reasoning.summary has an unknown value %q.", *r.Summary)
	}
	if not(r.GenerateSummary, "auto", "concise", "detailed") {
		return invalid("reasoning.generate_summary", "reasoning.generate_summary has an unknown value %q.", *r.GenerateSummary)
	}
	if not(r.Context, "auto", "current_turn", "all_turns") {
		return invalid("reasoning.context", "reasoning.context has an unknown value %q.", *r.Context)
	}
	if not(r.Mode, "standard", "pro") {
		return invalid("reasoning.mode", "reasoning.mode has an unknown value %q.", *r.Mode)
	}
	return nil
}

func checkText(raw json.RawMessage) error {
	if !present(raw) {
		return nil
	}
	var t struct {
		Format *struct {
			Type   string          `json:"type"`
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
		Verbosity *string `json:"verbosity"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return invalid("text", "text must be an object with format and verbosity.")
	}
	if not(t.Verbosity, "low", "medium", "high") {
		return invalid("text.verbosity", "text.verbosity has an unknown value %q.", *t.Verbosity)
	}
	if t.Format == nil {
		return nil
	}
	switch t.Format.Type {
	case "text", "json_object":
		return nil
	case "json_schema":
		if t.Format.Name == "" || !isObject(t.Format.Schema) {
			return invalid("text.format", "text.format of type json_schema needs a name and a schema.")
		}
		return nil
	default:
		return invalid("text.format.type", "text.format.type has an unknown value %q.", t.Format.Type)
	}
}

// functionName is what every upstream takes as the name of a function.
var functionName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
})

// checkTools refuses tools that are wrong in themselves. Whether one of another type can be served is for the provider to
// say, which refuses what neither it nor its upstream runs: nothing is dropped silently.
func checkTools(tools []openai.Tool) error {
	names := map[string]bool{}
	shells := 0
	for i, t := range tools {
		param := fmt.Sprintf("tools[%d]", i)
		switch t.Type {
		case "function":
			if !functionName().MatchString(t.Name) {
				return invalid(param+".name", "A function's name must have 1 to 64 letters, digits, _ or -; got %q.", t.Name)
			}
			if names[t.Name] {
				return invalid(param+".name", "Two functions are named %q.", t.Name)
			}
			if present(t.Parameters) && !isObject(t.Parameters) {
				return invalid(param+".parameters", "The parameters of %q must be a JSON Schema object.", t.Name)
			}
			names[t.Name] = true
		case "shell":
			if shells++; shells > 1 {
				return invalid(param, "Only one shell tool is allowed in a request.")
			}
		case "openrouter:bash", "hardshell:bash", "bash_20250124":
			return invalid(param+".type", "The tool %q is not available on the Responses API: it works on POST /v1/messages.", t.Type).
				WithCode("unsupported_tool").WithTry("POST /v1/messages, or a tool of type shell or function")
		case "":
			return invalid(param+".type", "A tool needs a type.").WithCode("missing_required_parameter")
		}
	}
	return nil
}

// refusedTool names the tool that a provider refused, as it stands in the request.
func refusedTool(err error, tools []openai.Tool, provider string) error {
	e, ok := fault.As(err)
	if !ok || e.Code != "unsupported_tool" {
		return err
	}
	for i, t := range tools {
		if t.Type != "function" && t.Type != "shell" && strings.Contains(e.Message, strconv.Quote(t.Type)) {
			return invalid(fmt.Sprintf("tools[%d].type", i), "Tools of type %q can't be served with provider %q.", t.Type, provider).
				WithCode("unsupported_tool").WithTry("a tool of type function or shell")
		}
	}
	return err
}

// invalid is a refusal that names the field at fault.
func invalid(param, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).WithCode("invalid_value").WithParam(param)
}

func outside[N int64 | float64](v *N, low, high N) bool {
	return v != nil && !(*v >= low && *v <= high)
}

func below(v *int64, low int64) bool { return v != nil && *v < low }

func not(v *string, allowed ...string) bool { return v != nil && !slices.Contains(allowed, *v) }

func isFalse(b *bool) bool { return b != nil && !*b }

// present says whether an optional raw field was given; null counts as left out.
func present(raw json.RawMessage) bool {
	s := strings.TrimSpace(string(raw))
	return s != "" && s != "null"
}

func isObject(raw json.RawMessage) bool {
	return strings.HasPrefix(strings.TrimSpace(string(raw)), "{")
}
