package gemini

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
)

// Blocks implements [dialect.Grammar]. Text of white space alone is left out: the API refuses a part that says nothing.
func (g *grammar) Blocks(content dialect.Parts, _ json.RawMessage, at string) ([]block, error) {
	var out []block
	for i, p := range content {
		at := fmt.Sprintf("%s[%d]", at, i)
		var part wire.Part
		var err *fault.Error
		switch {
		case p.Blank():
			continue
		case p.IsText():
			part = wire.Text(p.Words())
		case p.Type == "input_image":
			part, err = g.image(p, at)
		case p.Type == "input_file":
			part, err = g.document(p, at)
		default:
			err = dialect.Unserved(at+".type", g.dialect.Provider, "a content part of type %q", p.Type)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, block{Part: part})
	}
	return out, nil
}

// media are the types of what may be named by an address, by its ending: the API wants to be told.
var media = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp",
	".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/plain", ".csv": "text/csv", ".html": "text/html",
}

// byAddress names a file of a type that its address tells.
func (g *grammar) byAddress(address, kind, param string) (wire.Part, *fault.Error) {
	u, err := url.Parse(address)
	if err != nil {
		return wire.Part{}, dialect.Invalid(param, "this is not a URL")
	}
	typ := media[strings.ToLower(path.Ext(u.Path))]
	if typ == "" || strings.HasPrefix(typ, "image/") != (kind == "an image") {
		return wire.Part{}, dialect.Unserved(param, g.dialect.Provider, "%s by an address whose ending does not tell its type", kind).
			WithTry("the bytes themselves, as base64")
	}
	return wire.Part{FileData: &wire.FileData{MIMEType: typ, URI: address}}, nil
}

func (g *grammar) image(p dialect.Part, at string) (wire.Part, *fault.Error) {
	i, err := p.Image(at, g.dialect.Provider)
	switch {
	case err != nil:
		return wire.Part{}, err
	case i.URL != "":
		return g.byAddress(i.URL, "an image", at+".image_url")
	case i.Media == "image/gif":
		return wire.Part{}, dialect.Unserved(at+".image_url", g.dialect.Provider, "a GIF").WithTry("PNG, JPEG or WebP")
	}
	return wire.Part{InlineData: &wire.Blob{MIMEType: i.Media, Data: i.Data}}, nil
}

// document translates a PDF or a text.
func (g *grammar) document(p dialect.Part, at string) (wire.Part, *fault.Error) {
	f, err := p.File(at, g.dialect.Provider)
	switch {
	case err != nil:
		return wire.Part{}, err
	case f.URL != "":
		return g.byAddress(f.URL, "a file", at+".file_url")
	case f.PDF != "":
		return wire.Part{InlineData: &wire.Blob{MIMEType: "application/pdf", Data: f.PDF}}, nil
	}
	return wire.Part{InlineData: &wire.Blob{MIMEType: "text/plain", Data: base64.StdEncoding.EncodeToString([]byte(f.Text))}}, nil
}
