package agent

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// streamChecker reads a response's events as the strictest client does: every row of the table that the official npm
// helper enforces is a check, and so are the order of DESIGN D3 and the rule that deltas add up to what they built.
type streamChecker struct {
	faults   []string
	n        int
	response string
	items    map[int]*checkedItem
	ids      map[string]bool
	over     bool
}

type checkedItem struct {
	typ, id, callID string
	added, final    map[string]any
	done            bool
	parts           map[int]*checkedPart
	arguments       string
	commands        []string // of a shell_call, by shell_call_command events
	closedCommands  int
	entries         map[int]any // of a shell_call_output, by its content.done events
}

type checkedPart struct {
	text       string
	textDone   bool
	notes      []any
	opened     bool
	closed     bool
	closedPart map[string]any
}

var knownEvents = []string{"response.created", "response.queued", "response.in_progress", "response.completed",
	"response.failed", "response.incomplete", "response.output_item.added", "response.output_item.done",
	"response.content_part.added", "response.content_part.done", "response.output_text.delta",
	"response.output_text.done", "response.output_text.annotation.added", "response.refusal.delta",
	"response.refusal.done", "response.function_call_arguments.delta", "response.function_call_arguments.done",
	"response.reasoning_text.delta", "response.reasoning_text.done", "response.shell_call_command.added",
	"response.shell_call_command.delta", "response.shell_call_command.done",
	"response.shell_call_output_content.delta", "response.shell_call_output_content.done", "response.compaction.compacting", "keepalive"}

// checkStream returns what is wrong with a stream.
func checkStream(frames [][]byte) []string {
	c := &streamChecker{items: map[int]*checkedItem{}, ids: map[string]bool{}}
	for _, f := range frames {
		var ev map[string]any
		if err := json.Unmarshal(f, &ev); err != nil {
			c.fault("not JSON: %v", err)
			continue
		}
		c.event(ev)
		c.n++
	}
	if !c.over {
		c.fault("no terminal event")
	}
	return c.faults
}

func requireStream(t testing.TB, frames [][]byte) {
	t.Helper()
	for _, f := range checkStream(frames) {
		t.Errorf("stream: %s", f)
	}
}

func (c *streamChecker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf("event %d: ", c.n)+fmt.Sprintf(format, args...))
}

func (c *streamChecker) event(ev map[string]any) {
	typ, _ := ev["type"].(string)
	if c.over {
		c.fault("%s after the terminal event", typ)
	}
	if !slices.Contains(knownEvents, typ) {
		c.fault("unknown event type %q", typ)
		return
	}
	if n, ok := ev["sequence_number"].(float64); !ok || int(n) != c.n {
		c.fault("sequence number %v", ev["sequence_number"])
	}
	if c.n == 0 && typ != "response.created" {
		c.fault("first event is %s", typ)
	}
	name := strings.TrimPrefix(typ, "response.")
	switch {
	case slices.Contains([]string{"created", "queued", "in_progress", "completed", "failed", "incomplete"}, name):
		c.lifecycle(name, ev)
	case name == "output_item.added":
		c.added(ev)
	case name != "keepalive":
		item := c.items[index(ev, "output_index")]
		switch {
		case item == nil:
			c.fault("%s for an item that was not added", typ)
		case item.done:
			c.fault("%s after the item was done", typ)
		case ev["item_id"] == nil && !strings.HasPrefix(name, "output_item.") && !strings.HasPrefix(name, "shell_call_command."):
			c.fault("%s without item_id", typ)
		case ev["item_id"] != nil && ev["item_id"] != item.id:
			c.fault("%s names item %v, its index is of %s", typ, ev["item_id"], item.id)
		default:
			c.inside(name, ev, item)
		}
	}
}

func (c *streamChecker) lifecycle(name string, ev map[string]any) {
	r, _ := ev["response"].(map[string]any)
	id, _ := r["id"].(string)
	if id == "" || c.response != "" && id != c.response {
		c.fault("response id %q, was %q", id, c.response)
	}
	c.response = id
	if name == "created" || name == "queued" || name == "in_progress" {
		return
	}
	c.over = true
	output, _ := r["output"].([]any)
	for i := range len(c.items) {
		item := c.items[i]
		switch {
		case item == nil:
			c.fault("no item has output index %d", i)
		case !item.done:
			c.fault("item %d (%s) is unfinished at the end", i, item.typ)
		case i >= len(output) || !reflect.DeepEqual(output[i], any(item.final)):
			c.fault("final output[%d] is not what the item's done event said", i)
		}
	}
	if len(output) != len(c.items) {
		c.fault("final output has %d items, the stream had %d", len(output), len(c.items))
	}
}

func (c *streamChecker) added(ev map[string]any) {
	i := index(ev, "output_index")
	raw, _ := ev["item"].(map[string]any)
	item := &checkedItem{typ: str(raw, "type"), id: str(raw, "id"), callID: str(raw, "call_id"), added: raw,
		parts: map[int]*checkedPart{}, entries: map[int]any{}}
	switch {
	case c.items[i] != nil:
		c.fault("output index %d is taken", i)
	case item.id == "":
		c.fault("item without id")
	case c.ids[item.id]:
		c.fault("duplicate output item identity %s", item.id)
	case strings.HasPrefix(item.typ, "shell_call") && item.callID == "":
		c.fault("%s without call_id", item.typ)
	case raw["status"] != "in_progress" && item.typ != "compaction": // which has none
		c.fault("%s added with status %v", item.typ, raw["status"])
	}
	if item.typ == "shell_call_output" && c.callOf(item) == nil {
		c.fault("shell_call_output without its call")
	}
	c.shape(raw)
	c.items[i], c.ids[item.id] = item, true
}

// shape holds the keys that may be null and must be there.
func (c *streamChecker) shape(item map[string]any) {
	action, _ := item["action"].(map[string]any)
	need := func(o map[string]any, keys ...string) {
		for _, k := range keys {
			if _, ok := o[k]; !ok {
				c.fault("%v without %s", item["type"], k)
			}
		}
	}
	switch item["type"] {
	case "shell_call":
		need(item, "status", "environment", "action")
		need(action, "commands", "timeout_ms", "max_output_length")
	case "shell_call_output":
		need(item, "status", "max_output_length", "output")
		for _, e := range list(item, "output") {
			need(e.(map[string]any), "stdout", "stderr", "outcome")
		}
	case "function_call":
		need(item, "id", "status", "call_id", "name", "arguments")
	case "message":
		need(item, "role", "status", "content")
	}
}

func (c *streamChecker) callOf(output *checkedItem) *checkedItem {
	for _, i := range c.items {
		if i.typ == "shell_call" && i.callID == output.callID {
			return i
		}
	}
	return nil
}

func (c *streamChecker) inside(name string, ev map[string]any, item *checkedItem) {
	at := index(ev, "content_index")
	part := item.parts[at]
	switch name {
	case "content_part.added":
		item.parts[at] = &checkedPart{opened: true}
	case "content_part.done":
		if part == nil || !part.textDone || part.closed {
			c.fault("content part %d ends before its text", at)
			return
		}
		part.closed, part.closedPart = true, ev["part"].(map[string]any)
		if text := str(part.closedPart, "text") + str(part.closedPart, "refusal"); text != part.text {
			c.fault("part %d has %q, its deltas %q", at, text, part.text)
		}
		if notes := list(part.closedPart, "annotations"); len(notes)+len(part.notes) > 0 && !reflect.DeepEqual(notes, part.notes) {
			c.fault("part %d has annotations %v, its events %v", at, notes, part.notes)
		}
	case "output_text.delta", "refusal.delta", "reasoning_text.delta":
		if part == nil {
			if name != "reasoning_text.delta" {
				c.fault("%s for a part that was not added", name)
			}
			part = &checkedPart{}
			item.parts[at] = part
		}
		if part.textDone {
			c.fault("%s after its done", name)
		}
		part.text += str(ev, "delta")
	case "output_text.done", "refusal.done", "reasoning_text.done":
		if text := str(ev, "text") + str(ev, "refusal"); part == nil || text != part.text {
			c.fault("%s has another text than its deltas: %q", name, text)
			return
		}
		part.textDone = true
	case "output_text.annotation.added":
		if part == nil || part.textDone || index(ev, "annotation_index") != len(part.notes) {
			c.fault("annotation out of place")
			return
		}
		part.notes = append(part.notes, ev["annotation"])
	case "function_call_arguments.delta":
		item.arguments += str(ev, "delta")
	case "function_call_arguments.done":
		if str(ev, "arguments") != item.arguments {
			c.fault("arguments %q, their deltas %q", str(ev, "arguments"), item.arguments)
		}
	case "compaction.compacting":
		if item.typ != "compaction" {
			c.fault("%s on a %s", name, item.typ)
		}
	case "output_item.done":
		c.itemDone(ev, item)
	default:
		c.shell(name, ev, item)
	}
}

func (c *streamChecker) shell(name string, ev map[string]any, item *checkedItem) {
	n := index(ev, "command_index")
	switch name {
	case "shell_call_command.added":
		if n != len(item.commands) {
			c.fault("command %d added out of order", n)
		}
		item.commands = append(item.commands, str(ev, "command"))
	case "shell_call_command.delta", "shell_call_command.done":
		if n >= len(item.commands) {
			c.fault("missing command at index %d", n)
			return
		}
		if name == "shell_call_command.delta" {
			item.commands[n] += str(ev, "delta")
		} else if item.closedCommands++; str(ev, "command") != item.commands[n] {
			c.fault("command %d is %q, its deltas %q", n, str(ev, "command"), item.commands[n])
		}
	case "shell_call_output_content.delta", "shell_call_output_content.done":
		call := c.callOf(item)
		if call == nil || n >= len(call.commands) {
			c.fault("missing command at index %d", n)
			return
		}
		if !call.done {
			c.fault("output before the shell_call was done")
		}
		if item.entries[n] != nil {
			c.fault("output of command %d after its done", n)
		}
		if name == "shell_call_output_content.delta" {
			d, ok := ev["delta"].(map[string]any)
			if !ok || str(d, "stdout")+str(d, "stderr") == "" {
				c.fault("an output delta that clients lose: %v", ev["delta"])
			}
			return
		}
		if len(list(ev, "output")) != 1 {
			c.fault("output done with %d entries", len(list(ev, "output")))
			return
		}
		item.entries[n] = list(ev, "output")[0]
	default:
		c.fault("%s on a %s", name, item.typ)
	}
}

func (c *streamChecker) itemDone(ev map[string]any, item *checkedItem) {
	final := ev["item"].(map[string]any)
	if str(final, "id") != item.id || str(final, "type") != item.typ || str(final, "call_id") != item.callID {
		c.fault("item %s changed its identity", item.id)
	}
	if s := final["status"]; s != "completed" && s != "incomplete" && item.typ != "reasoning" && item.typ != "compaction" {
		c.fault("%s done with status %v", item.typ, s)
	}
	c.shape(final)
	item.done, item.final = true, final
	switch item.typ {
	case "message":
		content := list(final, "content")
		for i, p := range item.parts {
			if p.opened && !p.closed {
				c.fault("message done with part %d open", i)
			} else if i >= len(content) || !reflect.DeepEqual(content[i], any(p.closedPart)) {
				c.fault("message part %d is not what its done event said", i)
			}
		}
	case "function_call":
		if str(final, "arguments") != item.arguments {
			c.fault("function_call has arguments %q, its deltas %q", str(final, "arguments"), item.arguments)
		}
	case "shell_call":
		action := final["action"].(map[string]any)
		if want := anys(item.commands); !reflect.DeepEqual(list(action, "commands"), want) || item.closedCommands != len(want) {
			c.fault("shell_call has commands %v, its events %v", list(action, "commands"), want)
		}
		if !reflect.DeepEqual(final["environment"], item.added["environment"]) {
			c.fault("shell_call moved from %v to %v", item.added["environment"], final["environment"])
		}
	case "shell_call_output":
		entries := list(final, "output")
		for n, e := range item.entries {
			if n >= len(entries) || !reflect.DeepEqual(entries[n], e) {
				c.fault("entry %d is not what its done event said", n)
			}
		}
		if call := c.callOf(item); call != nil && len(call.commands) > 0 && (len(entries) != len(call.commands) || len(item.entries) != len(entries)) {
			c.fault("%d entries and %d done events for %d commands", len(entries), len(item.entries), len(call.commands))
		}
	}
}

func index(ev map[string]any, key string) int {
	n, ok := ev[key].(float64)
	if !ok {
		return 0
	}
	return int(n)
}

func str(o map[string]any, key string) string { s, _ := o[key].(string); return s }

func list(o map[string]any, key string) []any { l, _ := o[key].([]any); return l }

func anys(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}
