package openai

// The item types of apply_patch, and its tool's.
const (
	ToolApplyPatch           = "apply_patch"
	TypeApplyPatchCall       = "apply_patch_call"
	TypeApplyPatchCallOutput = "apply_patch_call_output"
)

// What a patch does to its file.
const (
	CreateFile = "create_file"
	UpdateFile = "update_file"
	DeleteFile = "delete_file"
)

// ApplyPatchCall is the model's wish to change one file. The client does it.
type ApplyPatchCall struct {
	Type      string         `json:"type"` // "apply_patch_call"
	ID        string         `json:"id,omitempty"`
	CallID    string         `json:"call_id"`
	Status    string         `json:"status"` // in_progress | completed
	Operation PatchOperation `json:"operation"`
}

// PatchOperation is the change: Diff, in the form V4A, is nil for a file that is deleted.
type PatchOperation struct {
	Type string  `json:"type"`
	Path string  `json:"path"`
	Diff *string `json:"diff,omitempty"`
}

// ApplyPatchCallOutput says what became of an ApplyPatchCall.
type ApplyPatchCallOutput struct {
	Type   string `json:"type"` // "apply_patch_call_output"
	ID     string `json:"id,omitempty"`
	CallID string `json:"call_id"`
	Status string `json:"status"` // completed | failed
	Output string `json:"output,omitempty"`
}

// PatchArguments are the arguments of apply_patch where it is a function.
type PatchArguments struct {
	Operation PatchOperation `json:"operation"`
}

// PatchResult is the answer to it where it is a function.
type PatchResult struct {
	Status string `json:"status"`
	Output string `json:"output,omitempty"`
}
