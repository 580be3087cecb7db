package openai

import (
	"bytes"
	"encoding/json"
	"strings"
)

// ChatRequest is the body of POST /v1/chat/completions, as we send it.
type ChatRequest struct {
	Model               string             `json:"model"`
	Messages            []ChatMessage      `json:"messages"`
	Stream              bool               `json:"stream"`
	StreamOptions       *ChatStreamOptions `json:"stream_options,omitempty"`
	Tools               []ChatTool         `json:"tools,omitempty"`
	ToolChoice          json.RawMessage    `json:"tool_choice,omitempty"`
	ParallelToolCalls   *bool              `json:"parallel_tool_calls,omitempty"`
	MaxTokens           *int64             `json:"max_tokens,omitempty"`
	MaxCompletionTokens *int64             `json:"max_completion_tokens,omitempty"`
	Temperature         *float64           `json:"temperature,omitempty"`
	TopP                *float64           `json:"top_p,omitempty"`
	ResponseFormat      json.RawMessage    `json:"response_format,omitempty"`
	ReasoningEffort     string             `json:"reasoning_effort,omitempty"`
	Verbosity           string             `json:"verbosity,omitempty"`
	User                string             `json:"user,omitempty"`
	PromptCacheKey      string             `json:"prompt_cache_key,omitempty"`
	SafetyIdentifier    string             `json:"safety_identifier,omitempty"`
	ServiceTier         string             `json:"service_tier,omitempty"`
}

// ChatStreamOptions asks for the chunk that carries usage.
type ChatStreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// ChatMessage is one message of a request or of a whole completion.
type ChatMessage struct {
	Role             string         `json:"role"`
	Content          ChatContent    `json:"content"`
	Refusal          string         `json:"refusal,omitempty"`
	ReasoningContent string         `json:"reasoning_content,omitempty"`
	Reasoning        string         `json:"reasoning,omitempty"`
	ToolCalls        []ChatToolCall `json:"tool_calls,omitempty"`
	ToolCallID       string         `json:"tool_call_id,omitempty"`
}

// ChatContent is a message's content: null, a string, or parts. Parts is used when it is not nil.
type ChatContent struct {
	Text  *string
	Parts []ChatPart
}

// ChatText is a content of one string.
func ChatText(s string) ChatContent { return ChatContent{Text: &s} }

// MarshalJSON writes parts, a string or null.
func (c ChatContent) MarshalJSON() ([]byte, error) {
	if c.Parts != nil {
		return Marshal(c.Parts)
	}
	return Marshal(c.Text)
}

// UnmarshalJSON accepts null, a string or parts.
func (c *ChatContent) UnmarshalJSON(data []byte) error {
	*c = ChatContent{}
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, &c.Parts)
	}
	return json.Unmarshal(data, &c.Text)
}

// String joins the text of the content.
func (c ChatContent) String() string {
	if c.Text != nil {
		return *c.Text
	}
	var b strings.Builder
	for _, p := range c.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// ChatPart is one part of a message: text, image_url or file.
type ChatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *ChatImage `json:"image_url,omitempty"`
	File     *ChatFile  `json:"file,omitempty"`
}

// ChatImage is an image by URL or data URL.
type ChatImage struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

// ChatFile is a file sent inline.
type ChatFile struct {
	Filename string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
}

// ChatTool is a declared function.
type ChatTool struct {
	Type     string       `json:"type"` // "function"
	Function ChatFunction `json:"function"`
}

// ChatFunction declares a function.
type ChatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

// ChatToolCall is one call, or a piece of one in a stream. Index is nil when the server left it out.
type ChatToolCall struct {
	Index    *int             `json:"index,omitempty"`
	ID       string           `json:"id,omitempty"`
	Type     string           `json:"type,omitempty"` // "function"
	Function ChatFunctionCall `json:"function"`
}

// ChatFunctionCall is the name and arguments of a call, or a piece of them.
type ChatFunctionCall struct {
	Name      string        `json:"name,omitempty"`
	Arguments ChatArguments `json:"arguments"`
}

// ChatArguments is JSON text. Some servers send the object itself; it reads as its text.
type ChatArguments string

// UnmarshalJSON accepts a string, null or any other JSON value.
func (a *ChatArguments) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("null")):
		*a = ""
		return nil
	case len(data) > 0 && data[0] == '"':
		return json.Unmarshal(data, (*string)(a))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return err
	}
	*a = ChatArguments(b.String())
	return nil
}

// ChatChunk is one event of a chat stream, or a whole completion (Message instead of Delta). Only what is used here
// is read; servers add much.
type ChatChunk struct {
	Choices []ChatChoice    `json:"choices"`
	Usage   *ChatUsage      `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// ChatChoice is one answer; we ask for one.
type ChatChoice struct {
	Index        int             `json:"index"`
	Delta        ChatDelta       `json:"delta"`
	Message      *ChatDelta      `json:"message"`
	FinishReason string          `json:"finish_reason"`
	Error        json.RawMessage `json:"error"`
}

// ChatDelta is what a chunk adds. Servers name thinking in one of two ways.
type ChatDelta struct {
	Content          ChatContent    `json:"content"`
	Refusal          string         `json:"refusal"`
	ReasoningContent string         `json:"reasoning_content"`
	Reasoning        string         `json:"reasoning"`
	ToolCalls        []ChatToolCall `json:"tool_calls"`
}

// ChatUsage counts tokens.
type ChatUsage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	PromptCacheHit int64 `json:"prompt_cache_hit_tokens"` // DeepSeek's name
}

// Responses is the same count in the words of the Responses API.
func (u ChatUsage) Responses() *Usage {
	r := &Usage{InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, TotalTokens: u.TotalTokens}
	r.InputTokensDetails.CachedTokens = max(u.PromptDetails.CachedTokens, u.PromptCacheHit)
	r.OutputTokensDetails.ReasoningTokens = u.CompletionDetails.ReasoningTokens
	if r.TotalTokens == 0 {
		r.TotalTokens = r.InputTokens + r.OutputTokens
	}
	return r
}
