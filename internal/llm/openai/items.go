package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// conversation translates the items of a request.
type conversation struct {
	dialect Dialect
	shell   string // the name of our function for the shell
	patch   string // and of that for apply_patch
	native  natives
	hosted  *llm.Hosted

	out     []json.RawMessage
	thought []json.RawMessage           // reasoning that goes before the next item of the model's
	shells  map[string]wire.ShellAction // by call id, of the calls that became a shell_call
	patches map[string]bool             // and of those that became an apply_patch_call
}

// translate rewrites items to what the upstream takes: without ids of ours, each call with its answer.
func (c *conversation) translate(items []wire.Item) ([]json.RawMessage, error) {
	outputs, err := dialect.Pair(items)
	if err != nil {
		return nil, err
	}
	c.out, c.shells, c.patches = make([]json.RawMessage, 0, len(items)), map[string]wire.ShellAction{}, map[string]bool{}
	for i, item := range items {
		if err := c.item(item, fmt.Sprintf("input[%d]", i)); err != nil {
			return nil, err
		}
		if _, answered := outputs[item.CallID]; item.Type == wire.TypeFunctionCall && !answered {
			if err := c.answer(wire.NewItem(wire.FunctionCallOutput{Type: wire.TypeFunctionCallOutput, CallID: item.CallID,
				Output: dialect.NoOutput}), ""); err != nil {
				return nil, err
			}
		}
	}
	return c.out, nil
}

// add adds an item. Reasoning stands before what it led to; the API refuses reasoning that nothing follows.
func (c *conversation) add(model bool, v any) error {
	if model {
		c.out = append(c.out, c.thought...)
	}
	c.thought = nil
	raw, err := dialect.Encode(v)
	if err == nil {
		c.out = append(c.out, raw)
	}
	return err
}

func (c *conversation) item(item wire.Item, at string) error {
	switch item.Type {
	case wire.TypeMessage:
		return c.message(item, at)
	case wire.TypeFunctionCall:
		return c.call(item, at)
	case wire.TypeFunctionCallOutput:
		return c.answer(item, at)
	case wire.TypeReasoning:
		blocks, err := c.dialect.seal().OpenItem(item)
		if err != nil {
			return dialect.Malformed(at, item.Type, err)
		}
		for _, b := range blocks { // a client may have made the seal: nothing else gets into the conversation this way
			var i wire.Item
			if json.Unmarshal(b, &i) == nil && i.Type == wire.TypeReasoning && i.ID == "" {
				c.thought = append(c.thought, b)
			}
		}
		return nil
	case wire.TypeCompaction: // the vendor's own, as it was taken out of ours
		var own wire.Compaction
		if err := item.Decode(&own); err != nil {
			return dialect.Malformed(at, item.Type, err)
		}
		return c.add(true, wire.Compaction{Type: wire.TypeCompaction, EncryptedContent: own.EncryptedContent})
	case "web_search_call", "file_search_call", "image_generation_call", "mcp_call", "mcp_list_tools", "mcp_approval_request",
		"mcp_approval_response":
		return c.add(item.Type != "mcp_approval_response", item)
	}
	return dialect.RefuseItem(item, at, c.dialect.Provider)
}

// message passes a message on, with what of its content we don't know.
func (c *conversation) message(item wire.Item, at string) error {
	if m, ok := item.PlainMessage(); ok && m.Role == "user" {
		m.ID, m.Status = "", ""
		return c.add(false, m)
	}
	var m struct {
		Type    string            `json:"type"`
		Role    string            `json:"role"`
		Phase   string            `json:"phase,omitempty"`
		Content []json.RawMessage `json:"content"`
	}
	keys := map[string]json.RawMessage{}
	if err := item.Decode(&keys); err != nil {
		return dialect.Malformed(at, item.Type, err)
	}
	read, err := dialect.ReadMessage(item, at)
	if err != nil {
		return err
	}
	m.Type, m.Role = wire.TypeMessage, read.Role
	_ = json.Unmarshal(keys["phase"], &m.Phase) // a phase that is no word is none
	if len(keys["content"]) > 0 && keys["content"][0] == '"' {
		return c.add(m.Role == "assistant", struct {
			Type    string          `json:"type"`
			Role    string          `json:"role"`
			Phase   string          `json:"phase,omitempty"`
			Content json.RawMessage `json:"content"`
		}{m.Type, m.Role, m.Phase, keys["content"]})
	}
	var parts []map[string]json.RawMessage
	if err := json.Unmarshal(keys["content"], &parts); err != nil {
		return dialect.Malformed(at, item.Type, err)
	}
	for i, p := range parts {
		if err := c.part(p, read.Content[i], m.Role, fmt.Sprintf("%s.content[%d]", at, i)); err != nil {
			return err
		}
		raw, err := dialect.Encode(p)
		if err != nil {
			return err
		}
		m.Content = append(m.Content, raw)
	}
	if len(m.Content) == 0 {
		return nil // an empty message is refused, and says nothing
	}
	return c.add(m.Role == "assistant", m)
}

// part makes a part of content fit to be sent: file ids and notes of ours mean nothing upstream.
func (c *conversation) part(keys map[string]json.RawMessage, p dialect.Part, role, at string) error {
	delete(keys, "cache_control")
	switch p.Type {
	case "input_text", "output_text", "text":
		typ := `"input_text"`
		if role == "assistant" {
			typ = `"output_text"`
		}
		keys["type"] = json.RawMessage(typ)
		if role == "assistant" {
			keys["annotations"] = json.RawMessage("[]")
			delete(keys, "logprobs")
		}
	case "refusal":
	case "input_image", "input_file":
		if p.FileID != "" {
			return dialect.Unserved(at+".file_id", c.dialect.Provider, "an %s by file_id", p.Type)
		}
	default:
		return dialect.Unserved(at+".type", c.dialect.Provider, "a content part of type %q", p.Type)
	}
	return nil
}

// call passes a call on: one of our shell as the vendor's, where that can say all of it.
func (c *conversation) call(item wire.Item, at string) error {
	f, err := dialect.ReadCall(item, at)
	if err != nil {
		return err
	}
	if c.native.patch && f.Name == c.patch && f.Wrong == "" {
		if operation, ok := nativeOperation(f.Input); ok {
			c.patches[f.CallID] = true
			return c.add(true, wire.ApplyPatchCall{Type: wire.TypeApplyPatchCall, CallID: f.CallID, Status: wire.Completed, Operation: operation})
		}
	}
	if c.native.shell && f.Name == c.shell && f.Wrong == "" {
		if action, ok := nativeAction(f.Input); ok {
			c.shells[f.CallID] = action
			return c.add(true, struct {
				Type        string                `json:"type"`
				CallID      string                `json:"call_id"`
				Action      wire.ShellAction      `json:"action"`
				Environment *wire.ItemEnvironment `json:"environment,omitempty"`
				Status      string                `json:"status"`
			}{wire.TypeShellCall, f.CallID, action, whereHosted(c.hosted), wire.Completed})
		}
	}
	arguments := f.Arguments
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	return c.add(true, wire.FunctionCall{Type: wire.TypeFunctionCall, CallID: f.CallID, Name: f.Name, Arguments: arguments})
}

// answer passes a call's answer on, in the shape of its call.
func (c *conversation) answer(item wire.Item, at string) error {
	if c.patches[item.CallID] {
		var out struct {
			Output wire.OutputText `json:"output"`
		}
		if err := item.Decode(&out); err != nil {
			return dialect.Malformed(at, item.Type, err)
		}
		r := nativeResult(string(out.Output))
		return c.add(false, wire.ApplyPatchCallOutput{Type: wire.TypeApplyPatchCallOutput, CallID: item.CallID, Status: r.Status, Output: r.Output})
	}
	action, shell := c.shells[item.CallID]
	if !shell {
		keys := map[string]json.RawMessage{}
		if err := item.Decode(&keys); err != nil {
			return dialect.Malformed(at, item.Type, err)
		}
		for _, key := range []string{"id", "status", "cache_control"} {
			delete(keys, key)
		}
		return c.add(false, keys)
	}
	var out struct {
		Output wire.OutputText `json:"output"`
	}
	if err := item.Decode(&out); err != nil {
		return dialect.Malformed(at, item.Type, err)
	}
	return c.add(false, struct {
		Type            string        `json:"type"`
		CallID          string        `json:"call_id"`
		Output          []nativeEntry `json:"output"`
		MaxOutputLength *int64        `json:"max_output_length,omitempty"` // the API wants it again
		Status          string        `json:"status"`
	}{wire.TypeShellCallOutput, item.CallID, nativeOutput(string(out.Output), len(action.Commands)), action.MaxOutputLength, wire.Completed})
}
