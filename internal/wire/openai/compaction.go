package openai

// TypeCompactionTrigger is the wish for a compaction at this point of a conversation.
const TypeCompactionTrigger = "compaction_trigger"

// EventCompacting says that a compaction is being made; it carries nothing of it.
const EventCompacting = "response.compaction.compacting"

// Compaction stands in a conversation for what came before it.
type Compaction struct {
	Type             string `json:"type"` // "compaction"
	ID               string `json:"id,omitempty"`
	EncryptedContent string `json:"encrypted_content"` // opaque to the client
	CreatedBy        string `json:"created_by,omitempty"`
}

// CompactingEvent is response.compaction.compacting.
type CompactingEvent struct {
	Head
	ItemID      string `json:"item_id"`
	OutputIndex int    `json:"output_index"`
}

// NewCompacting makes response.compaction.compacting.
func NewCompacting(itemID string, index int) *CompactingEvent {
	return &CompactingEvent{Head{Type: EventCompacting}, itemID, index}
}

// CompactRequest is the body of POST /v1/responses/compact.
type CompactRequest struct {
	Model              string  `json:"model"`
	Input              Input   `json:"input"`
	Instructions       *string `json:"instructions"`
	PreviousResponseID *string `json:"previous_response_id"`
	PromptCacheKey     *string `json:"prompt_cache_key"`
	ServiceTier        *string `json:"service_tier"`

	Strategy *string `json:"strategy"` // extensions of ours, as in context_management
	Prompt   *string `json:"prompt"`
}

// Compacted is the answer: its output is the input of a later request.
type Compacted struct {
	ID        string `json:"id"`
	Object    string `json:"object"` // "response.compaction"
	CreatedAt int64  `json:"created_at"`
	Output    []Item `json:"output"`
	Usage     Usage  `json:"usage"`
}
