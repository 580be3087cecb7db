package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// kind says what an input item of a type must have and how its id begins.
type kind struct {
	prefix string
	check  func(i openai.Item, param string) error
}

// kinds are the item types that input may hold. Everything else is refused, by name.
var kinds = map[string]kind{
	openai.TypeMessage:            {id.Message, checkMessage},
	openai.TypeReasoning:          {id.Reasoning, checkNothing},
	openai.TypeFunctionCall:       {id.FunctionCall, checkFunctionCall},
	openai.TypeFunctionCallOutput: {id.FunctionCallOutput, checkFunctionOutput},
	openai.TypeShellCall:          {id.ShellCall, checkShellCall},
	openai.TypeShellCallOutput:    {id.ShellCallOutput, checkShellOutput},
	openai.TypeCompaction:         {id.Compaction, checkNothing},
	openai.TypeCompactionTrigger:  {id.Compaction, checkNothing},

	openai.TypeApplyPatchCall:       {id.ApplyPatchCall, checkPatchCall},
	openai.TypeApplyPatchCallOutput: {id.ApplyPatchOutput, checkPatchOutput},

	// Of tools that an upstream runs. Whether this one does is for its provider to say.
	"web_search_call":       {"ws", checkNothing},
	"file_search_call":      {"fs", checkNothing},
	"image_generation_call": {"ig", checkNothing},
	"mcp_call":              {"mcp", checkNothing},
	"mcp_list_tools":        {"mcpl", checkNothing},
	"mcp_approval_request":  {"mcpr", checkNothing},
	"mcp_approval_response": {"mcpa", checkNothing},
}

// answers maps the type of an output item to the type of the call that it answers.
var answers = map[string]string{
	openai.TypeFunctionCallOutput:   openai.TypeFunctionCall,
	openai.TypeShellCallOutput:      openai.TypeShellCall,
	openai.TypeApplyPatchCallOutput: openai.TypeApplyPatchCall,
}

// readInput checks a request's items and returns them as they are stored: each with a type and an id, messages with
// their content as parts. history is the chain that they continue.
func readInput(in []openai.Item, history []openai.Item) ([]openai.Item, error) {
	out, err := readItems(in, "input")
	if err != nil {
		return nil, err
	}
	return out, checkPairs(history, out)
}

// readItems is readInput without a look at what belongs together. field is where the items stand in the request.
func readItems(in []openai.Item, field string) ([]openai.Item, error) {
	out := make([]openai.Item, 0, len(in))
	for i, item := range in {
		param := fmt.Sprintf("%s[%d]", field, i)
		k, ok := kinds[item.Type]
		switch {
		case item.Type == "":
			return nil, invalid(param+".type", "An input item needs a type, or a role to be a message.").
				WithCode("missing_required_parameter")
		case !ok:
			return nil, invalid(param+".type", "Input items of type %q can't be served here.", item.Type).
				WithCode("unsupported_item")
		}
		if err := k.check(item, param); err != nil {
			return nil, err
		}
		item, err := normal(item, k.prefix)
		if err != nil {
			return nil, invalid(param, "The %s item can't be read.", item.Type)
		}
		out = append(out, item)
	}
	return out, nil
}

var quote = []byte(`"`)

// normal gives an item what a stored one always has.
func normal(i openai.Item, prefix string) (openai.Item, error) {
	if m, ok := i.PlainMessage(); ok {
		if m.ID == "" {
			m.ID = id.New(prefix)
		}
		return openai.NewItem(m), nil
	}
	o, err := readKeys(i.Raw)
	if err != nil {
		return i, err
	}
	o.set("type", i.Type)
	if i.ID == "" {
		i.ID = id.New(prefix)
		o.set("id", i.ID)
	}
	var text string
	if content := o["content"]; i.Type == openai.TypeMessage && bytes.HasPrefix(content, quote) && json.Unmarshal(content, &text) == nil {
		part := openai.Part{Type: "input_text", Text: text}
		if i.Role == "assistant" {
			part.Type = "output_text"
		}
		o.set("content", []openai.Part{part})
	}
	i.Raw = o.raw()
	return i, nil
}

// checkPairs holds the rule that the upstream holds as well: every output answers a call, every call of the client's
// is answered before the model goes on.
func checkPairs(history, input []openai.Item) error {
	type call struct{ typ, callID string }
	open := map[call]int{} // calls without an output; -1 is the chain's
	known := map[call]bool{}
	see := func(i openai.Item, at int) error {
		switch i.Type {
		case openai.TypeFunctionCall, openai.TypeShellCall, openai.TypeApplyPatchCall:
			c := call{i.Type, i.CallID}
			known[c] = true
			if i.Status != openai.Incomplete && (i.Type != openai.TypeShellCall || ofClient(i)) {
				open[c] = at
			}
		case openai.TypeFunctionCallOutput, openai.TypeShellCallOutput, openai.TypeApplyPatchCallOutput:
			// Where the shell or apply_patch reaches a client as a function, its answer may come as either kind of output.
			c := call{answers[i.Type], i.CallID}
			for _, typ := range []string{openai.TypeShellCall, openai.TypeApplyPatchCall} {
				if !known[c] && i.Type == openai.TypeFunctionCallOutput && known[call{typ, i.CallID}] {
					c.typ = typ
				}
			}
			if !known[c] && at >= 0 {
				return invalid(fmt.Sprintf("input[%d].call_id", at),
					"No tool call found for %s with call_id %q.", i.Type, i.CallID)
			}
			delete(open, c)
		}
		return nil
	}
	for _, i := range history {
		if err := see(i, -1); err != nil {
			return err
		}
	}
	// A client may write an output before its call: order in one request means nothing to it.
	for n, i := range input {
		if i.Type == openai.TypeFunctionCall || i.Type == openai.TypeShellCall || i.Type == openai.TypeApplyPatchCall {
			if err := see(i, n); err != nil {
				return err
			}
		}
	}
	for n, i := range input {
		if answers[i.Type] != "" {
			if err := see(i, n); err != nil {
				return err
			}
		}
	}
	var missing []string
	for c := range open {
		missing = append(missing, strings.ReplaceAll(c.typ, "_", " ")+" "+c.callID)
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return invalid("input", "No tool output found for %s.", missing[0])
}

func checkNothing(openai.Item, string) error { return nil }

func checkFunctionCall(i openai.Item, param string) error {
	var c openai.FunctionCall
	if err := i.Decode(&c); err != nil {
		return invalid(param, "The function_call item can't be read.")
	}
	if c.CallID == "" || c.Name == "" {
		return invalid(param, "A function_call needs call_id, name and arguments.").
			WithCode("missing_required_parameter")
	}
	return nil
}

func checkFunctionOutput(i openai.Item, param string) error {
	var o openai.FunctionCallOutput
	if err := i.Decode(&o); err != nil {
		return invalid(param+".output", "The output of a function_call_output must be a string or a list of parts.")
	}
	var keys struct{ Output openai.Content }
	if err := i.Decode(&keys); err != nil {
		return invalid(param+".output", "The output of a function_call_output must be a string or a list of parts.")
	}
	for n, p := range keys.Output {
		if p.Type != "input_text" {
			return invalid(fmt.Sprintf("%s.output[%d].type", param, n),
				"Content of type %q can't be served in a function_call_output.", p.Type).WithTry("input_text")
		}
	}
	return needCallID(i, param)
}

func checkShellCall(i openai.Item, param string) error {
	var c openai.ShellCall
	if err := i.Decode(&c); err != nil {
		return invalid(param, "The shell_call item can't be read.")
	}
	return needCallID(i, param)
}

func checkShellOutput(i openai.Item, param string) error {
	var o openai.ShellCallOutput
	if err := i.Decode(&o); err != nil {
		return invalid(param, "The shell_call_output item can't be read.")
	}
	for n, e := range o.Output {
		if t := e.Outcome.Type; t != "exit" && t != "timeout" {
			return invalid(fmt.Sprintf("%s.output[%d].outcome", param, n), "An outcome's type must be exit or timeout.")
		}
	}
	return needCallID(i, param)
}

func needCallID(i openai.Item, param string) error {
	if i.CallID == "" {
		return invalid(param+".call_id", "A %s needs a call_id.", i.Type).WithCode("missing_required_parameter")
	}
	return nil
}

// partKinds are the content parts that a message may hold, by the side that wrote it.
var partKinds = map[string][]string{
	"user":      {"input_text", "input_image", "input_file", "output_text"},
	"system":    {"input_text", "output_text"},
	"developer": {"input_text", "output_text"},
	"assistant": {"output_text", "refusal", "input_text"},
}

func checkMessage(i openai.Item, param string) error {
	allowed, ok := partKinds[i.Role]
	if !ok {
		return invalid(param+".role", "A message's role must be user, assistant, system or developer; got %q.", i.Role)
	}
	var m openai.Message
	if err := i.Decode(&m); err != nil {
		return invalid(param+".content", "A message's content must be a string or a list of parts.")
	}
	if m.Content == nil {
		return invalid(param+".content", "A message needs content.").WithCode("missing_required_parameter")
	}
	for n, p := range m.Content {
		at := fmt.Sprintf("%s.content[%d]", param, n)
		if !slices.Contains(allowed, p.Type) {
			return invalid(at+".type", "Content of type %q can't be served in a message of role %s.", p.Type, i.Role)
		}
		if p.Type == "input_image" && p.ImageURL == "" {
			return invalid(at, "An input_image needs an image_url here; file_id is not served yet.").
				WithTry("a data URL in image_url")
		}
	}
	return nil
}
