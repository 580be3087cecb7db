// Package anthropic holds the JSON shapes of Anthropic's Messages API as the official SDKs read and write them, under
// both versions of the API: requests, content blocks, messages, stream events, errors, models and token counts.
//
// Shapes only: nothing here decides, stores or sends, and nothing turns them into another vendor's. A block keeps the
// bytes it came as, and a request keeps the fields that it does not know, so that what is new to us survives a round
// trip.
package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Block is one content block, kept as the JSON it came as. Type, ID, ToolUseID and Name are read out of it; to change
// a block decode it, change the typed value and make a new one with [NewBlock].
type Block struct {
	Type      string
	ID        string // of tool_use and server_tool_use
	ToolUseID string // of results
	Name      string // of tool_use and server_tool_use
	Raw       json.RawMessage
}

// The block types that this program makes or reads. A result of a server's tool ends with [ResultSuffix].
const (
	TypeText             = "text"
	TypeImage            = "image"
	TypeDocument         = "document"
	TypeThinking         = "thinking"
	TypeRedactedThinking = "redacted_thinking"
	TypeToolUse          = "tool_use"
	TypeToolResult       = "tool_result"
	TypeServerToolUse    = "server_tool_use"
	TypeBashResult       = "bash_code_execution_tool_result"
	TypeContainerUpload  = "container_upload"
	ResultSuffix         = "_tool_result"
)

// UnmarshalJSON keeps the bytes and reads the header.
func (b *Block) UnmarshalJSON(data []byte) error {
	var head struct {
		Type      string `json:"type"`
		ID        string `json:"id"`
		ToolUseID string `json:"tool_use_id"`
		Name      string `json:"name"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	*b = Block{Type: head.Type, ID: head.ID, ToolUseID: head.ToolUseID, Name: head.Name, Raw: bytes.Clone(data)}
	return nil
}

// MarshalJSON returns the bytes that the block came as.
func (b Block) MarshalJSON() ([]byte, error) {
	if len(b.Raw) == 0 {
		return []byte("null"), nil
	}
	return b.Raw, nil
}

// Decode reads the block into one of the typed shapes below.
func (b Block) Decode(v any) error {
	if err := json.Unmarshal(b.Raw, v); err != nil {
		return fmt.Errorf("read %s block: %w", b.Type, err)
	}
	return nil
}

// NewBlock makes a block of a typed shape. It panics if v cannot be marshalled; of the shapes here only one that
// holds a raw field with no valid JSON in it cannot.
func NewBlock(v any) Block {
	raw, err := Marshal(v)
	if err != nil {
		panic("anthropic.NewBlock: " + err.Error())
	}
	var b Block
	if err := b.UnmarshalJSON(raw); err != nil {
		panic("anthropic.NewBlock: " + err.Error())
	}
	return b
}

// Marshal is json.Marshal without HTML escaping: "<" stays "<".
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Content is a list of blocks. A plain string on the wire reads as one text block.
type Content []Block

// TextContent is a content of one text block.
func TextContent(s string) Content { return Content{NewBlock(Text{Type: TypeText, Text: s})} }

// UnmarshalJSON accepts null, a string or a list of blocks.
func (c *Content) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*c = TextContent(s)
		return nil
	}
	var blocks []Block
	if err := json.Unmarshal(data, &blocks); err != nil {
		return err
	}
	*c = blocks
	return nil
}

// MarshalJSON writes a list, never null.
func (c Content) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("[]"), nil
	}
	return Marshal([]Block(c))
}

// Text joins the text of all text blocks, in order.
func (c Content) Text() string {
	var b strings.Builder
	for _, block := range c {
		var t Text
		if block.Type == TypeText && block.Decode(&t) == nil {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// Text is words. Citations is null or a list in an answer, and absent in a request.
type Text struct {
	Type         string          `json:"type"` // "text"
	Text         string          `json:"text"`
	Citations    json.RawMessage `json:"citations,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

// Source is where an image or a document comes from: base64 (MediaType, Data), text (the same), url (URL) or file
// (FileID).
type Source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
	FileID    string `json:"file_id,omitempty"`
}

// Image is a picture.
type Image struct {
	Type         string          `json:"type"` // "image"
	Source       Source          `json:"source"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

// Document is a PDF or a text. Assistant messages may hold none under [Version2026].
type Document struct {
	Type         string          `json:"type"` // "document"
	Source       Source          `json:"source"`
	Title        string          `json:"title,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

// Thinking is what the model thought, or a summary of it, with the signature that makes it acceptable again.
type Thinking struct {
	Type      string `json:"type"` // "thinking"
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

// RedactedThinking is thinking that is not shown.
type RedactedThinking struct {
	Type string `json:"type"` // "redacted_thinking"
	Data string `json:"data"`
}

// ToolUse is a call: of a client's tool (tool_use) or of the server's own (server_tool_use). Input is an object.
type ToolUse struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	Caller       json.RawMessage `json:"caller,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

// ToolResult answers a tool_use. It stands in a user message only.
type ToolResult struct {
	Type         string          `json:"type"` // "tool_result"
	ToolUseID    string          `json:"tool_use_id"`
	Content      Content         `json:"content,omitempty"`
	IsError      bool            `json:"is_error,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

// BashResult answers a server_tool_use named bash_code_execution. Content is a [BashOutput] or a [BashError].
type BashResult struct {
	Type      string          `json:"type"` // "bash_code_execution_tool_result"
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// BashOutput is what a command printed, how it ended, and the files that it wrote.
type BashOutput struct {
	Type       string     `json:"type"` // "bash_code_execution_result"
	Stdout     string     `json:"stdout"`
	Stderr     string     `json:"stderr"`
	ReturnCode int        `json:"return_code"`
	Content    []BashFile `json:"content"`
}

// BashFile names a file that a command wrote.
type BashFile struct {
	Type   string `json:"type"` // "bash_code_execution_output"
	FileID string `json:"file_id"`
}

// BashError says that a command could not be run.
type BashError struct {
	Type      string `json:"type"` // "bash_code_execution_tool_result_error"
	ErrorCode string `json:"error_code"`
}

// ContainerUpload puts a file into the container.
type ContainerUpload struct {
	Type   string `json:"type"` // "container_upload"
	FileID string `json:"file_id"`
}
