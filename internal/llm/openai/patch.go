package openai

import (
	"bytes"
	"encoding/json"

	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// nativeOperation reads our function's arguments as the vendor's operation; false where they are none.
func nativeOperation(arguments json.RawMessage) (wire.PatchOperation, bool) {
	var a wire.PatchArguments
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	if d.Decode(&a) != nil || a.Operation.Path == "" {
		return wire.PatchOperation{}, false
	}
	switch a.Operation.Type {
	case wire.CreateFile, wire.UpdateFile:
		return a.Operation, a.Operation.Diff != nil
	case wire.DeleteFile:
		return a.Operation, a.Operation.Diff == nil
	}
	return wire.PatchOperation{}, false
}

// patchArguments are the arguments of our function for the vendor's operation.
func patchArguments(o wire.PatchOperation) string {
	raw, err := wire.Marshal(wire.PatchArguments{Operation: o})
	if err != nil { // strings always marshal
		return "{}"
	}
	return string(raw)
}

// nativeResult reads the text that the model is given for a call. A text of another form is the output of a call that was
// done; one that says why a call was not is that of one that failed.
func nativeResult(text string) wire.PatchResult {
	var r struct {
		wire.PatchResult
		Error string `json:"error"`
	}
	switch err := json.Unmarshal([]byte(text), &r); {
	case err == nil && (r.Status == wire.Completed || r.Status == wire.Failed):
		return r.PatchResult
	case err == nil && r.Error != "":
		return wire.PatchResult{Status: wire.Failed, Output: r.Error}
	}
	return wire.PatchResult{Status: wire.Completed, Output: text}
}
