// Package openai holds the JSON shapes of OpenAI's API as the official SDKs read and write them: Responses items,
// requests, objects and stream events, containers, lists, errors, and Chat Completions.
//
// Shapes only: nothing here decides, stores or sends. A conversation is a list of [Item], a stream is a sequence of
// [Event]. Fields that we do not know survive a round trip, because an Item keeps the bytes it came as.
package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Item is one entry of a conversation, kept as the JSON it came as. Type, ID, CallID, Role and Status are read out of
// it; to change an item decode it, change the typed value and make a new one with [NewItem].
type Item struct {
	Type   string
	ID     string
	CallID string
	Role   string
	Status string
	Raw    json.RawMessage
}

// The item types that this program makes or reads.
const (
	TypeMessage            = "message"
	TypeReasoning          = "reasoning"
	TypeFunctionCall       = "function_call"
	TypeFunctionCallOutput = "function_call_output"
	TypeShellCall          = "shell_call"
	TypeShellCallOutput    = "shell_call_output"
	TypeItemReference      = "item_reference"
	TypeCompaction         = "compaction"
)

// Item statuses.
const (
	InProgress = "in_progress"
	Completed  = "completed"
	Incomplete = "incomplete"
)

// UnmarshalJSON keeps the bytes and reads the header. A missing type means a message when there is a role, and a
// reference when there is only an id, as the SDKs send them.
func (i *Item) UnmarshalJSON(data []byte) error {
	h, ok := readHead(data)
	if !ok {
		var slow struct {
			Type   string `json:"type"`
			ID     string `json:"id"`
			CallID string `json:"call_id"`
			Role   string `json:"role"`
			Status string `json:"status"`
		}
		if err := json.Unmarshal(data, &slow); err != nil {
			return err
		}
		h = head{slow.Type, slow.ID, slow.CallID, slow.Role, slow.Status}
	}
	*i = Item{Type: h.typ, ID: h.id, CallID: h.callID, Role: h.role, Status: h.status, Raw: bytes.Clone(data)}
	switch {
	case i.Type != "":
	case i.Role != "":
		i.Type = TypeMessage
	case i.ID != "":
		i.Type = TypeItemReference
	}
	return nil
}

// MarshalJSON returns the bytes the item came as.
func (i Item) MarshalJSON() ([]byte, error) {
	if len(i.Raw) == 0 {
		return []byte("null"), nil
	}
	return i.Raw, nil
}

// Decode reads the item into one of the typed shapes below.
func (i Item) Decode(v any) error {
	if m, ok := v.(*Message); ok {
		if plain, ok := i.PlainMessage(); ok {
			*m = plain
			return nil
		}
	}
	if err := json.Unmarshal(i.Raw, v); err != nil {
		return fmt.Errorf("read %s item: %w", i.Type, err)
	}
	return nil
}

// NewItem makes an item of a typed shape. It panics if v cannot be marshalled, which no shape of this package does.
func NewItem(v any) Item {
	raw, err := Marshal(v)
	if err != nil {
		panic("openai.NewItem: " + err.Error())
	}
	switch v := v.(type) { // what is made for every answer needs no reading back
	case Message:
		if v.Type != "" {
			return Item{Type: v.Type, ID: v.ID, Role: v.Role, Status: v.Status, Raw: raw}
		}
	case FunctionCall:
		if v.Type != "" {
			return Item{Type: v.Type, ID: v.ID, CallID: v.CallID, Status: v.Status, Raw: raw}
		}
	}
	var i Item
	if err := i.UnmarshalJSON(raw); err != nil {
		panic("openai.NewItem: " + err.Error())
	}
	return i
}

// Marshal is json.Marshal without HTML escaping: "<" stays "<", as the vendor sends it.
func Marshal(v any) ([]byte, error) {
	switch v.(type) {
	case Response, *Response:
		return AppendJSON(make([]byte, 0, 2<<10), v)
	}
	return AppendJSON(nil, v)
}

// AppendJSON appends what Marshal returns.
func AppendJSON(to []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case Message:
		return v.append(to)
	case Response:
		return v.append(to)
	case *Response:
		if v != nil {
			return v.append(to)
		}
	}
	b := bytes.NewBuffer(to)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Message is a turn of a person, the system or the model.
type Message struct {
	Type    string  `json:"type"` // "message"
	ID      string  `json:"id,omitempty"`
	Role    string  `json:"role"` // user | assistant | system | developer
	Status  string  `json:"status,omitempty"`
	Phase   string  `json:"phase,omitempty"` // commentary | final_answer
	Content Content `json:"content"`
}

// Content is a message's parts. A plain string on the wire reads as one input_text part (output_text for the
// assistant is told apart by the message's role, which the reader has).
type Content []Part

var onePart, onePartEnd = []byte(`[{"type":"input_text","text":`), []byte(`}]`)

// UnmarshalJSON accepts a string or a list of parts.
func (c *Content) UnmarshalJSON(data []byte) error {
	var text string
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*c = Content{{Type: "input_text", Text: text}}
		return nil
	}
	if text, ok := bytes.CutPrefix(data, onePart); ok { // as UserText writes it
		if text, ok = bytes.CutSuffix(text, onePartEnd); ok {
			if s, ok := unquote(text); ok { // else there is more than one text in it
				*c = Content{{Type: "input_text", Text: s}}
				return nil
			}
		}
	}
	var parts []Part
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	*c = parts
	return nil
}

// Text joins the text of all parts, in order.
func (c Content) Text() string {
	var b bytes.Buffer
	for _, p := range c {
		b.WriteString(p.Text)
		b.WriteString(p.Refusal)
	}
	return b.String()
}

// Part is one piece of a message's content. Which fields matter depends on Type: input_text, output_text, refusal,
// input_image, input_file, summary_text, reasoning_text.
type Part struct {
	Type        string       `json:"type"`
	Text        string       `json:"-"`
	Refusal     string       `json:"-"`
	Annotations []Annotation `json:"-"`
	Detail      string       `json:"-"`
	ImageURL    string       `json:"-"`
	FileID      string       `json:"-"`
	FileURL     string       `json:"-"`
	FileData    string       `json:"-"` // a data URL or plain base64
	Filename    string       `json:"-"`
}

type partJSON struct {
	Type        string        `json:"type"`
	Text        *string       `json:"text,omitempty"`
	Refusal     *string       `json:"refusal,omitempty"`
	Annotations *[]Annotation `json:"annotations,omitempty"`
	Detail      string        `json:"detail,omitempty"`
	ImageURL    string        `json:"image_url,omitempty"`
	FileID      string        `json:"file_id,omitempty"`
	FileURL     string        `json:"file_url,omitempty"`
	FileData    string        `json:"file_data,omitempty"`
	Filename    string        `json:"filename,omitempty"`
}

// MarshalJSON writes the keys that the part's type demands, empty or not: output_text always has text and annotations.
func (p Part) MarshalJSON() ([]byte, error) {
	j := partJSON{Type: p.Type, Detail: p.Detail, ImageURL: p.ImageURL, FileID: p.FileID, FileURL: p.FileURL,
		FileData: p.FileData, Filename: p.Filename}
	switch p.Type {
	case "output_text":
		notes := p.Annotations
		if notes == nil {
			notes = []Annotation{}
		}
		j.Text, j.Annotations = &p.Text, &notes
	case "refusal":
		j.Refusal = &p.Refusal
	case "input_text", "summary_text", "reasoning_text":
		j.Text = &p.Text
	default:
		if p.Text != "" {
			j.Text = &p.Text
		}
	}
	return Marshal(j)
}

// UnmarshalJSON reads any part; keys that this package does not name are dropped (the Item that holds the part
// still has them).
func (p *Part) UnmarshalJSON(data []byte) error {
	var j partJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*p = Part{Type: j.Type, Detail: j.Detail, ImageURL: j.ImageURL, FileID: j.FileID, FileURL: j.FileURL,
		FileData: j.FileData, Filename: j.Filename}
	if j.Text != nil {
		p.Text = *j.Text
	}
	if j.Refusal != nil {
		p.Refusal = *j.Refusal
	}
	if j.Annotations != nil {
		p.Annotations = *j.Annotations
	}
	return nil
}

// Annotation is a container_file_citation: a file that the answer names. Indexes count characters (Unicode code
// points) of the part's text; both are 0 when the text does not name the file.
type Annotation struct {
	Type        string `json:"type"` // "container_file_citation"
	ContainerID string `json:"container_id"`
	FileID      string `json:"file_id"`
	Filename    string `json:"filename"`
	StartIndex  int    `json:"start_index"`
	EndIndex    int    `json:"end_index"`

	Raw json.RawMessage `json:"-"` // of another type of annotation: all of it, as it came
}

// MarshalJSON returns the bytes that the annotation came as, or the fields when it was made here.
func (a Annotation) MarshalJSON() ([]byte, error) {
	if len(a.Raw) > 0 {
		return a.Raw, nil
	}
	type fields Annotation
	return Marshal(fields(a))
}

// UnmarshalJSON reads any annotation; what is no container_file_citation is kept as it came.
func (a *Annotation) UnmarshalJSON(data []byte) error {
	type fields Annotation
	if err := json.Unmarshal(data, (*fields)(a)); err != nil {
		return err
	}
	if a.Raw = nil; a.Type != "container_file_citation" {
		a.Raw = bytes.Clone(data)
	}
	return nil
}

// FunctionCall is the model's call of a function tool. Arguments is JSON text, as the model wrote it.
type FunctionCall struct {
	Type      string `json:"type"` // "function_call"
	ID        string `json:"id,omitempty"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Status    string `json:"status,omitempty"`
}

// FunctionCallOutput answers a FunctionCall. Output is a string or a list of input parts.
type FunctionCallOutput struct {
	Type   string     `json:"type"` // "function_call_output"
	ID     string     `json:"id,omitempty"`
	CallID string     `json:"call_id"`
	Output OutputText `json:"output"`
	Status string     `json:"status,omitempty"`
}

// OutputText is a function's result: a string on the wire, or parts whose texts are joined when read.
type OutputText string

// UnmarshalJSON accepts a string or a list of parts.
func (o *OutputText) UnmarshalJSON(data []byte) error {
	var c Content
	if err := c.UnmarshalJSON(data); err != nil {
		return err
	}
	*o = OutputText(c.Text())
	return nil
}

// Reasoning is the model's own thinking, opaque to us.
type Reasoning struct {
	Type             string `json:"type"` // "reasoning"
	ID               string `json:"id"`
	Summary          []Part `json:"summary"`
	Content          []Part `json:"content,omitempty"`
	EncryptedContent string `json:"encrypted_content,omitempty"`
	Status           string `json:"status,omitempty"`
}

// ShellCall is the model's call of the shell. Every key of it and of its action is always written.
type ShellCall struct {
	Type        string           `json:"type"` // "shell_call"
	ID          string           `json:"id"`
	CallID      string           `json:"call_id"`
	Status      string           `json:"status"`
	Action      ShellAction      `json:"action"`
	Environment *ItemEnvironment `json:"environment"`
	CreatedBy   string           `json:"created_by,omitempty"`
	Approval    *ItemApproval    `json:"approval,omitempty"` // ours: what a person is or was asked about it
}

// ItemApproval is a question about a call and where it stands: pending, approved, denied, expired or cancelled.
type ItemApproval struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// ShellAction is what to run. TimeoutMS and MaxOutputLength are null when the model set none.
type ShellAction struct {
	Commands        []string `json:"commands"`
	TimeoutMS       *int64   `json:"timeout_ms"`
	MaxOutputLength *int64   `json:"max_output_length"`

	// Extensions of the Hadrian seed, written where the model set them.
	WorkingDirectory string            `json:"working_directory,omitempty"`
	Env              map[string]string `json:"env,omitempty"`
	Stdin            string            `json:"stdin,omitempty"`

	Restart bool `json:"restart,omitempty"` // of a bash: in a fresh container
}

// ItemEnvironment is where a call ran: {type: container_reference, container_id} or {type: local}.
type ItemEnvironment struct {
	Type        string `json:"type"`
	ContainerID string `json:"container_id,omitempty"`
}

// ShellCallOutput is what the commands of a call printed, one entry a command, in command order.
type ShellCallOutput struct {
	Type            string        `json:"type"` // "shell_call_output"
	ID              string        `json:"id"`
	CallID          string        `json:"call_id"`
	Status          string        `json:"status"`
	MaxOutputLength *int64        `json:"max_output_length"`
	Output          []ShellOutput `json:"output"`
	OutputFiles     []OutputFile  `json:"output_files,omitempty"` // an extension of the Hadrian seed
	CreatedBy       string        `json:"created_by,omitempty"`
}

// ShellOutput is one command's result. Stdout and Stderr are the bounded view that the model sees.
type ShellOutput struct {
	Stdout    string   `json:"stdout"`
	Stderr    string   `json:"stderr"`
	Outcome   Outcome  `json:"outcome"`
	Receipt   *Receipt `json:"receipt,omitempty"` // an extension of ours
	CreatedBy string   `json:"created_by,omitempty"`
}

// Outcome is how a command ended. ExitCode is written for an exit only.
type Outcome struct {
	Type     string `json:"type"` // "exit" | "timeout"
	ExitCode *int   `json:"exit_code,omitempty"`
}

// Exit returns the outcome of a command that ended by itself or by a signal (128+n).
func Exit(code int) Outcome { return Outcome{Type: "exit", ExitCode: &code} }

// Timeout returns the outcome of a command that its time limit ended.
func Timeout() Outcome { return Outcome{Type: "timeout"} }

// Receipt is the account of one command: what was asked, what was got, what it cost. Byte counts are of the whole
// streams, before any trimming.
type Receipt struct {
	DurationMS  int64    `json:"duration_ms"`
	TimeoutMS   int64    `json:"timeout_ms"` // the limit that was applied
	Rung        string   `json:"rung"`       // jail | restricted | none
	Missing     []string `json:"missing,omitempty"`
	StdoutBytes int64    `json:"stdout_bytes"`
	StderrBytes int64    `json:"stderr_bytes"`
	StdoutLost  int64    `json:"stdout_lost,omitempty"` // the last ones of stdout_bytes, which a full disk did not take
	StderrLost  int64    `json:"stderr_lost,omitempty"`
	// Bytes of a stream that were no UTF-8 and stand as U+FFFD in the text.
	StdoutReplaced int64 `json:"stdout_replaced,omitempty"`
	StderrReplaced int64 `json:"stderr_replaced,omitempty"`
	// OutputPath is where later commands of the container can read the whole streams of one that was cut: a read-only folder
	// with stdout and stderr.
	OutputPath string `json:"output_path,omitempty"`

	// Restarted says that the container lost every process of earlier commands before this one; its files are there.
	Restarted bool `json:"restarted,omitempty"`

	Signal string `json:"signal,omitempty"`
	Reason string `json:"reason,omitempty"` // timed_out | cancelled | memory_limit | disk_limit | disk_full | process_limit | not_started | interrupted | output_lost | denied
	// Blocked is what the network policy let the container's commands not reach meanwhile, with what would allow it.
	Blocked []string `json:"blocked,omitempty"`
}

// OutputFile is a workspace file that a call wrote.
type OutputFile struct {
	ContainerID string `json:"container_id"`
	FileID      string `json:"file_id"`
	Filename    string `json:"filename"`
	Path        string `json:"path"` // absolute, under /mnt/data
	Bytes       int64  `json:"bytes"`
	ContentType string `json:"content_type,omitempty"`
	Source      string `json:"source"` // "assistant" | "user"
}
