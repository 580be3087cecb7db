package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Script is a run that somebody wrote, a JSON file. It starts anew with every user message. Which turn comes next follows
// from the number of calls since then, or from the rules.
type Script struct {
	About string `json:"about"` // for people
	Turns []Turn `json:"turns"`
	Rules []Rule `json:"rules"`
	Loop  bool   `json:"loop"` // the last turn comes again and again
}

// Turn is one turn of a script: thinking, then text, then calls, then an end.
type Turn struct {
	Reasoning string        `json:"reasoning"`
	Text      string        `json:"text"`
	Calls     []Call        `json:"calls"`
	Stop      string        `json:"stop"`     // max_output_tokens or content_filter: the turn ends early
	Fail      *Failure      `json:"fail"`     // the turn breaks
	DelayMS   int           `json:"delay_ms"` // before every piece
	Usage     *openai.Usage `json:"usage"`    // null: an estimate
}

// Call is one call. Name "" is the declared shell. Either Commands, which fill the shell's schema, or Arguments: an
// object, or a string that is sent as it is, valid or not.
type Call struct {
	Name      string          `json:"name"`
	Commands  []string        `json:"commands"`
	Arguments json.RawMessage `json:"arguments"`
}

// Failure breaks a turn after a number of pieces.
type Failure struct {
	After   int    `json:"after"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (f *Failure) fault() error {
	code, message := f.Code, f.Message
	if code == "" {
		code = "server_error"
	}
	if message == "" {
		message = "the scripted model failed, as its script says"
	}
	return fault.New(fault.Upstream, "%s", message).WithCode(code)
}

// pause is the wait before each piece.
type pause time.Duration

func (p pause) wait(ctx context.Context) error {
	if p <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(time.Duration(p))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// scriptMark chooses a script in the first line of the last user message.
const scriptMark = "%% script "

// script loads the script that is asked for by the model's name or by the user's first line, nil if none is.
func (p *Provider) script(model string, c conversation) (*Script, error) {
	name := ""
	if model != Name && model != "" {
		name = model
	}
	if line, _, _ := strings.Cut(c.user, "\n"); strings.HasPrefix(line, scriptMark) {
		name = strings.TrimSpace(strings.TrimPrefix(line, scriptMark))
	}
	if name == "" {
		return nil, nil
	}
	unknown := fault.New(fault.NotFound, "the scripted model has no script named %q", name).WithCode("model_not_found").WithParam("model")
	if !fs.ValidPath(name) {
		return nil, unknown
	}
	for _, dir := range p.scripts {
		raw, err := fs.ReadFile(dir, name+".json")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the script %q cannot be read", name)
		}
		return parseScript(name, raw)
	}
	return nil, unknown
}

func parseScript(name string, raw []byte) (*Script, error) {
	var s Script
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the script %q is not of a known form", name)
	}
	if err := s.compile(); err != nil {
		return nil, fault.New(fault.Invalid, "the script %q cannot be followed: %s", name, err).WithCode("invalid_prompt").WithParam("model")
	}
	return &s, nil
}

// turn chooses the script's turn by the calls made since the user spoke.
func (s *Script) turn(c conversation, t *tool) (turn, error) {
	if len(s.Rules) > 0 {
		return s.ruled(c, t)
	}
	left := len(c.calls)
	i := 0
	for i < len(s.Turns) && len(s.Turns[i].Calls) > 0 && left >= len(s.Turns[i].Calls) {
		left -= len(s.Turns[i].Calls)
		i++
	}
	if i == len(s.Turns) {
		if !s.Loop || len(s.Turns) == 0 {
			return turn{text: label + "the script is over."}, nil
		}
		i--
	}
	return s.Turns[i].play(c, t)
}

// play makes the turn of a recorded one.
func (recorded Turn) play(c conversation, t *tool) (turn, error) {
	out := turn{reasoning: recorded.Reasoning, text: recorded.Text, stop: recorded.Stop, fail: recorded.Fail,
		delay: pause(time.Duration(recorded.DelayMS) * time.Millisecond), usage: recorded.Usage}
	for _, rec := range recorded.Calls {
		made, err := rec.fill(t)
		if err != nil {
			return turn{}, err
		}
		if made == nil { // the tools were taken away: say so instead of calling
			return turn{text: quote(c.calls, nil) + "\nI may run nothing more now.\n"}, nil
		}
		out.calls = append(out.calls, *made)
	}
	return out, nil
}

// fill makes the call of a recorded one, nil if it needs a shell and there is none.
func (rec Call) fill(t *tool) (*call, error) {
	c := call{name: rec.Name}
	if c.name == "" || rec.Arguments == nil {
		if t == nil {
			return nil, nil
		}
		c.name = t.name
	}
	switch {
	case rec.Arguments == nil:
		c.arguments = t.arguments(rec.Commands)
	case rec.Arguments[0] == '"':
		if err := json.Unmarshal(rec.Arguments, &c.arguments); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "a script's arguments cannot be read")
		}
	default:
		c.arguments = string(rec.Arguments)
	}
	return &c, nil
}
