package chat

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// head is what every chunk says.
type head struct {
	ID      string
	Created int64
	Model   string
}

// object is a chunk, or a whole completion.
type object struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int     `json:"index"`
	Delta        *delta  `json:"delta,omitempty"`
	Message      *spoken `json:"message,omitempty"`
	FinishReason *string `json:"finish_reason"`
	LogProbs     *string `json:"logprobs"`
}

// delta is what a chunk adds.
type delta struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	Refusal   *string `json:"refusal,omitempty"`
	ToolCalls []call  `json:"tool_calls,omitempty"`
}

// spoken is the message of a whole completion.
type spoken struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	Refusal   *string `json:"refusal"`
	ToolCalls []call  `json:"tool_calls,omitempty"`
}

type call struct {
	Index    *int                    `json:"index,omitempty"`
	ID       string                  `json:"id,omitempty"`
	Type     string                  `json:"type,omitempty"`
	Function openai.ChatFunctionCall `json:"function"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	Details    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Spent struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// teller turns the events of an answer into chunks. What the model thinks is not told: the API has no place for it.
type teller struct {
	*asked
	head
	stops   gateway.Stops
	stopped bool

	begun  bool
	chunks []object
	calls  map[int]int // index of a call, by output index
	made   []call
	text   strings.Builder
	refuse strings.Builder
	end    *openai.Response
}

func (t *teller) chunk(d delta, finish *string) {
	if !t.begun {
		t.begun = true
		empty := ""
		first := delta{Role: "assistant", Content: &empty}
		t.chunks = append(t.chunks, t.object("chat.completion.chunk", choice{Delta: &first}))
	}
	t.chunks = append(t.chunks, t.object("chat.completion.chunk", choice{Delta: &d, FinishReason: finish}))
}

func (t *teller) object(kind string, choices ...choice) object {
	if choices == nil {
		choices = []choice{}
	}
	return object{ID: t.ID, Object: kind, Created: t.Created, Model: t.Model, Choices: choices}
}

// ready is what was made since the last time.
func (t *teller) ready() []object {
	out := t.chunks
	t.chunks = nil
	return out
}

// take handles one event.
func (t *teller) take(f response.Frame) error {
	var e struct {
		OutputIndex int              `json:"output_index"`
		Delta       json.RawMessage  `json:"delta"`
		Item        openai.Item      `json:"item"`
		Response    *openai.Response `json:"response"`
	}
	switch f.Type {
	case openai.EventTextDelta, openai.EventRefusalDelta, openai.EventArgumentsDelta, openai.EventItemAdded, openai.EventItemDone,
		openai.EventCompleted, openai.EventFailed, openai.EventIncomplete:
	default:
		return nil
	}
	if err := json.Unmarshal(f.Data, &e); err != nil {
		return fault.Wrap(fault.Internal, err, "An event of the answer can't be read.")
	}
	if e.Response != nil {
		t.end = e.Response
		if rest := t.stops.Rest(); rest != "" {
			t.say(rest)
		}
		return nil
	}
	var text string
	if len(e.Delta) > 0 {
		if err := json.Unmarshal(e.Delta, &text); err != nil {
			return fault.Wrap(fault.Internal, err, "An event of the answer can't be read.")
		}
	}
	switch f.Type {
	case openai.EventTextDelta:
		text, t.stopped = t.stops.Feed(text)
		if text != "" {
			t.say(text)
		}
	case openai.EventRefusalDelta:
		t.refuse.WriteString(text)
		t.chunk(delta{Refusal: &text}, nil)
	case openai.EventItemAdded:
		var c openai.FunctionCall
		if e.Item.Type != openai.TypeFunctionCall || e.Item.Decode(&c) != nil {
			return nil
		}
		n := len(t.made)
		t.calls[e.OutputIndex] = n
		made := call{ID: c.CallID, Type: "function", Function: openai.ChatFunctionCall{Name: c.Name}}
		t.made = append(t.made, made)
		made.Index = &n
		t.chunk(delta{ToolCalls: []call{made}}, nil)
	case openai.EventArgumentsDelta:
		if n, ok := t.calls[e.OutputIndex]; ok {
			t.made[n].Function.Arguments += openai.ChatArguments(text)
			t.chunk(delta{ToolCalls: []call{{Index: &n, Function: openai.ChatFunctionCall{Arguments: openai.ChatArguments(text)}}}}, nil)
		}
	}
	return nil
}

func (t *teller) say(text string) {
	t.text.WriteString(text)
	t.chunk(delta{Content: &text}, nil)
}

// ending is why the answer is none, or nil.
func (t *teller) ending() error {
	r := t.end
	switch {
	case t.stopped, r != nil && (r.Status == openai.Completed || r.Status == openai.Incomplete):
		return nil
	case r == nil:
		return fault.New(fault.Internal, "The answer has no end.")
	case r.Status == openai.Cancelled:
		return fault.New(fault.Unavailable, "The answer was cancelled, as the server is stopping.").WithTry("the same request in a moment")
	case r.Error == nil:
		return fault.New(fault.Internal, "The answer ended as %s.", r.Status)
	}
	kind := fault.Upstream
	if r.Error.Code == "rate_limit_exceeded" {
		kind = fault.RateLimited
	}
	return fault.New(kind, "%s", r.Error.Message).WithCode(r.Error.Code)
}

// finish is the vendor's word for how the answer ended.
func (t *teller) finish() *string {
	reason := "stop"
	switch {
	case t.stopped:
	case t.end.IncompleteDetails != nil && t.end.IncompleteDetails.Reason == openai.ReasonContentFilter:
		reason = "content_filter"
	case t.end.Status == openai.Incomplete:
		reason = "length"
	case len(t.made) > 0:
		reason = "tool_calls"
	}
	return &reason
}

func (t *teller) count() *usage {
	if t.end == nil || t.end.Usage == nil {
		return nil
	}
	u := t.end.Usage
	out := &usage{Prompt: u.InputTokens, Completion: u.OutputTokens, Total: u.TotalTokens}
	out.Details.Cached, out.Spent.Reasoning = u.InputTokensDetails.CachedTokens, u.OutputTokensDetails.ReasoningTokens
	return out
}

// last is the end of a stream.
func (t *teller) last() []object {
	t.chunk(delta{}, t.finish())
	if t.usage {
		o := t.object("chat.completion.chunk")
		if o.Usage = t.count(); o.Usage == nil {
			o.Usage = &usage{} // the upstream told none
		}
		t.chunks = append(t.chunks, o)
	}
	return t.ready()
}

// whole is the answer in one piece.
func (t *teller) whole() object {
	m := &spoken{Role: "assistant", ToolCalls: slices.Clone(t.made)}
	if text := t.text.String(); text != "" || len(t.made) == 0 && t.refuse.Len() == 0 {
		m.Content = &text
	}
	if text := t.refuse.String(); text != "" {
		m.Refusal = &text
	}
	o := t.object("chat.completion", choice{Message: m, FinishReason: t.finish()})
	o.Usage = t.count()
	return o
}
