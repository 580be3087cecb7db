package anthropic

import (
	"encoding/json"
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

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
	if dialect.Present(raw) {
		return raw
	}
	return nil
}

// Blocks implements [dialect.Grammar]. cache marks the last block, unless that is marked already. Text of white space
// alone is left out: the API refuses it.
func (g *grammar) Blocks(content dialect.Parts, cache json.RawMessage, at string) ([]wire.Block, error) {
	var out []wire.Block
	last := -1
	for i, p := range content {
		if !p.Blank() {
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
		case p.Blank():
		case p.IsText():
			out = append(out, textBlock(p.Words(), mark))
		case p.Type == "input_image":
			source, err := g.image(p, at)
			if err != nil {
				return nil, err
			}
			out = append(out, block(wire.TypeImage, wire.Image{Type: wire.TypeImage, Source: source, CacheControl: mark}))
		case p.Type == "input_file":
			source, err := g.document(p, at)
			if err != nil {
				return nil, err
			}
			out = append(out, block(wire.TypeDocument, wire.Document{Type: wire.TypeDocument, Source: source, Title: p.Filename, CacheControl: mark}))
		default:
			return nil, dialect.Unserved(at+".type", g.dialect.Provider, "a content part of type %q", p.Type)
		}
	}
	return out, nil
}

func (g *grammar) image(p dialect.Part, at string) (wire.Source, *fault.Error) {
	i, err := p.Image(at, g.dialect.Provider)
	if i.URL != "" {
		return wire.Source{Type: "url", URL: i.URL}, err
	}
	return wire.Source{Type: "base64", MediaType: i.Media, Data: i.Data}, err
}

// document translates a file: a PDF or a text, inline, or a PDF by its URL.
func (g *grammar) document(p dialect.Part, at string) (wire.Source, *fault.Error) {
	f, err := p.File(at, g.dialect.Provider)
	switch {
	case f.URL != "":
		return wire.Source{Type: "url", URL: f.URL}, err
	case f.PDF != "":
		return wire.Source{Type: "base64", MediaType: "application/pdf", Data: f.PDF}, err
	}
	return wire.Source{Type: "text", MediaType: "text/plain", Data: f.Text}, err
}
