package e2e

import (
	"fmt"
	"maps"
	"slices"
)

// What Open Responses demands of what a server says, as its suite's schemas have it: keys that must be there, which of them
// may be null, and of what type the others are. Written from the wire reference.

// want is a demand on one key: the JSON types that it may have, such as "string", "null".
type want map[string][]string

// missing says what of the demands an object does not meet.
func (w want) missing(o map[string]any, at string) (wrong []string) {
	for key, types := range w {
		v, there := o[key]
		if kind := kindOf(v); !there || !slices.Contains(types, kind) {
			wrong = append(wrong, fmt.Sprintf("%s.%s is %s (there: %v), not %v", at, key, kind, there, types))
		}
	}
	return wrong
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

var (
	textual  = []string{"string"}
	textOr   = []string{"string", "null"}
	numeral  = []string{"number"}
	numberOr = []string{"number", "null"}
	objectOr = []string{"object", "null"}
	listed   = []string{"array"}
	flag     = []string{"boolean"}
	whole    = []string{"object"}

	ofResponse = want{"id": textual, "object": textual, "created_at": numeral, "completed_at": numberOr, "status": textual, "incomplete_details": objectOr,
		"model": textual, "previous_response_id": textOr, "instructions": textOr, "output": listed, "error": objectOr, "tools": listed,
		"tool_choice": {"string", "object"}, "truncation": textual, "parallel_tool_calls": flag, "text": whole, "top_p": numeral,
		"presence_penalty": numeral, "frequency_penalty": numeral, "top_logprobs": numeral, "temperature": numeral, "reasoning": objectOr,
		"usage": objectOr, "max_output_tokens": numberOr, "max_tool_calls": numberOr, "store": flag, "background": flag,
		"service_tier": textual, "metadata": whole, "safety_identifier": textOr, "prompt_cache_key": textOr}
	ofReasoning = want{"effort": textOr, "summary": textOr}
	ofUsage     = want{"input_tokens": numeral, "output_tokens": numeral, "total_tokens": numeral, "input_tokens_details": whole, "output_tokens_details": whole}
	ofFunction  = want{"name": textual, "description": textOr, "parameters": objectOr, "strict": {"boolean", "null"}}
	ofItems     = map[string]want{
		"message":       {"id": textual, "status": textual, "role": textual, "content": listed},
		"function_call": {"id": textual, "status": textual, "call_id": textual, "name": textual, "arguments": textual},
		"reasoning":     {"id": textual, "summary": listed},
		"compaction":    {"id": textual, "encrypted_content": textual},
	}
	ofCompaction = want{"id": textual, "object": textual, "created_at": numeral, "output": listed, "usage": whole}
	ofParts      = map[string]want{"output_text": {"text": textual, "annotations": listed}, "refusal": {"refusal": textual}}

	lifecycle = want{"response": whole}
	inItem    = want{"item_id": textual, "output_index": numeral}
	inPart    = want{"item_id": textual, "output_index": numeral, "content_index": numeral}
	ofEvents  = map[string]want{
		"response.created": lifecycle, "response.queued": lifecycle, "response.in_progress": lifecycle,
		"response.completed": lifecycle, "response.failed": lifecycle, "response.incomplete": lifecycle,
		"response.output_item.added": {"output_index": numeral, "item": whole}, "response.output_item.done": {"output_index": numeral, "item": whole},
		"response.content_part.added": inPart.and("part", whole), "response.content_part.done": inPart.and("part", whole),
		"response.output_text.delta": inPart.and("delta", textual).and("logprobs", listed), "response.output_text.done": inPart.and("text", textual),
		"response.function_call_arguments.delta": inItem.and("delta", textual), "response.function_call_arguments.done": inItem.and("arguments", textual),
	}
)

func (w want) and(key string, types []string) want {
	out := want{key: types}
	maps.Copy(out, w)
	return out
}

// resource says what is wrong with a response.
func resource(o map[string]any, at string) (wrong []string) {
	wrong = ofResponse.missing(o, at)
	if o["object"] != "response" {
		wrong = append(wrong, fmt.Sprintf("%s.object is %v", at, o["object"]))
	}
	wrong = append(wrong, want{"format": whole}.missing(object(o["text"]), at+".text")...)
	if r := object(o["reasoning"]); r != nil {
		wrong = append(wrong, ofReasoning.missing(r, at+".reasoning")...)
	}
	if u := object(o["usage"]); u != nil {
		wrong = append(wrong, ofUsage.missing(u, at+".usage")...)
		wrong = append(wrong, want{"cached_tokens": numeral}.missing(object(u["input_tokens_details"]), at+".usage.input_tokens_details")...)
		wrong = append(wrong, want{"reasoning_tokens": numeral}.missing(object(u["output_tokens_details"]), at+".usage.output_tokens_details")...)
	}
	for n, tool := range list(o["tools"]) {
		if object(tool)["type"] == "function" {
			wrong = append(wrong, ofFunction.missing(object(tool), fmt.Sprintf("%s.tools[%d]", at, n))...)
		}
	}
	for n, i := range list(o["output"]) {
		wrong = append(wrong, item(object(i), fmt.Sprintf("%s.output[%d]", at, n))...)
	}
	return wrong
}

// item says what is wrong with an item of an output.
func item(o map[string]any, at string) (wrong []string) {
	demands, known := ofItems[fmt.Sprint(o["type"])]
	if !known {
		return []string{fmt.Sprintf("%s is a %v", at, o["type"])}
	}
	wrong = demands.missing(o, at)
	if phase, has := o["phase"]; has && !slices.Contains([]any{"commentary", "final_answer", nil}, phase) {
		wrong = append(wrong, fmt.Sprintf("%s.phase is %v", at, phase))
	}
	for n, p := range list(o["content"]) {
		wrong = append(wrong, part(object(p), fmt.Sprintf("%s.content[%d]", at, n))...)
	}
	return wrong
}

func part(o map[string]any, at string) []string {
	demands, known := ofParts[fmt.Sprint(o["type"])]
	if !known {
		return []string{fmt.Sprintf("%s is a %v", at, o["type"])}
	}
	return demands.missing(o, at)
}

// demanded says what is wrong with an event.
func demanded(e map[string]any) (wrong []string) {
	typ := fmt.Sprint(e["type"])
	if typ == "error" { // over a WebSocket
		return append(want{"status": numeral, "error": whole}.missing(e, typ), want{"code": textual, "message": textual}.missing(object(e["error"]), typ+".error")...)
	}
	demands, known := ofEvents[typ]
	if !known {
		return []string{"no event of Open Responses: " + typ}
	}
	wrong = demands.and("sequence_number", numeral).missing(e, typ)
	if r := object(e["response"]); r != nil {
		wrong = append(wrong, resource(r, typ)...)
	}
	if i := object(e["item"]); i != nil {
		wrong = append(wrong, item(i, typ)...)
	}
	if p := object(e["part"]); p != nil {
		wrong = append(wrong, part(p, typ)...)
	}
	return wrong
}
