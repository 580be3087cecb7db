package openai

// ConversationRef names the conversation that a response continues.
type ConversationRef struct {
	ID string `json:"id"`
}

// Conversation is a list of items that outlives the responses which added them.
type Conversation struct {
	ID        string            `json:"id"`
	Object    string            `json:"object"` // "conversation"
	CreatedAt int64             `json:"created_at"`
	Metadata  map[string]string `json:"metadata"`
}

// ConversationRequest is the body of POST /v1/conversations.
type ConversationRequest struct {
	Items    []Item            `json:"items"`
	Metadata map[string]string `json:"metadata"`
}

// ItemsRequest is the body of POST /v1/conversations/{id}/items.
type ItemsRequest struct {
	Items []Item `json:"items"`
}

// InputTokens is what a request's input would count.
type InputTokens struct {
	Object      string `json:"object"` // "response.input_tokens"
	InputTokens int64  `json:"input_tokens"`
	Estimated   bool   `json:"estimated,omitempty"` // an extension: counted here, not by the model's provider
}

// KnownInclude says whether clients may ask for v by include. What is asked for and not to be had is left out.
func KnownInclude(v string) bool {
	switch v {
	case "file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
		"message.input_image.image_url", "computer_call_output.output.image_url", "code_interpreter_call.outputs",
		"reasoning.encrypted_content", "message.output_text.logprobs":
		return true
	}
	return false
}
