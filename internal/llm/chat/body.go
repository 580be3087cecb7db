package chat

import (
	"encoding/json"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Dialect is how a server wants its requests.
type Dialect struct {
	Provider            string // for messages
	MaxCompletionTokens bool   // max_completion_tokens, not max_tokens
	KeepRoles           bool   // knows the role "developer" and takes several system messages
	Vendor              bool   // is OpenAI's own or Azure's, and takes what only those know
}

// LeftOut lists what of a request may be left out without a refusal, and when. Everything else is mapped or refused.
func LeftOut() map[string]string {
	return map[string]string{
		"prompt_cache_key":   "a server that is not OpenAI's or Azure's",
		"safety_identifier":  "a server that is not OpenAI's or Azure's",
		"service_tier":       "a server that is not OpenAI's or Azure's",
		"reasoning.summary":  "always",
		"input[].reasoning":  "always: the API has no place for it",
		"input[].annotation": "of an answer's text: always",
		"input[].id":         "always: an id of this gateway's means nothing to the upstream",
		"input[].phase":      "of a message: the API has no place for it",
		"cache_control":      "always: the API has no place for it",
	}
}

// Body translates a request to the bytes to send.
func (d Dialect) Body(r llm.Request) ([]byte, error) {
	req, err := d.translate(r)
	if err != nil {
		return nil, err
	}
	return dialect.Encode(req)
}

// translate translates a request. What the dialect cannot express is refused, naming it; only reasoning items and the
// wish for reasoning summaries are left out, as Chat Completions has no place for them.
func (d Dialect) translate(r llm.Request) (*openai.ChatRequest, error) {
	messages, err := d.messages(r.Instructions, r.Items)
	if err != nil {
		return nil, err
	}
	req := &openai.ChatRequest{Model: r.Model, Messages: messages, Stream: !r.Whole,
		Temperature: r.Temperature, TopP: r.TopP, User: r.User}
	if req.Stream {
		req.StreamOptions = &openai.ChatStreamOptions{IncludeUsage: true} // an answer in one piece always has it
	}
	if d.Vendor {
		req.PromptCacheKey, req.SafetyIdentifier, req.ServiceTier = r.PromptCacheKey, r.SafetyIdentifier, r.ServiceTier
	}
	if d.MaxCompletionTokens {
		req.MaxCompletionTokens = r.MaxOutputTokens
	} else {
		req.MaxTokens = r.MaxOutputTokens
	}
	if err := d.tools(req, r); err != nil {
		return nil, err
	}
	if err := d.text(req, r.Text); err != nil {
		return nil, err
	}
	effort, err := dialect.ReadEffort(r.Reasoning)
	if err != nil {
		return nil, err
	}
	req.ReasoningEffort = effort.Effort
	return req, nil
}

// tools declares the functions and the choice among them. Servers refuse a choice where nothing is declared.
func (d Dialect) tools(req *openai.ChatRequest, r llm.Request) error {
	choice, err := dialect.ReadFunctions(r, d.Provider)
	if err != nil {
		return err
	}
	for _, t := range choice.Tools {
		f := openai.ChatFunction{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict}
		if !dialect.Present(f.Parameters) {
			f.Parameters = dialect.AnyObject
		}
		req.Tools = append(req.Tools, openai.ChatTool{Type: "function", Function: f})
	}
	mode := choice.Mode
	if mode == "function" && !d.Vendor && len(req.Tools) == 1 {
		mode = "required" // the same of one function, and llama.cpp takes an object for auto
	}
	switch mode {
	case "":
	case "function":
		var forced struct {
			Type     string `json:"type"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		forced.Type, forced.Function.Name = "function", choice.Name
		req.ToolChoice, _ = openai.Marshal(forced) // strings always marshal
	default:
		req.ToolChoice = json.RawMessage(`"` + mode + `"`)
	}
	if len(req.Tools) > 0 {
		req.ParallelToolCalls = r.ParallelToolCalls
	}
	return nil
}

// text translates the answer's wanted form.
func (d Dialect) text(req *openai.ChatRequest, raw json.RawMessage) error {
	f, err := dialect.ReadText(raw)
	if err != nil {
		return err
	}
	req.Verbosity = f.Verbosity
	switch f.Type {
	case "text":
	case "json_object":
		req.ResponseFormat = json.RawMessage(`{"type":"json_object"}`)
	case "json_schema":
		var form struct {
			Type       string `json:"type"`
			JSONSchema struct {
				Name        string          `json:"name"`
				Description string          `json:"description,omitempty"`
				Schema      json.RawMessage `json:"schema,omitempty"`
				Strict      *bool           `json:"strict,omitempty"`
			} `json:"json_schema"`
		}
		form.Type = f.Type
		j := &form.JSONSchema
		j.Name, j.Description, j.Schema, j.Strict = f.Name, f.Description, f.Schema, f.Strict
		var err error
		if req.ResponseFormat, err = openai.Marshal(form); err != nil {
			return dialect.Invalid("text.format", "text.format.schema is not valid JSON")
		}
	default:
		return f.Unserved(d.Provider)
	}
	return nil
}

// joinTexts puts texts behind each other as paragraphs.
func joinTexts(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return strings.TrimRight(a, "\n") + "\n\n" + b
}
