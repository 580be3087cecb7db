// Package converse holds the JSON shapes of Amazon Bedrock's Converse and ConverseStream, as far as a gateway sends and
// reads them.
//
// It translates nothing. The shapes are those of the vendor's SDK (service/bedrockruntime v1.63.10); blobs are base64,
// documents are any JSON.
package converse

import "encoding/json"

// Request is the body of both calls. The model stands in the path.
type Request struct {
	Messages    []Message     `json:"messages"`
	System      []Block       `json:"system,omitempty"` // text and cachePoint
	Inference   *Inference    `json:"inferenceConfig,omitempty"`
	Tools       *ToolConfig   `json:"toolConfig,omitempty"`
	Output      *OutputConfig `json:"outputConfig,omitempty"`
	ServiceTier *ServiceTier  `json:"serviceTier,omitempty"`
}

// Message is a message of the role user or assistant.
type Message struct {
	Role    string  `json:"role"`
	Content []Block `json:"content"`
}

// Block is a union: exactly one field is set.
type Block struct {
	Text       *string     `json:"text,omitempty"`
	Image      *Image      `json:"image,omitempty"`
	Document   *Document   `json:"document,omitempty"`
	ToolUse    *ToolUse    `json:"toolUse,omitempty"`
	ToolResult *ToolResult `json:"toolResult,omitempty"`
	Reasoning  *Reasoning  `json:"reasoningContent,omitempty"`
	CachePoint *CachePoint `json:"cachePoint,omitempty"`
}

// Image is a picture; Format is png, jpeg, gif or webp.
type Image struct {
	Format string `json:"format"`
	Source Source `json:"source"`
}

// Document is a file. Name takes letters, digits, single blanks, hyphens, parentheses and square brackets, and is
// unique within a request.
type Document struct {
	Format string `json:"format"`
	Name   string `json:"name"`
	Source Source `json:"source"`
}

// Source holds bytes as base64.
type Source struct {
	Bytes string `json:"bytes"`
}

// ToolUse is a call. Name and id take letters, digits, _ and -, up to 64.
type ToolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input,omitempty"`
	Type  string          `json:"type,omitempty"` // server_tool_use: the upstream runs it
}

// ToolResult answers a call. Content holds text and images.
type ToolResult struct {
	ID      string  `json:"toolUseId"`
	Content []Block `json:"content"`
	Status  string  `json:"status,omitempty"` // success or error
}

// Reasoning is a union of a text with its signature, and of what is not shown.
type Reasoning struct {
	Text     *ReasoningText `json:"reasoningText,omitempty"`
	Redacted string         `json:"redactedContent,omitempty"`
}

// ReasoningText is thinking. It goes back unchanged.
type ReasoningText struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"`
}

// CachePoint says that what stands before it is worth caching; Type is default, TTL 5m or 1h.
type CachePoint struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// Inference is what all models know of sampling.
type Inference struct {
	MaxTokens   *int64   `json:"maxTokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"topP,omitempty"`
}

// ToolConfig declares tools. It must be there whenever the conversation holds a call.
type ToolConfig struct {
	Tools  []Tool      `json:"tools"`
	Choice *ToolChoice `json:"toolChoice,omitempty"`
}

// Tool is a union; of it only the function is used.
type Tool struct {
	Spec       *ToolSpec   `json:"toolSpec,omitempty"`
	CachePoint *CachePoint `json:"cachePoint,omitempty"`
}

// ToolSpec is a function.
type ToolSpec struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	InputSchema InputSchema `json:"inputSchema"`
	Strict      *bool       `json:"strict,omitempty"`
}

// InputSchema is a JSON schema.
type InputSchema struct {
	JSON json.RawMessage `json:"json"`
}

// ToolChoice is a union. There is no word for none.
type ToolChoice struct {
	Auto *struct{}  `json:"auto,omitempty"`
	Any  *struct{}  `json:"any,omitempty"`
	Tool *NamedTool `json:"tool,omitempty"`
}

// NamedTool is the one tool that must be called.
type NamedTool struct {
	Name string `json:"name"`
}

// OutputConfig is how the answer is wanted.
type OutputConfig struct {
	Effort     string      `json:"effort,omitempty"` // low, medium, high, xhigh or max
	TextFormat *TextFormat `json:"textFormat,omitempty"`
}

// TextFormat is the answer's form; Type is json_schema.
type TextFormat struct {
	Type      string    `json:"type"`
	Structure Structure `json:"structure"`
}

// Structure is a union of one.
type Structure struct {
	JSONSchema JSONSchema `json:"jsonSchema"`
}

// JSONSchema carries its schema as text.
type JSONSchema struct {
	Schema      string `json:"schema"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
}

// ServiceTier is priority, default, flex or reserved.
type ServiceTier struct {
	Type string `json:"type"`
}

// Response is the answer of Converse.
type Response struct {
	Output struct {
		Message *Message `json:"message"`
	} `json:"output"`
	StopReason string `json:"stopReason"`
	Usage      *Usage `json:"usage"`
}

// Usage counts tokens. Input does not count what the cache gave and took.
type Usage struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	Total      int64 `json:"totalTokens"`
	CacheRead  int64 `json:"cacheReadInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
}

// Stop reasons.
const (
	StopEndTurn         = "end_turn"
	StopToolUse         = "tool_use"
	StopMaxTokens       = "max_tokens"
	StopSequence        = "stop_sequence"
	StopGuardrail       = "guardrail_intervened"
	StopFiltered        = "content_filtered"
	StopMalformedOutput = "malformed_model_output"
	StopMalformedCall   = "malformed_tool_use"
	StopContextWindow   = "model_context_window_exceeded"
)

// Names of the events of ConverseStream, as the header :event-type says them.
const (
	EventMessageStart = "messageStart"
	EventBlockStart   = "contentBlockStart"
	EventBlockDelta   = "contentBlockDelta"
	EventBlockStop    = "contentBlockStop"
	EventMessageStop  = "messageStop"
	EventMetadata     = "metadata"
)

// Event is the payload of any event.
type Event struct {
	Index int `json:"contentBlockIndex"`
	Start struct {
		ToolUse *ToolUse `json:"toolUse"`
	} `json:"start"`
	Delta      Delta  `json:"delta"`
	StopReason string `json:"stopReason"`
	Usage      *Usage `json:"usage"`
}

// Delta is a union of what a block grows by.
type Delta struct {
	Text    *string `json:"text,omitempty"`
	ToolUse *struct {
		Input string `json:"input"`
	} `json:"toolUse,omitempty"`
	Reasoning *ReasoningDelta `json:"reasoningContent,omitempty"`
}

// ReasoningDelta is a union.
type ReasoningDelta struct {
	Text      string `json:"text,omitempty"`
	Signature string `json:"signature,omitempty"`
	Redacted  string `json:"redactedContent,omitempty"`
}

// Text makes a block of words.
func Text(s string) Block { return Block{Text: &s} }
