package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
)

// A speech is what the mock says in a dialect: a text in one piece, or a stream of messages with one delta a chunk. The
// shapes are the documented ones, with the fields that the vendors always send.
type speech struct {
	contentType string
	whole       string
	head, tail  []string                 // messages, as they are on the wire
	delta       func(text string) string // a message
	word        string                   // the delta of a chunk that is sent again and again
}

func data(text string) string { return "data: " + text + "\n\n" }

func event(name, fields string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", name, name, fields)
}

// frame is a message of the binary event stream that Bedrock sends.
func frame(name, payload string) string {
	var headers []byte
	for _, h := range [][2]string{{":event-type", name}, {":content-type", "application/json"}, {":message-type", "event"}} {
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(h[1]))) // 7: a text
		headers = append(headers, h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

const eventStream = "text/event-stream"

// speeches are by dialect.
var speeches = func() map[string]*speech {
	all := map[string]*speech{"chat": chatSpeech(), "openai": openaiSpeech(), "anthropic": anthropicSpeech(), "bedrock": bedrockSpeech(), "gemini": geminiSpeech()}
	for _, s := range all {
		s.word = s.delta(word)
	}
	return all
}()

func chatSpeech() *speech {
	const head = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"mock","choices":[`
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":12,"completion_tokens":%d,"total_tokens":%d}}`, chunks, chunks+12)
	return &speech{
		contentType: eventStream,
		whole: fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],%s`,
			said, usage),
		head: []string{data(head + `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)},
		delta: func(text string) string {
			return data(head + `{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}]}`)
		},
		tail: []string{data(head + `{"index":0,"delta":{},"finish_reason":"stop"}]}`), data(head + `],` + usage), data("[DONE]")},
	}
}

func openaiSpeech() *speech {
	usage := fmt.Sprintf(`"usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`, chunks, chunks+12)
	part := func(text string) string {
		return fmt.Sprintf(`{"type":"output_text","text":%q,"annotations":[],"logprobs":[]}`, text)
	}
	item := func(status, content string) string {
		return fmt.Sprintf(`{"type":"message","id":"msg_1","role":"assistant","status":%q,"content":[%s]}`, status, content)
	}
	whole := fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1700000000,"status":"completed","error":null,"model":"mock","output":[%s],%s}`, item("completed", part(said)), usage)
	const open = `{"id":"resp_1","object":"response","created_at":1700000000,"status":"in_progress","model":"mock","output":[]}`
	const at = `,"item_id":"msg_1","output_index":0,"content_index":0`
	return &speech{
		contentType: eventStream,
		whole:       whole,
		head: []string{event("response.created", `,"sequence_number":0,"response":`+open), event("response.in_progress", `,"sequence_number":1,"response":`+open),
			event("response.output_item.added", `,"sequence_number":2,"output_index":0,"item":`+item("in_progress", "")),
			event("response.content_part.added", `,"sequence_number":3`+at+`,"part":`+part(""))},
		delta: func(text string) string {
			return event("response.output_text.delta", `,"sequence_number":4`+at+`,"delta":"`+text+`","logprobs":[],"obfuscation":"a1b2c3d4"`)
		},
		tail: []string{event("response.output_text.done", `,"sequence_number":5`+at+fmt.Sprintf(`,"text":%q`, said)),
			event("response.content_part.done", `,"sequence_number":6`+at+`,"part":`+part(said)),
			event("response.output_item.done", `,"sequence_number":7,"output_index":0,"item":`+item("completed", part(said))),
			event("response.completed", `,"sequence_number":8,"response":`+whole)},
	}
}

func anthropicSpeech() *speech {
	const message = `{"id":"msg_1","type":"message","role":"assistant","model":"mock","content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":%d}}`
	return &speech{
		contentType: eventStream,
		whole:       fmt.Sprintf(message, fmt.Sprintf(`{"type":"text","text":%q}`, said), `"end_turn"`, chunks),
		head: []string{event("message_start", `,"message":`+fmt.Sprintf(message, "", "null", 1)),
			event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`), event("ping", "")},
		delta: func(text string) string {
			return event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"`+text+`"}`)
		},
		tail: []string{event("content_block_stop", `,"index":0`),
			event("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":%d}`, chunks)), event("message_stop", "")},
	}
}

func bedrockSpeech() *speech {
	usage := fmt.Sprintf(`"usage":{"inputTokens":12,"outputTokens":%d,"totalTokens":%d},"metrics":{"latencyMs":1}}`, chunks, chunks+12)
	return &speech{
		contentType: "application/vnd.amazon.eventstream",
		whole:       fmt.Sprintf(`{"output":{"message":{"role":"assistant","content":[{"text":%q}]}},"stopReason":"end_turn",%s`, said, usage),
		head:        []string{frame("messageStart", `{"role":"assistant","p":"abcdefgh"}`)},
		delta: func(text string) string {
			return frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"`+text+`"},"p":"abcdefgh"}`)
		},
		tail: []string{frame("contentBlockStop", `{"contentBlockIndex":0,"p":"abcd"}`), frame("messageStop", `{"p":"abc","stopReason":"end_turn"}`), frame("metadata", `{`+usage)},
	}
}

func geminiSpeech() *speech {
	const about = `"modelVersion":"mock","responseId":"r1"}`
	usage := func(n int) string {
		return fmt.Sprintf(`"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":%d,"totalTokenCount":%d},`, n, n+12)
	}
	piece := func(text, finish string, n int) string {
		return `{"candidates":[{"content":{"parts":[{"text":"` + text + `"}],"role":"model"}` + finish + `,"index":0}],` + usage(n) + about
	}
	const stop = `,"finishReason":"STOP"`
	return &speech{
		contentType: eventStream,
		whole:       piece(said, stop, chunks),
		delta:       func(text string) string { return data(piece(text, "", 1)) },
		tail:        []string{data(piece("", stop, chunks))},
	}
}

// said is the whole text of an answer.
var said = strings.Repeat(word, chunks)
