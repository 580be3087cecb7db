package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// The tool apply_patch is always the client's to run: it gets an apply_patch_call, the response ends, and its
// apply_patch_call_output (or function_call_output) continues. A provider whose models know the tool gets it as theirs;
// any other gets a function, whose calls become the same items.

// patchChoice stands for apply_patch in a choice. No function can have this name.
const patchChoice = "\x00apply_patch"

// patchSchema is the schema of the function's arguments: the vendor's operation.
const patchSchema = `{"type":"object","properties":{"operation":{"type":"object","properties":{` +
	`"type":{"type":"string","enum":["create_file","update_file","delete_file"],"description":"What to do with the file."},` +
	`"path":{"type":"string","description":"The file, relative to the root of the project."},` +
	`"diff":{"type":"string","description":"For create_file and update_file: the change, as a V4A diff of this one file."}},` +
	`"required":["type","path"],"additionalProperties":false}},"required":["operation"],"additionalProperties":false}`

const patchDescription = `Changes one file of the user's project: creates it, updates it or deletes it. The user may be asked first and may refuse. The result has a status, completed or failed, and an output that says why.
- One operation on one file a call; make a call for each file. The operation is {"type":"create_file","path":…,"diff":…}, {"type":"update_file","path":…,"diff":…} or {"type":"delete_file","path":…}.
- The diff of create_file is the whole file, each line begun with +.
- The diff of update_file is a list of hunks. A hunk begins with a line @@, behind which may stand a line of the file, such as the head of the function, below which the hunk is to be sought. Each of its lines begins with a space (it is there and stays), - (it is there and goes) or + (it is new). Give three lines that stay above and below a change, exactly as they are in the file. There are no line numbers and no file headers. A hunk at the end of the file may close with *** End of File.
- delete_file has no diff.`

// patchFunction declares apply_patch as a function.
func patchFunction(taken map[string]bool) *openai.Tool {
	return &openai.Tool{Type: "function", Name: patchName(taken), Description: patchDescription, Parameters: json.RawMessage(patchSchema)}
}

// patchName is what the function is called: apply_patch, unless the client has a function of that name.
func patchName(taken map[string]bool) string {
	name := openai.ToolApplyPatch
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s_%d", openai.ToolApplyPatch, n)
	}
	return name
}

// patchName is the name of our function for apply_patch, also for a history with its calls in a turn without it.
func (p *plan) patchName() string {
	if p.patch != nil {
		return p.patch.Name
	}
	return patchName(p.names)
}

// countPatches refuses a second apply_patch.
func countPatches(tools []openai.Tool) error {
	found := false
	for i, t := range tools {
		if t.Type != openai.ToolApplyPatch {
			continue
		}
		if found {
			return invalid(fmt.Sprintf("tools[%d]", i), "Only one apply_patch tool is allowed in a request.")
		}
		found = true
	}
	return nil
}

// readPatch reads the arguments of a call. An error is a sentence for the model, which may repair its call. Models that
// know the operation by heart may leave out the object around it.
func readPatch(raw string) (openai.PatchOperation, error) {
	var a struct {
		Operation *openai.PatchOperation `json:"operation"`
		openai.PatchOperation
	}
	if err := json.Unmarshal([]byte(raw), &a); err != nil {
		return openai.PatchOperation{}, fmt.Errorf("the arguments are not a JSON object of this function's schema (%s)", plain(err))
	}
	op := a.PatchOperation
	if a.Operation != nil {
		op = *a.Operation
	}
	return op, checkPatch(op)
}

// checkPatch says what is wrong with an operation in itself. Whether its diff fits the file, who has the file knows.
func checkPatch(op openai.PatchOperation) error {
	switch op.Type {
	case openai.CreateFile, openai.UpdateFile, openai.DeleteFile:
	case "":
		return errors.New(`"operation" needs a "type": create_file, update_file or delete_file`)
	default:
		return fmt.Errorf(`the operation's "type" must be create_file, update_file or delete_file, not %q`, shorten(op.Type, maxCommandEcho))
	}
	switch {
	case op.Path == "":
		return errors.New(`"operation" needs a "path"`)
	case strings.ContainsRune(op.Path, 0):
		return errors.New(`the operation's "path" holds a NUL character`)
	case op.Type == openai.DeleteFile && op.Diff != nil && *op.Diff != "":
		return errors.New("delete_file has no diff")
	case op.Type == openai.CreateFile && op.Diff == nil, op.Type == openai.UpdateFile && (op.Diff == nil || *op.Diff == ""):
		return fmt.Errorf(`%s needs a "diff"`, op.Type)
	}
	return nil
}

// patch shows the client a call that it is to run, now that all of it is there. One that is wrong it never sees: the
// model is told. It is shown in one piece, as a client that saw half of a diff could do nothing with it.
func (t *turn) patch(n *entry, arguments string, whole bool) {
	op, err := readPatch(arguments)
	switch {
	case !whole:
		n.fate, n.why = refused, public(errNotComplete)
		return
	case err != nil:
		n.fate, n.why = refused, fmt.Sprintf("%s; got: %s", err, shorten(arguments, maxCommandEcho))
		return
	}
	if op.Type == openai.DeleteFile {
		op.Diff = nil
	}
	t.release(nil)
	n.id = id.New(id.ApplyPatchCall)
	call := openai.ApplyPatchCall{Type: openai.TypeApplyPatchCall, ID: n.id, CallID: n.callID, Status: openai.InProgress, Operation: op}
	n.index = t.loop.wire.open(openai.NewItem(call))
	call.Status = openai.Completed
	n.item = openai.NewItem(call)
	t.loop.wire.emit(openai.NewItemEvent(openai.EventItemDone, n.index, n.item))
}

// clientsAnswers is a conversation whose apply_patch items are calls of the function of that name and their outputs, and
// in which what a client says of its calls is cut to what the model reads of it.
func clientsAnswers(items []openai.Item, name string, most int) ([]openai.Item, error) {
	if !slices.ContainsFunc(items, func(i openai.Item) bool { return isPatch(i) || i.Type == openai.TypeShellCall }) {
		return items, nil
	}
	if most <= 0 {
		most = lastView
	}
	answered, shell := map[string]bool{}, map[string]*int64{} // what the client's calls of the shell ask for
	for _, i := range items {
		if answers[i.Type] != "" {
			answered[i.CallID] = true
		}
		var c openai.ShellCall
		if i.Type == openai.TypeShellCall && i.Decode(&c) == nil && (c.Environment == nil || c.Environment.Type == envLocal) {
			shell[i.CallID] = c.Action.MaxOutputLength
		}
	}
	out := make([]openai.Item, 0, len(items))
	for _, i := range items {
		switch i.Type {
		case openai.TypeApplyPatchCall:
			var c openai.ApplyPatchCall
			if err := i.Decode(&c); err != nil {
				return nil, err
			}
			arguments, err := openai.Marshal(openai.PatchArguments{Operation: c.Operation})
			if err != nil {
				return nil, fmt.Errorf("write apply_patch call: %w", err)
			}
			out = append(out, openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, ID: c.ID, CallID: c.CallID, Name: name,
				Arguments: string(arguments), Status: openai.Completed}))
			if !answered[c.CallID] {
				out = append(out, functionOutput(c.CallID, errorText("This call was broken off; whether it was done is unknown.")))
			}
		case openai.TypeApplyPatchCallOutput:
			var o openai.ApplyPatchCallOutput
			if err := i.Decode(&o); err != nil {
				return nil, err
			}
			text, err := openai.Marshal(openai.PatchResult{Status: o.Status, Output: fitted(o.Output, most)})
			if err != nil {
				return nil, fmt.Errorf("write apply_patch output: %w", err)
			}
			out = append(out, functionOutput(o.CallID, string(text)))
		case openai.TypeFunctionCallOutput: // may answer a call of the shell
			var o openai.FunctionCallOutput
			if err := i.Decode(&o); err != nil {
				return nil, err
			}
			asked, ok := shell[o.CallID]
			if cut := fitted(string(o.Output), fit(shellOutput{ShellCallOutput: openai.ShellCallOutput{MaxOutputLength: asked}}, most)); ok && len(cut) < len(o.Output) {
				i = functionOutput(o.CallID, cut)
			}
			out = append(out, i)
		case openai.TypeShellCallOutput: // a client may leave out what its call asked for
			var o openai.ShellCallOutput
			if asked := shell[i.CallID]; asked != nil && i.Decode(&o) == nil && o.MaxOutputLength == nil {
				filled, err := withKeys(i, map[string]any{"max_output_length": *asked})
				if err != nil {
					return nil, err
				}
				i = filled
			}
			out = append(out, i)
		default:
			out = append(out, i)
		}
	}
	return out, nil
}

func isPatch(i openai.Item) bool {
	return i.Type == openai.TypeApplyPatchCall || i.Type == openai.TypeApplyPatchCallOutput
}

func checkPatchCall(i openai.Item, param string) error {
	var c openai.ApplyPatchCall
	if err := i.Decode(&c); err != nil {
		return invalid(param, "The apply_patch_call item can't be read.")
	}
	if err := checkPatch(c.Operation); err != nil {
		return invalid(param+".operation", "The apply_patch_call can't be taken: %s.", err)
	}
	return needCallID(i, param)
}

func checkPatchOutput(i openai.Item, param string) error {
	var o openai.ApplyPatchCallOutput
	if err := i.Decode(&o); err != nil {
		return invalid(param, "The apply_patch_call_output item can't be read.")
	}
	if o.Status != openai.Completed && o.Status != openai.Failed {
		return invalid(param+".status", "The status of an apply_patch_call_output must be completed or failed.")
	}
	return needCallID(i, param)
}

// patchFate decides what becomes of a call of apply_patch.
func (l *loop) patchFate(last bool) (fate, string) {
	p := l.plan
	switch limit := p.request.MaxToolCalls; {
	case last:
		return refused, "No more files can be changed for this request. Answer now with what you have."
	case limit != nil && int64(l.calls) >= *limit:
		return refused, "The request allows no more tool calls. Answer now with what you have."
	case p.choice.mode == "none" || !p.choice.permits(patchChoice):
		return refused, "The request does not allow calls of this function."
	}
	return patchCall, ""
}
