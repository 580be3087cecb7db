package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// sealMark begins the encrypted_content of a reasoning item whose thinking came from this dialect.
const sealMark = "hsk-anthropic-1."

// sealed is what stands behind the mark, in base64: thinking blocks as they came, and whose they are. A signature
// says nothing to another provider, and most refuse the request that holds one.
type sealed struct {
	Provider string       `json:"provider"`
	Blocks   []wire.Block `json:"blocks"`
}

// seal makes an encrypted_content of thinking blocks.
func seal(provider string, blocks []wire.Block) string {
	raw, err := wire.Marshal(sealed{provider, blocks})
	if err != nil {
		return "" // a block that is no JSON; the decoder makes none
	}
	return sealMark + base64.StdEncoding.EncodeToString(raw)
}

// unseal reads the blocks of an encrypted_content. It is empty for what another provider sealed, or nobody.
func unseal(provider, content string) []wire.Block {
	text, ok := strings.CutPrefix(content, sealMark)
	if !ok {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	var s sealed
	if json.Unmarshal(raw, &s) != nil || s.Provider != provider {
		return nil
	}
	for _, b := range s.Blocks {
		if !thinks(b) { // a client may have made it: nothing else gets into the conversation this way
			return nil
		}
	}
	return s.Blocks
}

func thinks(b wire.Block) bool {
	return b.Type == wire.TypeThinking || b.Type == wire.TypeRedactedThinking
}

// sealer stands between a Turn and its consumer and puts the seal on each reasoning item that is done. It also lets
// a Turn open a reasoning item that shows nothing, for thinking that is redacted or omitted: the Turn is given a
// stand-in, which is taken out of every event that would show it.
type sealer struct {
	provider string
	yield    func(openai.Event, error) bool
	turn     *llm.Turn
	blocks   []wire.Block // of the open item, as far as they have ended
	open     bool         // a reasoning item is open
	standIn  bool         // its text begins with the stand-in
	starting bool         // the next delta is the stand-in
}

const standIn = "\u2060"

func newSealer(provider string, yield func(openai.Event, error) bool, mint func(string) string) *sealer {
	s := &sealer{provider: provider, yield: yield}
	s.turn = llm.NewTurn(s.pass, mint)
	return s
}

// add seals a block into the reasoning item that is open, or into one that it opens.
func (s *sealer) add(b wire.Block) bool {
	if !s.open {
		s.standIn, s.starting = true, true
		if !s.turn.Reasoning([]byte(standIn)) {
			return false
		}
	}
	s.blocks = append(s.blocks, b)
	return true
}

// pass hands an event on.
func (s *sealer) pass(ev openai.Event, err error) bool {
	switch e := ev.(type) {
	case *openai.DeltaEvent:
		if s.starting && e.Type == openai.EventReasonDelta {
			s.starting = false
			return true
		}
	case *openai.DoneEvent:
		if s.standIn && e.Type == openai.EventReasonDone {
			e.Text = strings.TrimPrefix(e.Text, standIn)
		}
	case *openai.PartEvent:
		if s.standIn && e.Type == openai.EventPartDone && e.Part.Type == "reasoning_text" {
			e.Part.Text = strings.TrimPrefix(e.Part.Text, standIn)
		}
	case *openai.ItemEvent:
		if e.Item.Type != openai.TypeReasoning {
			break
		}
		s.open = e.Type == openai.EventItemAdded
		if !s.open {
			e.Item = s.finish(e.Item)
		}
	}
	return s.yield(ev, err)
}

// finish puts the seal on an item.
func (s *sealer) finish(item openai.Item) openai.Item {
	blocks, blank := s.blocks, s.standIn
	s.blocks, s.standIn = nil, false
	var r openai.Reasoning
	if len(blocks) == 0 && !blank || item.Decode(&r) != nil {
		return item
	}
	for i := range r.Content {
		if blank {
			r.Content[i].Text = strings.TrimPrefix(r.Content[i].Text, standIn)
		}
	}
	if len(blocks) > 0 {
		r.EncryptedContent = seal(s.provider, blocks)
	}
	return openai.NewItem(r)
}
