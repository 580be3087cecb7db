package anthropic

import "encoding/json"

// The reasons for which an answer ends.
const (
	StopEndTurn       = "end_turn"
	StopMaxTokens     = "max_tokens"
	StopSequence      = "stop_sequence"
	StopToolUse       = "tool_use"
	StopPauseTurn     = "pause_turn"
	StopRefusal       = "refusal"
	StopContextWindow = "model_context_window_exceeded"
	StopCompaction    = "compaction" // beta
)

// Response is the model's answer: the message object. Keys whose value may be null are always written.
type Response struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"` // "message"
	Role         string          `json:"role"` // "assistant"
	Model        string          `json:"model"`
	Content      Content         `json:"content"`
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	StopDetails  json.RawMessage `json:"stop_details"`
	Container    *Container      `json:"container"`
	Usage        Usage           `json:"usage"`
}

// Container is the place in which a server's tools ran.
type Container struct {
	ID        string          `json:"id"`
	ExpiresAt string          `json:"expires_at"` // RFC 3339
	Skills    json.RawMessage `json:"skills,omitempty"`
}

// Usage counts tokens. InputTokens does not count what was read from or written to the cache. In a message_delta the
// counts are of the whole answer and replace earlier ones; what is absent there stays as it was.
type Usage struct {
	InputTokens         int64          `json:"input_tokens"`
	OutputTokens        int64          `json:"output_tokens"`
	CacheCreationTokens *int64         `json:"cache_creation_input_tokens"`
	CacheReadTokens     *int64         `json:"cache_read_input_tokens"`
	OutputDetails       *OutputDetails `json:"output_tokens_details,omitempty"`
	ServerToolUse       *ServerToolUse `json:"server_tool_use,omitempty"`
	ServiceTier         string         `json:"service_tier,omitempty"`
}

// OutputDetails splits the output tokens.
type OutputDetails struct {
	ThinkingTokens int64 `json:"thinking_tokens"`
}

// ServerToolUse counts the calls of the server's own tools.
type ServerToolUse struct {
	WebSearchRequests int64 `json:"web_search_requests"`
	WebFetchRequests  int64 `json:"web_fetch_requests"`
}

// TokenCount is the answer of POST /v1/messages/count_tokens.
type TokenCount struct {
	InputTokens int64 `json:"input_tokens"`
}

// The types of an error; each stands for one HTTP status.
const (
	ErrorInvalidRequest = "invalid_request_error" // 400
	ErrorAuthentication = "authentication_error"  // 401
	ErrorBilling        = "billing_error"         // 402
	ErrorPermission     = "permission_error"      // 403
	ErrorNotFound       = "not_found_error"       // 404
	ErrorTooLarge       = "request_too_large"     // 413
	ErrorRateLimit      = "rate_limit_error"      // 429
	ErrorAPI            = "api_error"             // 500
	ErrorTimeout        = "timeout_error"         // 504
	ErrorOverloaded     = "overloaded_error"      // 529
)

// ErrorBody is the body of every HTTP error, and the data of an error event.
type ErrorBody struct {
	Type      string `json:"type"` // "error"
	Error     Error  `json:"error"`
	RequestID string `json:"request_id,omitempty"`
}

// Error is what went wrong.
type Error struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// NewError makes the body of an error.
func NewError(typ, message, requestID string) ErrorBody {
	return ErrorBody{Type: "error", Error: Error{Type: typ, Message: message}, RequestID: requestID}
}

// Model is an entry of GET /v1/models.
type Model struct {
	ID             string `json:"id"`
	Type           string `json:"type"` // "model"
	DisplayName    string `json:"display_name"`
	CreatedAt      string `json:"created_at"` // RFC 3339
	MaxInputTokens int64  `json:"max_input_tokens,omitempty"`
	MaxTokens      int64  `json:"max_tokens,omitempty"`
}

// ModelList is a page of models. FirstID and LastID are null when Data is empty.
type ModelList struct {
	Data    []Model `json:"data"`
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

// NewModelList wraps a page.
func NewModelList(data []Model, more bool) ModelList {
	l := ModelList{Data: data, HasMore: more}
	if data == nil {
		l.Data = []Model{}
	}
	if n := len(data); n > 0 {
		l.FirstID, l.LastID = &data[0].ID, &data[n-1].ID
	}
	return l
}
