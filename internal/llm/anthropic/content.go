package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

// part is a piece of content as a client sends it, with the one field of Anthropic's that is passed on.
type part struct {
	Type         string          `json:"type"`
	Text         string          `json:"text"`
	Refusal      string          `json:"refusal"`
	ImageURL     string          `json:"image_url"`
	FileID       string          `json:"file_id"`
	FileURL      string          `json:"file_url"`
	FileData     string          `json:"file_data"`
	Filename     string          `json:"filename"`
	CacheControl json.RawMessage `json:"cache_control"`
}

// isText says whether a part is words.
func (p part) isText() bool {
	switch p.Type {
	case "input_text", "output_text", "text", "refusal":
		return true
	}
	return false
}

// parts is content: a string or a list on the wire.
type parts []part

// UnmarshalJSON accepts a string or a list of parts.
func (p *parts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		one := part{Type: "input_text"}
		if err := json.Unmarshal(data, &one.Text); err != nil {
			return err
		}
		*p = parts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]part)(p))
}

// malformed is a 400 for an item whose fields have wrong types.
func malformed(param, typ string, cause error) *fault.Error {
	return fault.Wrap(fault.Invalid, cause, "%s is not a %s of a known form", param, typ).WithCode("invalid_value").WithParam(param)
}

// block makes a block of a typed shape without reading it back.
func block(typ string, v any) wire.Block {
	raw, err := wire.Marshal(v)
	if err != nil {
		return wire.NewBlock(v) // says why
	}
	return wire.Block{Type: typ, Raw: raw}
}

func textBlock(s string, cache json.RawMessage) wire.Block {
	return block(wire.TypeText, wire.Text{Type: wire.TypeText, Text: s, CacheControl: cache})
}

// marked is a cache_control that is there, else nil.
func marked(raw json.RawMessage) json.RawMessage {
	if present(raw) {
		return raw
	}
	return nil
}

// blocks translates content. cache marks the last block, unless that is marked already. Text of white space alone is
// left out: the API refuses it.
func (c *conversation) blocks(content parts, cache json.RawMessage, at string) (wire.Content, error) {
	var out wire.Content
	last := -1
	for i, p := range content {
		if !p.isText() || strings.TrimSpace(p.Text+p.Refusal) != "" {
			last = i
		}
	}
	for i, p := range content {
		mark := marked(p.CacheControl)
		if i == last && mark == nil {
			mark = marked(cache)
		}
		at := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case p.isText():
			if text := p.Text + p.Refusal; strings.TrimSpace(text) != "" {
				out = append(out, textBlock(text, mark))
			}
		case p.Type == "input_image":
			source, err := c.image(p, at)
			if err != nil {
				return nil, err
			}
			out = append(out, block(wire.TypeImage, wire.Image{Type: wire.TypeImage, Source: source, CacheControl: mark}))
		case p.Type == "input_file":
			source, err := c.document(p, at)
			if err != nil {
				return nil, err
			}
			out = append(out, block(wire.TypeDocument, wire.Document{Type: wire.TypeDocument, Source: source, Title: p.Filename, CacheControl: mark}))
		default:
			return nil, invalid(at+".type", "a content part of type %q cannot be served by provider %q", p.Type, c.dialect.Provider)
		}
	}
	return out, nil
}

// imageType says whether the API reads pictures of this form.
func imageType(media string) bool {
	return slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, media)
}

func (c *conversation) image(p part, at string) (wire.Source, error) {
	if !strings.HasPrefix(p.ImageURL, "data:") {
		if !strings.HasPrefix(p.ImageURL, "http://") && !strings.HasPrefix(p.ImageURL, "https://") {
			return wire.Source{}, invalid(at+".image_url", "an image without an image_url that is a URL cannot be served by provider %q", c.dialect.Provider)
		}
		return wire.Source{Type: "url", URL: p.ImageURL}, nil
	}
	media, data, ok := dataURL(p.ImageURL)
	if media == "image/jpg" {
		media = "image/jpeg"
	}
	if !ok || !imageType(media) {
		return wire.Source{}, invalid(at+".image_url", "an image must be a base64 data URL of JPEG, PNG, GIF or WebP for provider %q", c.dialect.Provider)
	}
	return wire.Source{Type: "base64", MediaType: media, Data: data}, nil
}

// document translates a file: a PDF or a text, inline, or a PDF by its URL.
func (c *conversation) document(p part, at string) (wire.Source, error) {
	if p.FileData == "" {
		if p.FileURL == "" {
			return wire.Source{}, invalid(at, "a file without file_data or file_url cannot be served by provider %q", c.dialect.Provider)
		}
		return wire.Source{Type: "url", URL: p.FileURL}, nil
	}
	media, data, ok := dataURL(p.FileData)
	if !strings.HasPrefix(p.FileData, "data:") {
		media, data, ok = "", p.FileData, true
		if strings.HasSuffix(strings.ToLower(p.Filename), ".pdf") || strings.HasPrefix(data, "JVBERi0") { // "%PDF-"
			media = "application/pdf"
		}
	}
	if !ok {
		return wire.Source{}, invalid(at+".file_data", "file_data is neither base64 nor a base64 data URL")
	}
	if media == "application/pdf" {
		return wire.Source{Type: "base64", MediaType: media, Data: data}, nil
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil || !utf8.Valid(raw) || strings.TrimSpace(string(raw)) == "" {
		return wire.Source{}, invalid(at+".file_data", "a file that is neither a PDF nor a text cannot be served by provider %q", c.dialect.Provider)
	}
	return wire.Source{Type: "text", MediaType: "text/plain", Data: string(raw)}, nil
}

// dataURL splits a base64 data URL.
func dataURL(s string) (media, data string, ok bool) {
	head, data, ok := strings.Cut(strings.TrimPrefix(s, "data:"), ",")
	media, rest, _ := strings.Cut(head, ";")
	return strings.ToLower(strings.TrimSpace(media)), data, ok && (rest == "base64" || strings.HasSuffix(rest, ";base64"))
}
