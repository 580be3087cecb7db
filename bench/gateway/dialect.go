package main

import (
	"fmt"
	"strings"
)

// A dialect is how an API is asked, and where a text delta and the end stand in its stream.
type dialect struct {
	name   string
	base   string // behind the mock's address: a provider's base_url
	path   func(model string, stream bool) string
	body   func(model string, stream, store bool) string
	framed bool   // a stream of binary messages; otherwise of server-sent events
	delta  []byte // what stands before a delta's text, in an event that has one
	text   []byte // what stands before the whole text of an answer without stream
	end    []byte // what the event contains without which a stream is cut
}

// dialects are those of the upstreams that can be measured, in the order of the table.
var dialects = []dialect{
	{
		name: "chat", base: "/v1", path: always("/v1/chat/completions"),
		body: func(model string, stream, _ bool) string {
			return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"Say it."}]}`, model, stream)
		},
		delta: []byte(`"delta":{"content":"`), text: []byte(`"content":"`), end: []byte("[DONE]"),
	},
	{
		name: "openai", base: "/v1", path: always("/v1/responses"),
		body: func(model string, stream, store bool) string {
			return fmt.Sprintf(`{"model":%q,"stream":%t,"store":%t,"input":"Say it."}`, model, stream, store)
		},
		delta: []byte(`"delta":"`), text: []byte(`"text":"`), end: []byte(`"type":"response.completed"`),
	},
	{
		name: "anthropic", path: always("/v1/messages"),
		body: func(model string, stream, _ bool) string {
			return fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":1000,"messages":[{"role":"user","content":"Say it."}]}`, model, stream)
		},
		delta: []byte(`"type":"text_delta","text":"`), text: []byte(`"type":"text","text":"`), end: []byte(`"type":"message_stop"`),
	},
	{
		name: "bedrock", framed: true,
		path: func(model string, stream bool) string {
			if stream {
				return "/model/" + model + "/converse-stream"
			}
			return "/model/" + model + "/converse"
		},
		body:  always3(`{"messages":[{"role":"user","content":[{"text":"Say it."}]}]}`),
		delta: []byte(`"delta":{"text":"`), text: []byte(`"text":"`), end: []byte(`"stopReason"`),
	},
	{
		name: "gemini", base: "/v1beta",
		path: func(model string, stream bool) string {
			if stream {
				return "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
			}
			return "/v1beta/models/" + model + ":generateContent"
		},
		body:  always3(`{"contents":[{"role":"user","parts":[{"text":"Say it."}]}]}`),
		delta: []byte(`"parts":[{"text":"`), text: []byte(`"text":"`), end: []byte(`"finishReason"`),
	},
}

func always(path string) func(string, bool) string { return func(string, bool) string { return path } }
func always3(body string) func(string, bool, bool) string {
	return func(string, bool, bool) string { return body }
}

// responsesDialect is what the gateway's own clients speak, whatever the upstream speaks.
func responsesDialect() dialect {
	d := dialects[1]
	ask := d.body
	d.body = func(model string, stream, store bool) string { return ask("mock/"+model, stream, store) }
	return d
}

// chosen are the dialects of a list with commas; "all" is every one.
func chosen(list string) ([]dialect, error) {
	if list == "all" {
		return dialects, nil
	}
	var out []dialect
next:
	for name := range strings.SplitSeq(list, ",") {
		for _, d := range dialects {
			if d.name == name {
				out = append(out, d)
				continue next
			}
		}
		return nil, fmt.Errorf("there is no dialect %q; try -dialect all", name)
	}
	return out, nil
}
