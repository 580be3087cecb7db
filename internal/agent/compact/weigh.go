package compact

import (
	"encoding/json"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// DefaultRatio is how many tokens a byte is where nothing was learned yet.
const DefaultRatio = 0.25

// The bounds of a ratio: no text has fewer tokens a byte, and none has more. An upstream that counts otherwise is not
// believed.
const (
	leastRatio = 0.1
	mostRatio  = 1
)

const (
	overhead    = 24   // what the frame of an item costs, in bytes of text
	imageWeight = 4800 // an image by its address or as data: about 1,200 tokens wherever it is large
	noteWeight  = 120  // a note of where a file lies
	entryWeight = 160  // what stands around a command's output as the model reads it
)

// Learn is the ratio after a request of a weight was counted as so many tokens. was is the one before, or 0.
func Learn(was float64, weight int, tokens int64) float64 {
	if weight <= 0 || tokens <= 0 {
		return was
	}
	now := min(max(float64(tokens)/float64(weight), leastRatio), mostRatio)
	if was <= 0 {
		return now
	}
	return (was + now) / 2
}

// Weigh is what an item weighs: about the bytes of text that the model is shown of it. most bounds a stream of a
// command's output, as the model reads it; 0 is no bound.
func Weigh(i openai.Item, most int) int {
	switch i.Type {
	case openai.TypeMessage:
		if m, ok := i.PlainMessage(); ok {
			return overhead + len(m.Content.Text())
		}
		var m struct{ Content parts }
		if i.Decode(&m) == nil {
			return overhead + m.Content.weight()
		}
	case openai.TypeFunctionCall:
		var c openai.FunctionCall
		if i.Decode(&c) == nil {
			return overhead + len(c.Name) + len(c.Arguments)
		}
	case openai.TypeFunctionCallOutput:
		var o struct{ Output parts }
		if i.Decode(&o) == nil {
			return overhead + o.Output.weight()
		}
	case openai.TypeReasoning:
		var r struct {
			Summary   parts  `json:"summary"`
			Content   parts  `json:"content"`
			Encrypted string `json:"encrypted_content"`
		}
		if i.Decode(&r) == nil {
			return overhead + max(r.Summary.weight()+r.Content.weight(), len(r.Encrypted)*3/4)
		}
	case openai.TypeShellCall:
		var c openai.ShellCall
		if i.Decode(&c) == nil {
			n := overhead + len(c.Action.Stdin)
			for _, command := range c.Action.Commands {
				n += len(command) + 8
			}
			return n
		}
	case openai.TypeShellCallOutput:
		var o openai.ShellCallOutput
		if i.Decode(&o) == nil {
			if n := o.MaxOutputLength; n != nil && *n > 0 && (most <= 0 || *n < int64(most)) {
				most = int(*n)
			}
			n := overhead
			for _, e := range o.Output {
				n += entryWeight + bounded(e.Stdout, most) + bounded(e.Stderr, most)
			}
			return n
		}
	}
	return overhead + len(i.Raw) // all that we don't know counts as it is
}

func bounded(s string, most int) int {
	if most > 0 {
		return min(len(s), most)
	}
	return len(s)
}

// parts is content: a string, or a list.
type parts []part

type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	Path     string `json:"path"`
	FileData string `json:"file_data"`
	Filename string `json:"filename"`
}

// UnmarshalJSON accepts a string too.
func (p *parts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*p = parts{{Type: "input_text"}}
		return json.Unmarshal(data, &(*p)[0].Text)
	}
	return json.Unmarshal(data, (*[]part)(p))
}

func (p parts) weight() int {
	n := 0
	for _, part := range p {
		switch {
		case part.Type == "input_image":
			n += imageWeight
		case part.Type == "input_file" && part.FileData != "" && part.Path == "":
			n += len(part.FileData) * 3 / 4
		case part.Type == "input_file":
			n += noteWeight
		default:
			n += len(part.Text) + len(part.Refusal)
		}
	}
	return n
}
