package dialect

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Part is a piece of content as a client sends it, with the one field of a vendor's that is passed on.
type Part struct {
	Type         string          `json:"type"`
	Text         string          `json:"text"`
	Refusal      string          `json:"refusal"`
	ImageURL     string          `json:"image_url"`
	Detail       string          `json:"detail"` // of an image
	FileID       string          `json:"file_id"`
	FileURL      string          `json:"file_url"`
	FileData     string          `json:"file_data"`
	Filename     string          `json:"filename"`
	CacheControl json.RawMessage `json:"cache_control"`
}

// IsText says whether a part is words.
func (p Part) IsText() bool {
	switch p.Type {
	case "input_text", "output_text", "text", "refusal":
		return true
	}
	return false
}

// Words are the words of a part that is text. A refusal is words too.
func (p Part) Words() string { return p.Text + p.Refusal }

// Blank says that a part is text and says nothing.
func (p Part) Blank() bool { return p.IsText() && strings.TrimSpace(p.Words()) == "" }

// Parts is content: a string or a list on the wire.
type Parts []Part

// UnmarshalJSON accepts a string or a list of parts.
func (p *Parts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		one := Part{Type: "input_text"}
		if err := json.Unmarshal(data, &one.Text); err != nil {
			return err
		}
		*p = Parts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]Part)(p))
}

// Message is a message of the conversation, read.
type Message struct {
	Role         string          `json:"role"`
	Content      Parts           `json:"content"`
	CacheControl json.RawMessage `json:"cache_control"`
}

// ReadMessage reads a message. Only a user's may hold anything but text.
func ReadMessage(item openai.Item, at string) (Message, error) {
	var m Message
	if err := item.Decode(&m); err != nil {
		return m, Malformed(at, item.Type, err)
	}
	switch m.Role {
	case "assistant", "developer", "system":
		if i := slices.IndexFunc(m.Content, func(p Part) bool { return !p.IsText() }); i >= 0 {
			return m, Invalid(fmt.Sprintf("%s.content[%d].type", at, i), "a message of role %q cannot hold content of type %q",
				m.Role, m.Content[i].Type)
		}
	case "user":
	default:
		return m, Invalid(at+".role", "a message of role %q is not known", m.Role)
	}
	return m, nil
}

// DataURL splits a base64 data URL.
func DataURL(s string) (media, data string, ok bool) {
	s, ok = strings.CutPrefix(s, "data:")
	head, data, comma := strings.Cut(s, ",")
	media, rest, _ := strings.Cut(head, ";")
	return strings.ToLower(strings.TrimSpace(media)), data, ok && comma && (rest == "base64" || strings.HasSuffix(rest, ";base64"))
}

// Image is a picture: inline, by its media type and base64, or else by its URL.
type Image struct {
	Media, Data string
	URL         string
}

// Image reads a part that is a picture of a form that all vendors know: JPEG, PNG, GIF or WebP.
func (p Part) Image(at, provider string) (Image, *fault.Error) {
	if !strings.HasPrefix(p.ImageURL, "data:") {
		if !strings.HasPrefix(p.ImageURL, "http://") && !strings.HasPrefix(p.ImageURL, "https://") {
			return Image{}, Unserved(at+".image_url", provider, "an image without an image_url that is a URL")
		}
		return Image{URL: p.ImageURL}, nil
	}
	media, data, ok := DataURL(p.ImageURL)
	if media == "image/jpg" {
		media = "image/jpeg"
	}
	if !ok || !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, media) {
		return Image{}, Invalid(at+".image_url", "an image must be a base64 data URL of JPEG, PNG, GIF or WebP for provider %q", provider)
	}
	return Image{Media: media, Data: data}, nil
}

// File is a document: a PDF as base64, a text as it is, or else by its URL.
type File struct {
	Name, PDF, Text, URL string
}

// File reads a part that is a document.
func (p Part) File(at, provider string) (File, *fault.Error) {
	f := File{Name: p.Filename}
	if p.FileData == "" {
		if f.URL = p.FileURL; f.URL == "" {
			return f, Unserved(at, provider, "a file without file_data or file_url")
		}
		return f, nil
	}
	media, data, ok := DataURL(p.FileData)
	if !strings.HasPrefix(p.FileData, "data:") {
		media, data, ok = "", p.FileData, true
		if strings.HasSuffix(strings.ToLower(p.Filename), ".pdf") || strings.HasPrefix(data, "JVBERi0") { // "%PDF-"
			media = "application/pdf"
		}
	}
	if !ok {
		return f, Invalid(at+".file_data", "file_data is neither base64 nor a base64 data URL")
	}
	if media == "application/pdf" {
		f.PDF = data
		return f, nil
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil || !utf8.Valid(raw) || strings.TrimSpace(string(raw)) == "" {
		return f, Unserved(at+".file_data", provider, "a file that is neither a PDF nor a text")
	}
	f.Text = string(raw)
	return f, nil
}
