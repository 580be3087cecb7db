package openai

import (
	"encoding/json"
	"slices"
)

// CreateRequest is the body of POST /v1/responses. Unknown fields are ignored, as clients run ahead of servers; a
// known field with a bad value is the door's to refuse. Raw is the body as it came.
type CreateRequest struct {
	Model              string            `json:"model"`
	Models             []string          `json:"models,omitempty"` // an extension: asked in this order where the first does not begin to answer
	Input              Input             `json:"input"`
	Instructions       *string           `json:"instructions"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Conversation       json.RawMessage   `json:"conversation"`
	Store              *bool             `json:"store"`
	Background         *bool             `json:"background"`
	Stream             *bool             `json:"stream"`
	Include            []string          `json:"include"`
	MaxOutputTokens    *int64            `json:"max_output_tokens"`
	MaxToolCalls       *int64            `json:"max_tool_calls"`
	Metadata           map[string]string `json:"metadata"`
	ParallelToolCalls  *bool             `json:"parallel_tool_calls"`
	Reasoning          json.RawMessage   `json:"reasoning"`
	Text               json.RawMessage   `json:"text"`
	Temperature        *float64          `json:"temperature"`
	TopP               *float64          `json:"top_p"`
	TopLogprobs        *int64            `json:"top_logprobs"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	Tools              []Tool            `json:"tools"`
	Truncation         *string           `json:"truncation"`
	ServiceTier        *string           `json:"service_tier"`
	PromptCacheKey     *string           `json:"prompt_cache_key"`
	SafetyIdentifier   *string           `json:"safety_identifier"`
	User               *string           `json:"user"`
	Generate           *bool             `json:"generate,omitempty"` // false: the request becomes a response that others go on from, and no model is asked
	ContextManagement  json.RawMessage   `json:"context_management"`
	Raw                json.RawMessage   `json:"-"`
	Key                string            `json:"-"` // of the header Idempotency-Key; empty without one
	Digest             string            `json:"-"` // of the body, where there is a key
	Carried            *Carried          `json:"-"` // the previous response, where it is not on record
	Bash               *Bash             `json:"-"` // of the Messages API: what its shell is; nil elsewhere
	Warnings           []string          `json:"-"` // for the caller, of what is done otherwise than it says
}

// Warn notes what the caller is to be told of, once.
func (r *CreateRequest) Warn(lines ...string) {
	for _, line := range lines {
		if !slices.Contains(r.Warnings, line) {
			r.Warnings = append(r.Warnings, line)
		}
	}
}

// Bash says that the shell of a request is one bash, whose state holds from call to call.
type Bash struct {
	SessionID string // names the container that it runs in, from request to request; empty: one that ends with this
}

// Carried is what a connection has kept of a response and of what came before it.
type Carried struct {
	Items       []Item
	ContainerID string
}

// Streams says whether the response is to be told as it comes.
func (r *CreateRequest) Streams() bool { return r.Stream != nil && *r.Stream }

// InBackground says whether the response lives on without its client.
func (r *CreateRequest) InBackground() bool { return r.Background != nil && *r.Background }

// Input is a request's input: a string reads as one user message.
type Input []Item

// UnmarshalJSON accepts a string or a list of items.
func (in *Input) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*in = Input{UserText(text)}
		return nil
	}
	var items []Item
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	*in = items
	return nil
}

// UserText is a user message of one text part.
func UserText(text string) Item {
	return NewItem(Message{Type: TypeMessage, Role: "user", Content: Content{{Type: "input_text", Text: text}}})
}

// Tool is one declared tool, kept as the JSON it came as. Name is set for functions; Environment for the shell.
type Tool struct {
	Type        string
	Name        string
	Description string
	Parameters  json.RawMessage
	Strict      *bool
	Environment *Environment
	Raw         json.RawMessage
}

type toolJSON struct {
	Type        string          `json:"type"`
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
	Environment *Environment    `json:"environment,omitempty"`
}

// UnmarshalJSON keeps the bytes and reads the fields above.
func (t *Tool) UnmarshalJSON(data []byte) error {
	var j toolJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*t = Tool{Type: j.Type, Name: j.Name, Description: j.Description, Parameters: j.Parameters, Strict: j.Strict,
		Environment: j.Environment, Raw: append(json.RawMessage(nil), data...)}
	return nil
}

// MarshalJSON returns the bytes the tool came as, or the fields when it was made here.
func (t Tool) MarshalJSON() ([]byte, error) {
	if len(t.Raw) > 0 {
		return t.Raw, nil
	}
	return Marshal(toolJSON{t.Type, t.Name, t.Description, t.Parameters, t.Strict, t.Environment})
}

// Environment is where a shell tool's calls are to run: container_auto, container_reference or local.
type Environment struct {
	Type          string          `json:"type"`
	ContainerID   string          `json:"container_id,omitempty"`
	FileIDs       []string        `json:"file_ids,omitempty"`
	MemoryLimit   *string         `json:"memory_limit,omitempty"`
	ExpiresAfter  *ExpiresAfter   `json:"expires_after,omitempty"`
	NetworkPolicy *NetworkPolicy  `json:"network_policy,omitempty"`
	Skills        json.RawMessage `json:"skills,omitempty"`
	Restore       *bool           `json:"restore,omitempty"` // of a container_reference, an extension: bring it back if it has expired
}

// ExpiresAfter is an idle life, counted from last_active_at.
type ExpiresAfter struct {
	Anchor  string `json:"anchor"`
	Minutes int64  `json:"minutes"`
}

// NetworkPolicy is what a container may reach: {type: disabled} or {type: allowlist, allowed_domains}.
type NetworkPolicy struct {
	Type           string          `json:"type"`
	AllowedDomains []string        `json:"allowed_domains,omitempty"`
	DomainSecrets  json.RawMessage `json:"domain_secrets,omitempty"` // never echoed
}
