package bedrock

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/converse"
)

const (
	// seeFile stands beside a document that came without a word: the API wants one.
	seeFile = "See the file."
	// noText stands in a result that holds nothing.
	noText = "(no output)"
)

// Blocks implements [dialect.Grammar]. Text of white space alone is left out: the API refuses it.
func (g *grammar) Blocks(content dialect.Parts, cache json.RawMessage, at string) ([]wire.Block, error) {
	var out []wire.Block
	marked := false
	for i, p := range content {
		at := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case p.Blank():
			continue
		case p.IsText():
			out = append(out, wire.Text(p.Words()))
		case p.Type == "input_image":
			image, err := g.image(p, at)
			if err != nil {
				return nil, err
			}
			out = append(out, wire.Block{Image: &image})
		case p.Type == "input_file":
			document, err := g.document(p, at)
			if err != nil {
				return nil, err
			}
			out = append(out, wire.Block{Document: &document})
		default:
			return nil, dialect.Unserved(at+".type", g.dialect.Provider, "a content part of type %q", p.Type)
		}
		point := cachePoint(p.CacheControl)
		marked = len(point) > 0
		out = append(out, point...)
	}
	if len(out) > 0 && !marked {
		out = append(out, cachePoint(cache)...)
	}
	return out, nil
}

func (g *grammar) image(p dialect.Part, at string) (wire.Image, error) {
	i, err := p.Image(at, g.dialect.Provider)
	if err != nil {
		return wire.Image{}, err
	}
	if i.URL != "" {
		return wire.Image{}, dialect.Unserved(at+".image_url", g.dialect.Provider, "an image by its address").WithTry("the image as a base64 data URL")
	}
	return wire.Image{Format: strings.TrimPrefix(i.Media, "image/"), Source: wire.Source{Bytes: i.Data}}, nil
}

// formats are the documents that the API reads, by the ending of their names.
var formats = map[string]string{".csv": "csv", ".html": "html", ".htm": "html", ".md": "md"}

// document translates a PDF or a text.
func (g *grammar) document(p dialect.Part, at string) (wire.Document, *fault.Error) {
	f, err := p.File(at, g.dialect.Provider)
	switch {
	case err != nil:
		return wire.Document{}, err
	case f.URL != "":
		return wire.Document{}, dialect.Unserved(at+".file_url", g.dialect.Provider, "a file by its address").WithTry("the file as file_data")
	}
	g.documents++
	d := wire.Document{Name: documentName(f.Name, g.documents)}
	if f.PDF != "" {
		d.Format, d.Source.Bytes = "pdf", f.PDF
		return d, nil
	}
	if d.Format = formats[strings.ToLower(path.Ext(f.Name))]; d.Format == "" {
		d.Format = "txt"
	}
	d.Source.Bytes = base64.StdEncoding.EncodeToString([]byte(f.Text))
	return d, nil
}

// documentName is a file's name in the letters that the API takes, and unlike any other of the request.
func documentName(name string, number int) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-()[]", r))
	}), " ")
	name = strings.TrimSpace(name[:min(len(name), 150)])
	if name == "" {
		name = "file"
	}
	return name + " [" + strconv.Itoa(number) + "]"
}
