package openai

import "encoding/json"

// Response statuses. InProgress, Completed and Incomplete are shared with items.
const (
	Queued    = "queued"
	Failed    = "failed"
	Cancelled = "cancelled"
)

// Reasons of an incomplete response.
const (
	ReasonMaxOutputTokens = "max_output_tokens"
	ReasonMaxMessages     = "max_messages"
	ReasonContentFilter   = "content_filter"
)

// Response is the Response object. Every key that the SDKs or the Open Responses suite demand is always written,
// null where that is allowed.
type Response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"` // "response"
	CreatedAt          int64              `json:"created_at"`
	CompletedAt        *int64             `json:"completed_at"`
	Status             string             `json:"status"`
	Background         bool               `json:"background"`
	Conversation       *ConversationRef   `json:"conversation,omitempty"`
	Error              *ResponseError     `json:"error"`
	IncompleteDetails  *IncompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	MaxOutputTokens    *int64             `json:"max_output_tokens"`
	MaxToolCalls       *int64             `json:"max_tool_calls"`
	Metadata           map[string]string  `json:"metadata"`
	Model              string             `json:"model"`
	Output             []Item             `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PresencePenalty    float64            `json:"presence_penalty"`
	FrequencyPenalty   float64            `json:"frequency_penalty"`
	PreviousResponseID *string            `json:"previous_response_id"`
	PromptCacheKey     *string            `json:"prompt_cache_key"`
	Reasoning          *ReasoningConfig   `json:"reasoning"`
	SafetyIdentifier   *string            `json:"safety_identifier"`
	ServiceTier        string             `json:"service_tier"`
	Store              bool               `json:"store"`
	Temperature        float64            `json:"temperature"`
	Text               json.RawMessage    `json:"text"` // {"format":{"type":"text"}} by default
	ToolChoice         json.RawMessage    `json:"tool_choice"`
	Tools              []json.RawMessage  `json:"tools"` // echoed without domain_secrets
	TopLogprobs        int64              `json:"top_logprobs"`
	TopP               float64            `json:"top_p"`
	Truncation         string             `json:"truncation"`
	Usage              *Usage             `json:"usage"`
	User               *string            `json:"user"`
	ContainerID        string             `json:"container_id,omitempty"` // an extension of the Hadrian seed
}

// ReasoningConfig is the echo of the request's reasoning settings.
type ReasoningConfig struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// ResponseError is why a response failed.
type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// IncompleteDetails is why a response stopped early.
type IncompleteDetails struct {
	Reason string `json:"reason"`
}

// Usage counts tokens, summed over every model call of the response.
type Usage struct {
	InputTokens         int64         `json:"input_tokens"`
	InputTokensDetails  InputDetails  `json:"input_tokens_details"`
	OutputTokens        int64         `json:"output_tokens"`
	OutputTokensDetails OutputDetails `json:"output_tokens_details"`
	TotalTokens         int64         `json:"total_tokens"`
}

// InputDetails splits the input tokens.
type InputDetails struct {
	CachedTokens     int64 `json:"cached_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
}

// OutputDetails splits the output tokens.
type OutputDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// Add sums another model call's usage into u.
func (u *Usage) Add(v Usage) {
	u.InputTokens += v.InputTokens
	u.InputTokensDetails.CachedTokens += v.InputTokensDetails.CachedTokens
	u.InputTokensDetails.CacheWriteTokens += v.InputTokensDetails.CacheWriteTokens
	u.OutputTokens += v.OutputTokens
	u.OutputTokensDetails.ReasoningTokens += v.OutputTokensDetails.ReasoningTokens
	u.TotalTokens += v.TotalTokens
}

// Deleted is the answer to a DELETE.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// List is the envelope of every listing. FirstID and LastID are null when Data is empty.
type List[T any] struct {
	Object  string  `json:"object"` // "list"
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// NewList wraps a page; id names an entry.
func NewList[T any](data []T, more bool, id func(T) string) List[T] {
	l := List[T]{Object: "list", Data: data, HasMore: more}
	if l.Data == nil {
		l.Data = []T{}
	}
	if len(data) > 0 {
		first, last := id(data[0]), id(data[len(data)-1])
		l.FirstID, l.LastID = &first, &last
	}
	return l
}

// ErrorBody is the envelope of every HTTP error.
type ErrorBody struct {
	Error ErrorObject `json:"error"`
}

// ErrorObject names what went wrong. Param and Code are null when there is none.
type ErrorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`

	// Surviving comes with container_expired: what is left and can be brought back.
	Surviving *Survivors `json:"surviving,omitempty"`
}

// Model is an entry of GET /v1/models.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // "model"
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}
