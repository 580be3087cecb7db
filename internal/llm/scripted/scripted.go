// Package scripted is a model without a mind: it follows the lines of the last user message, or a recorded script.
// It needs no key, no network and no weights, and it says what it is in its first words.
//
// In the last user message each line "$ CMD" is a call of the shell, one after the other; lines "$$ CMD" below it are
// further commands of the same call; "? CMD" is a call that is made only if the last one failed. Then it quotes the
// results. It uses whatever shell-like function was declared and fills the arguments from that function's schema.
//
// A script is chosen by a model name other than "scripted", or by a first line "%% script NAME". It is a list of turns, or
// of rules that say what to do about what came last; see [Script] and [Rule].
//
// It keeps nothing between calls: where it stands is read from the conversation each time, so that any replica can
// go on. It is no test double only: people meet it before they have a key.
package scripted

import (
	"context"
	"embed"
	"io/fs"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Name is what the model is called, and the provider.
const Name = "scripted"

// label begins every text that the model writes by itself.
const label = "scripted model: "

//go:embed scripts/*.json
var builtin embed.FS

// Options sets up a Provider; the zero value works.
type Options struct {
	Scripts fs.FS // scripts, NAME.json each, which are listed as models; they come before the built-in ones
}

// Provider is the scripted model. It is safe for use by many goroutines.
type Provider struct {
	own     fs.FS // nil: none
	scripts []fs.FS
}

var _ llm.Provider = (*Provider)(nil)
var _ llm.Checker = (*Provider)(nil)

// New makes the scripted model.
func New(o Options) *Provider {
	p := &Provider{own: o.Scripts}
	if o.Scripts != nil {
		p.scripts = append(p.scripts, o.Scripts)
	}
	if sub, err := fs.Sub(builtin, "scripts"); err == nil {
		p.scripts = append(p.scripts, sub)
	}
	return p
}

// Models lists "scripted", and the scripts that were given. The built-in ones are asked for by those who know their names.
func (p *Provider) Models(context.Context) ([]openai.Model, error) {
	models := []openai.Model{{ID: Name, Object: "model", OwnedBy: "hardshell"}}
	if p.own == nil {
		return models, nil
	}
	files, err := fs.Glob(p.own, "*.json")
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the scripts cannot be listed")
	}
	for _, file := range files {
		models = append(models, openai.Model{ID: strings.TrimSuffix(file, ".json"), Object: "model", OwnedBy: "hardshell"})
	}
	return models, nil
}

// Check refuses tools that are no functions, and a script that does not exist.
func (p *Provider) Check(r llm.Request) error {
	if err := llm.CheckTools(Name, r.Tools); err != nil {
		return err
	}
	_, err := p.script(r.Model, read(r.Items))
	return err
}

// turn is what the model will do in one turn.
type turn struct {
	reasoning string
	text      string
	calls     []call
	stop      string // why it ends early, "" if it does not
	fail      *Failure
	delay     pause
	usage     *openai.Usage
}

// call is one function call, its arguments as the text to send.
type call struct {
	name, arguments string
}

// Stream implements [llm.Provider].
func (p *Provider) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {
		w := llm.NewTurn(yield, nil)
		t, err := p.decide(r)
		if err != nil {
			w.Fail(err)
			return
		}
		play(ctx, w, t, r)
	}
}

// decide chooses the turn: of a script if one is asked for, else of the user's lines.
func (p *Provider) decide(r llm.Request) (turn, error) {
	if err := llm.CheckTools(Name, r.Tools); err != nil {
		return turn{}, err
	}
	c := read(r.Items)
	tool := pick(r.Tools, r.ToolChoice)
	s, err := p.script(r.Model, c)
	if err != nil {
		return turn{}, err
	}
	if s != nil {
		return s.turn(c, tool)
	}
	return follow(c, tool), nil
}

// play writes the turn in small pieces.
func play(ctx context.Context, w *llm.Turn, t turn, r llm.Request) {
	said := 0
	// step is one piece on its way out; it says false when the turn is over.
	step := func() bool {
		if err := t.delay.wait(ctx); err != nil {
			w.Fail(fault.Wrap(fault.Cancelled, err, "the scripted model was cancelled"))
			return false
		}
		if t.fail != nil && said >= t.fail.After {
			w.Fail(t.fail.fault())
			return false
		}
		said++
		return !w.Gone()
	}
	text, cut := bound(t.text, r.MaxOutputTokens)
	for s := range pieces(t.reasoning) {
		if !step() || !w.Reasoning([]byte(s)) {
			return
		}
	}
	for s := range pieces(text) {
		if !step() || !w.Text([]byte(s)) {
			return
		}
	}
	usage := t.usage
	if usage == nil {
		usage = estimate(r, t, text)
	}
	if cut {
		w.Stop(openai.ReasonMaxOutputTokens, usage)
		return
	}
	for _, c := range t.calls {
		if !step() {
			return
		}
		open := w.Call(c.name)
		for s := range pieces(c.arguments) {
			if !step() || !open.Write(s) {
				return
			}
		}
	}
	switch {
	case !t.failLeft(w):
	case t.stop != "":
		w.Stop(t.stop, usage)
	default:
		w.Complete(usage)
	}
}

// failLeft ends the turn with the failure that has not come yet, and says whether the turn may end well.
func (t turn) failLeft(w *llm.Turn) bool {
	if t.fail != nil {
		w.Fail(t.fail.fault())
		return false
	}
	return !w.Gone()
}

// pieceSize is about a token or three, in bytes.
const pieceSize = 12

// pieces cuts text as a model would send it: small, never inside a character.
func pieces(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(s) > 0 {
			n := min(pieceSize, len(s))
			for n < len(s) && !utf8.RuneStart(s[n]) {
				n++
			}
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

// bytesPerToken is the estimate on which usage and limits stand.
const bytesPerToken = 4

// bound cuts text at the caller's limit, between characters.
func bound(s string, tokens *int64) (text string, cut bool) {
	if tokens == nil || int64(len(s)) <= *tokens*bytesPerToken {
		return s, false
	}
	n := int(max(0, *tokens*bytesPerToken))
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], true
}

// estimate counts tokens by bytes: the same request always costs the same.
func estimate(r llm.Request, t turn, text string) *openai.Usage {
	in, out, thought := len(r.Instructions), len(t.reasoning)+len(text), len(t.reasoning)
	for _, i := range r.Items {
		in += len(i.Raw)
	}
	for _, tool := range r.Tools {
		in += len(tool.Name) + len(tool.Description) + len(tool.Parameters)
	}
	for _, c := range t.calls {
		out += len(c.name) + len(c.arguments)
	}
	tokens := func(n int) int64 { return int64(n+bytesPerToken-1) / bytesPerToken }
	u := &openai.Usage{InputTokens: tokens(in), OutputTokens: tokens(out)}
	u.OutputTokensDetails.ReasoningTokens = tokens(thought)
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return u
}
