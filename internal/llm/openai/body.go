package openai

import (
	"encoding/json"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Dialect is how a server wants its requests.
type Dialect struct {
	Provider    string // for messages and for the tag on reasoning
	NativeShell string // on, off, or "": by the model, on the vendor's own server
	Vendor      bool   // the server is OpenAI's own
}

// LeftOut lists what of a request may be left out without a refusal, and when. Everything else is mapped or refused.
func LeftOut() map[string]string {
	return map[string]string{
		"input[].id":            "always: ids of ours mean nothing to the upstream",
		"input[].encrypted":     "reasoning of another provider, or without a seal",
		"input[].reasoning":     "that nothing follows, as of a turn that was cut",
		"input[].annotation":    "of an answer's text: always",
		"input[].cache_control": "always",
	}
}

// request is the body of POST /responses, as we send it.
type request struct {
	Model             string            `json:"model"`
	Instructions      string            `json:"instructions,omitempty"`
	Input             []json.RawMessage `json:"input"`
	Tools             []json.RawMessage `json:"tools,omitempty"`
	ToolChoice        json.RawMessage   `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool             `json:"parallel_tool_calls,omitempty"`
	MaxToolCalls      *int64            `json:"max_tool_calls,omitempty"`
	MaxOutputTokens   *int64            `json:"max_output_tokens,omitempty"`
	Temperature       *float64          `json:"temperature,omitempty"`
	TopP              *float64          `json:"top_p,omitempty"`
	Text              json.RawMessage   `json:"text,omitempty"`
	Reasoning         json.RawMessage   `json:"reasoning,omitempty"`
	Include           []string          `json:"include,omitempty"`
	User              string            `json:"user,omitempty"`
	PromptCacheKey    string            `json:"prompt_cache_key,omitempty"`
	SafetyIdentifier  string            `json:"safety_identifier,omitempty"`
	ServiceTier       string            `json:"service_tier,omitempty"`
	Stream            bool              `json:"stream"`
	Store             bool              `json:"store"`
	ContextManagement json.RawMessage   `json:"context_management,omitempty"`
}

// seal is the provider's mark on reasoning.
func (d Dialect) seal() llm.Seal { return llm.Seal{Dialect: "openai", Provider: d.Provider} }

// Body translates a request to the bytes to send.
func (d Dialect) Body(r llm.Request) ([]byte, error) {
	t := traitsOf(r.Model)
	own := d.NativeShell == "on" || d.NativeShell == "" && d.Vendor && t.shell
	native := natives{shell: (own || r.Hosted != nil) && r.Shell != "", patch: own && r.Patch != ""}
	req := request{Model: r.Model, Instructions: r.Instructions, ParallelToolCalls: r.ParallelToolCalls, MaxOutputTokens: r.MaxOutputTokens,
		Temperature: r.Temperature, TopP: r.TopP, User: r.User, PromptCacheKey: r.PromptCacheKey,
		SafetyIdentifier: r.SafetyIdentifier, ServiceTier: r.ServiceTier, ContextManagement: r.ContextManagement, Stream: !r.Whole}
	if err := d.tools(&req, r, native); err != nil {
		return nil, err
	}
	if r.Hosted != nil && native.shell {
		req.MaxToolCalls = r.Hosted.Limit
	}
	c := conversation{dialect: d, shell: r.Shell, patch: r.Patch, native: native, hosted: r.Hosted}
	var err error
	if req.Input, err = c.translate(r.Items); err != nil {
		return nil, err
	}
	if f, err := dialect.ReadText(r.Text); err != nil {
		return nil, err
	} else if f.Type != "text" && f.Type != "json_object" && f.Type != "json_schema" {
		return nil, f.Unserved(d.Provider)
	}
	if dialect.Present(r.Text) {
		req.Text = r.Text
	}
	if _, err := dialect.ReadEffort(r.Reasoning); err != nil {
		return nil, err
	}
	if dialect.Present(r.Reasoning) {
		req.Reasoning = r.Reasoning
	}
	if t.reasons || dialect.Present(r.Reasoning) {
		// Without it reasoning could not go back, as nothing is stored upstream. Models that don't reason refuse it.
		req.Include = []string{"reasoning.encrypted_content"}
	}
	return dialect.Encode(req)
}

// hosted are the types of tools that a Responses upstream runs by itself, and whose items need nothing of us.
func hosted(typ string) bool {
	switch typ {
	case "web_search", "file_search", "image_generation", "mcp":
		return true
	}
	return strings.HasPrefix(typ, "web_search_preview") || strings.HasPrefix(typ, "web_search_2")
}

// natives are the functions of ours in whose place the model gets the vendor's own tools.
type natives struct{ shell, patch bool }

// tools declares what the model may call.
func (d Dialect) tools(req *request, r llm.Request, native natives) error {
	for _, t := range r.Tools {
		raw := t.Raw
		switch {
		case hosted(t.Type):
		case t.Type != "function":
			return llm.CheckTools(d.Provider, []wire.Tool{t})
		case native.patch && t.Name == r.Patch:
			raw = json.RawMessage(`{"type":"apply_patch"}`)
		case native.shell && t.Name == r.Shell && r.Hosted != nil:
			raw = hostedTool(r.Hosted)
		case native.shell && t.Name == r.Shell:
			// The vendor's tool has no room for a description: what the model must know stands in the instructions.
			raw = json.RawMessage(`{"type":"shell","environment":{"type":"local"}}`)
			if t.Description != "" {
				req.Instructions = strings.TrimPrefix(req.Instructions+"\n\nAbout the shell tool: "+t.Description, "\n\n")
			}
		}
		if len(raw) == 0 {
			if t.Strict == nil {
				no := false
				t.Strict = &no // where it is left out the API makes the schema strict, and every argument required
			}
			var err error
			if raw, err = wire.Marshal(t); err != nil {
				return dialect.Invalid("tools", "the tool %q cannot be written as JSON", t.Name)
			}
		}
		req.Tools = append(req.Tools, raw)
	}
	choice, err := dialect.ReadChoice(r, d.Provider)
	if err != nil {
		return err
	}
	if len(r.Tools) == 0 {
		req.ParallelToolCalls = nil
	} else if choice.Mode == "function" && native.shell && choice.Name == r.Shell {
		req.ToolChoice = json.RawMessage(`{"type":"shell"}`)
	} else if choice.Mode == "function" && native.patch && choice.Name == r.Patch {
		req.ToolChoice = json.RawMessage(`{"type":"apply_patch"}`)
	} else if choice.Mode != "" {
		req.ToolChoice = r.ToolChoice
	}
	if (native.shell || native.patch) && len(choice.Tools) != len(r.Tools) {
		req.ToolChoice = nil // an allowed_tools that names functions: the tools are narrowed instead
		narrowed := r
		narrowed.Tools, narrowed.ToolChoice = choice.Tools, nil
		if choice.Mode != "" {
			narrowed.ToolChoice = json.RawMessage(`"` + choice.Mode + `"`)
		}
		req.Tools, req.Instructions = nil, r.Instructions
		return d.tools(req, narrowed, native)
	}
	return nil
}
