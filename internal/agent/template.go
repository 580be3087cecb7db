package agent

import (
	"encoding/json"
	"maps"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// template is the Response object of a request with every field that echoes it. Its id, status and times are set
// by the room that owns the response.
func template(r *openai.CreateRequest, text json.RawMessage) openai.Response {
	out := openai.Response{
		Object:             "response",
		Background:         r.InBackground(),
		Instructions:       r.Instructions,
		MaxOutputTokens:    r.MaxOutputTokens,
		MaxToolCalls:       r.MaxToolCalls,
		Metadata:           r.Metadata,
		Model:              r.Model,
		Output:             []openai.Item{},
		ParallelToolCalls:  !isFalse(r.ParallelToolCalls),
		PreviousResponseID: r.PreviousResponseID,
		PromptCacheKey:     r.PromptCacheKey,
		Reasoning:          &openai.ReasoningConfig{},
		SafetyIdentifier:   r.SafetyIdentifier,
		ServiceTier:        "default",
		Store:              !isFalse(r.Store),
		Temperature:        1,
		Text:               text,
		ToolChoice:         json.RawMessage(`"auto"`),
		Tools:              make([]json.RawMessage, 0, len(r.Tools)),
		TopP:               1,
		Truncation:         "disabled",
		User:               r.User,
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	if present(r.Reasoning) {
		_ = json.Unmarshal(r.Reasoning, out.Reasoning) // checked by checkReasoning
	}
	if r.Temperature != nil {
		out.Temperature = *r.Temperature
	}
	if r.TopP != nil {
		out.TopP = *r.TopP
	}
	if r.Truncation != nil {
		out.Truncation = *r.Truncation
	}
	if present(r.ToolChoice) {
		out.ToolChoice = r.ToolChoice
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, echoTool(t))
	}
	return out
}

// echoText is the request's text settings with the format that always stands there.
func echoText(raw json.RawMessage) json.RawMessage {
	plain := json.RawMessage(`{"format":{"type":"text"}}`)
	if !present(raw) {
		return plain
	}
	keys, err := readKeys(raw)
	if err != nil {
		return plain
	}
	if !present(keys["format"]) {
		keys["format"] = json.RawMessage(`{"type":"text"}`)
	}
	return keys.raw()
}

// echoTool is a tool as the Response shows it: a function has all the keys that the SDKs demand, a shell never shows
// a secret. What else the client wrote is kept.
func echoTool(t openai.Tool) json.RawMessage {
	raw, err := t.MarshalJSON()
	if err != nil {
		raw = nil
	}
	keys, err := readKeys(raw)
	if err != nil {
		keys = object{}
	}
	keys.set("type", t.Type)
	switch t.Type {
	case "function":
		for key, value := range map[string]string{"description": "null", "parameters": "null", "strict": "false"} {
			if !present(keys[key]) {
				keys[key] = json.RawMessage(value)
			}
		}
	case "mcp":
		maps.DeleteFunc(keys, func(key string, _ json.RawMessage) bool { return secretKey(key) })
	case "shell":
		keys.inside("environment", func(env object) {
			env.inside("network_policy", func(policy object) { delete(policy, "domain_secrets") })
		})
	}
	return keys.raw()
}
