package anthropic

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// conversation turns the vendor's messages into items, in order.
type conversation struct {
	items []openai.Item
}

// part is a piece of an item's content, with the one field of the vendor's that is passed on.
type part struct {
	Type         string          `json:"type"`
	Text         *string         `json:"text,omitempty"`
	Annotations  *[]struct{}     `json:"annotations,omitempty"`
	ImageURL     string          `json:"image_url,omitempty"`
	FileID       string          `json:"file_id,omitempty"`
	FileURL      string          `json:"file_url,omitempty"`
	FileData     string          `json:"file_data,omitempty"`
	Filename     string          `json:"filename,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

func textPart(kind, text string, cache json.RawMessage) part {
	p := part{Type: kind, Text: &text, CacheControl: marked(cache)}
	if kind == outputText {
		p.Annotations = &[]struct{}{}
	}
	return p
}

const (
	inputText  = "input_text"
	outputText = "output_text"
)

// marked is a cache_control that is there, else nil.
func marked(raw json.RawMessage) json.RawMessage {
	if present(raw) {
		return raw
	}
	return nil
}

func (c *conversation) add(v any) { c.items = append(c.items, openai.NewItem(v)) }

// say adds what one side said.
func (c *conversation) say(role string, parts []part) {
	if len(parts) == 0 {
		return
	}
	c.add(struct {
		Type    string `json:"type"`
		Role    string `json:"role"`
		Content []part `json:"content"`
	}{openai.TypeMessage, role, parts})
}

// system reads the system prompt. Where it marks what to cache it becomes a message, which can hold the marks.
func (c *conversation) system(content wire.Content, to *openai.CreateRequest) error {
	var texts []string
	var parts []part
	kept := false
	for i, b := range content {
		p, err := wordsOf(b, fmt.Sprintf("system.%d", i))
		if err != nil {
			return err
		}
		if strings.TrimSpace(*p.Text) == "" {
			continue
		}
		texts, parts, kept = append(texts, *p.Text), append(parts, p), kept || p.CacheControl != nil
	}
	if kept {
		c.say("system", parts)
	} else if len(texts) > 0 {
		all := strings.Join(texts, "\n\n")
		to.Instructions = &all
	}
	return nil
}

// wordsOf reads a block that must be text.
func wordsOf(b wire.Block, at string) (part, error) {
	if b.Type != wire.TypeText {
		return part{}, invalid(at+".type", "%q can't stand here: only text can", clip(b.Type))
	}
	var t wire.Text
	if err := b.Decode(&t); err != nil {
		return part{}, malformed(at, b)
	}
	return textPart(inputText, t.Text, t.CacheControl), nil
}

func malformed(at string, b wire.Block) error {
	return invalid(at, "is not a %s block of a known form", clip(b.Type))
}

func (c *conversation) message(at string, m wire.Message) error {
	switch m.Role {
	case "user":
		return c.user(at+".content", m.Content)
	case "assistant":
		return c.assistant(at+".content", m.Content)
	case "system":
		var parts []part
		for i, b := range m.Content {
			p, err := wordsOf(b, fmt.Sprintf("%s.content.%d", at, i))
			if err != nil {
				return err
			}
			parts = append(parts, p)
		}
		c.say("system", parts)
		return nil
	}
	return invalid(at+".role", "%q is not a role: user and assistant are", clip(m.Role))
}

// user reads a user's turn: answers to calls become items of their own, and whatever else they hold than words follows in
// the message.
func (c *conversation) user(at string, content wire.Content) error {
	var parts []part
	for i, b := range content {
		at := fmt.Sprintf("%s.%d", at, i)
		if b.Type == wire.TypeToolResult {
			more, err := c.result(b, at)
			if err != nil {
				return err
			}
			parts = append(parts, more...)
			continue
		}
		p, err := shown(b, at)
		if err != nil {
			return err
		}
		parts = append(parts, p...)
	}
	c.say("user", parts)
	return nil
}

// result adds the answer to a call. A call's answer is words; pictures and files in it are returned, for the message
// behind it.
func (c *conversation) result(b wire.Block, at string) ([]part, error) {
	var r wire.ToolResult
	if err := b.Decode(&r); err != nil {
		return nil, malformed(at, b)
	}
	if r.ToolUseID == "" {
		return nil, invalid(at+".tool_use_id", "Field required")
	}
	words, seen := []part{}, []part(nil)
	for i, b := range r.Content {
		p, err := shown(b, fmt.Sprintf("%s.content.%d", at, i))
		if err != nil {
			return nil, err
		}
		for _, p := range p {
			if p.Type == inputText {
				words = append(words, p)
				continue
			}
			if len(seen) == 0 {
				seen = append(seen, textPart(inputText, "(from the result of "+r.ToolUseID+")", nil))
			}
			seen = append(seen, p)
		}
	}
	if len(seen) > 0 {
		words = append(words, textPart(inputText, "(what else this result holds is shown below)", nil))
	}
	if r.IsError {
		words = append([]part{textPart(inputText, "Error: ", nil)}, words...)
	}
	var output any = words
	switch {
	case len(words) == 0:
		output = ""
	case len(words) == 1 && words[0].CacheControl == nil:
		output = *words[0].Text
	}
	c.answer(r.ToolUseID, output, marked(r.CacheControl))
	return seen, nil
}

func (c *conversation) answer(callID string, output any, cache json.RawMessage) {
	c.add(struct {
		Type         string          `json:"type"`
		CallID       string          `json:"call_id"`
		Output       any             `json:"output"`
		CacheControl json.RawMessage `json:"cache_control,omitempty"`
	}{openai.TypeFunctionCallOutput, callID, output, cache})
}

// shown reads a block of a user's: words, a picture or a file.
func shown(b wire.Block, at string) ([]part, error) {
	switch b.Type {
	case wire.TypeText:
		p, err := wordsOf(b, at)
		return []part{p}, err
	case wire.TypeImage:
		var i wire.Image
		if err := b.Decode(&i); err != nil {
			return nil, malformed(at, b)
		}
		p := part{Type: "input_image", CacheControl: marked(i.CacheControl)}
		switch i.Source.Type {
		case "base64":
			p.ImageURL = "data:" + i.Source.MediaType + ";base64," + i.Source.Data
		case "url":
			p.ImageURL = i.Source.URL
		default:
			return nil, invalid(at+".source.type", "an image from %q can't be served here", clip(i.Source.Type)).WithTry("base64 or url")
		}
		return []part{p}, nil
	case wire.TypeDocument:
		return document(b, at)
	case wire.TypeContainerUpload:
		var u wire.ContainerUpload
		if err := b.Decode(&u); err != nil || u.FileID == "" {
			return nil, malformed(at, b)
		}
		return []part{{Type: "input_file", FileID: u.FileID}}, nil
	case "search_result":
		var s struct {
			Source, Title string
			Content       wire.Content
			CacheControl  json.RawMessage `json:"cache_control"`
		}
		if err := b.Decode(&s); err != nil {
			return nil, malformed(at, b)
		}
		return []part{textPart(inputText, fmt.Sprintf("[%s, %s]\n%s", s.Title, s.Source, s.Content.Text()), s.CacheControl)}, nil
	}
	return nil, invalid(at+".type", "a block of type %q can't be served here", clip(b.Type))
}

// document reads a file: a text is told in words, any other goes on as a file.
func document(b wire.Block, at string) ([]part, error) {
	var d struct {
		Source struct {
			wire.Source
			Content wire.Content `json:"content"`
		} `json:"source"`
		Title        string          `json:"title"`
		Context      string          `json:"context"`
		CacheControl json.RawMessage `json:"cache_control"`
	}
	if err := b.Decode(&d); err != nil {
		return nil, malformed(at, b)
	}
	name := d.Title
	if name == "" {
		name = "document"
	}
	told := func(text string) []part {
		if d.Context != "" {
			text = d.Context + "\n" + text
		}
		return []part{textPart(inputText, fmt.Sprintf("[document %s]\n%s\n[end of document %s]", name, text, name), d.CacheControl)}
	}
	file := part{Type: "input_file", CacheControl: marked(d.CacheControl)}
	switch d.Source.Type {
	case "text":
		return told(d.Source.Data), nil
	case "content":
		return told(d.Source.Content.Text()), nil
	case "base64":
		if path.Ext(name) == "" && d.Source.MediaType == "application/pdf" {
			name += ".pdf"
		}
		file.FileData, file.Filename = "data:"+d.Source.MediaType+";base64,"+d.Source.Data, name
	case "url":
		file.FileURL, file.Filename = d.Source.URL, d.Title
	case "file":
		file.FileID = d.Source.FileID
	default:
		return nil, invalid(at+".source.type", "a document from %q can't be served here", clip(d.Source.Type))
	}
	return []part{file}, nil
}
