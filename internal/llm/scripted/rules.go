package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Rule is what a script with rules does when something has come last. Of the rules that fit the first one counts.
//
// In text and in arguments {{1}} or {{name}} is what a group of the expression matched, of output where the rule has one
// and else of user. In commands it is quoted for the shell: nothing that a message or an output says becomes syntax.
type Rule struct {
	When When `json:"when"`
	Turn
}

// When says what a rule waits for; all that it names must be so. A rule that names user alone waits for the user's
// message, not for what comes of it; one that names nothing fits always.
type When struct {
	User   string `json:"user"`   // an expression on the text of the last user message
	Output string `json:"output"` // an expression on what the last turn's commands printed; the rule waits for that then
	Failed *bool  `json:"failed"` // whether one of the last calls failed
	Turn   int    `json:"turn"`   // the model's turn since the user spoke, from 1

	user, output *regexp.Regexp
}

// compile checks the rules and reads their expressions.
func (s *Script) compile() error {
	if len(s.Rules) > 0 && (len(s.Turns) > 0 || s.Loop) {
		return errors.New("a script has rules or turns, not both")
	}
	for i := range s.Rules {
		r := &s.Rules[i]
		for _, e := range []struct {
			name, text string
			to         **regexp.Regexp
		}{{"user", r.When.User, &r.When.user}, {"output", r.When.Output, &r.When.output}} {
			if e.text == "" {
				continue
			}
			read, err := regexp.Compile(e.text)
			if err != nil {
				return fmt.Errorf("rule %d: when.%s: %w", i+1, e.name, err)
			}
			*e.to = read
		}
		switch {
		case r.When.Turn < 0:
			return fmt.Errorf("rule %d: when.turn counts from 1", i+1)
		case r.When == When{} && len(r.Calls) > 0:
			return fmt.Errorf("rule %d fits always and calls: it would never end; name user, output, failed or turn", i+1)
		}
		for _, c := range r.Calls {
			if len(c.Commands) == 0 && c.Arguments == nil {
				return fmt.Errorf("rule %d: a call has commands or arguments", i+1)
			}
		}
	}
	return nil
}

// last is what came last: what the last turn's calls printed, and the number of the turn that is due.
func (c conversation) last() (output string, failed bool, turn int) {
	turn = 1
	var texts []string
	for i, m := range c.calls {
		if i == 0 || m.turn != c.calls[i-1].turn {
			turn++
			texts, failed = nil, false
		}
		texts = append(texts, m.printed())
		failed = failed || m.failed()
	}
	return strings.Join(texts, "\n"), failed, turn
}

// printed is what the call's commands wrote, stderr behind stdout.
func (m made) printed() string {
	var b strings.Builder
	for _, r := range m.results {
		b.WriteString(r.stdout)
		b.WriteString(r.stderr)
	}
	return b.String()
}

// fits says whether a rule does, and what the groups of its expression matched.
func (w When) fits(c conversation) (groups map[string]string, ok bool) {
	output, failed, turn := c.last()
	match := func(e *regexp.Regexp, text string) bool {
		if e == nil {
			return true
		}
		found := e.FindStringSubmatch(text)
		if found == nil {
			return false
		}
		groups = map[string]string{}
		for i, name := range e.SubexpNames() {
			groups[fmt.Sprint(i)] = found[i]
			if name != "" {
				groups[name] = found[i]
			}
		}
		return true
	}
	if w.Turn > 0 && w.Turn != turn || !match(w.user, c.user) {
		return nil, false
	}
	waits := w.output != nil || w.Failed != nil
	switch {
	case waits && turn == 1, w.Failed != nil && *w.Failed != failed:
		return nil, false
	case !waits && w.Turn == 0 && w.user != nil && turn > 1:
		return nil, false
	}
	return groups, match(w.output, output)
}

// ruled chooses the turn by the rules.
func (s *Script) ruled(c conversation, t *tool) (turn, error) {
	for _, r := range s.Rules {
		groups, ok := r.When.fits(c)
		if !ok {
			continue
		}
		return r.Turn.with(groups).play(c, t)
	}
	output, _, n := c.last()
	came := c.user
	if n > 1 {
		came = output
	}
	return turn{text: label + "no rule fits what came last: " + echo(came)}, nil
}

// hole is where a group's match goes.
const holeStart, holeEnd = "{{", "}}"

// fill puts what matched into the holes of a text. A hole whose name is no group stays.
func fill(text string, groups map[string]string, quote func(string) string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, holeStart)
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, closed := strings.Cut(rest, holeEnd)
		value, known := groups[strings.TrimSpace(name)]
		if !closed || !known {
			b.WriteString(holeStart)
			text = rest
			continue
		}
		b.WriteString(quote(value))
		text = after
	}
}

func plain(s string) string { return s }

// inJSON escapes a text for the inside of a JSON string.
func inJSON(s string) string {
	raw, err := openai.Marshal(s)
	if err != nil { // a string always marshals
		return ""
	}
	return string(raw[1 : len(raw)-1])
}

// shellWord quotes a text for a POSIX shell.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// with fills a turn's holes.
func (t Turn) with(groups map[string]string) Turn {
	t.Reasoning, t.Text = fill(t.Reasoning, groups, plain), fill(t.Text, groups, plain)
	calls := make([]Call, len(t.Calls))
	for i, c := range t.Calls {
		c.Commands = append([]string(nil), c.Commands...)
		for k := range c.Commands {
			c.Commands[k] = fill(c.Commands[k], groups, shellWord)
		}
		if c.Arguments != nil {
			c.Arguments = json.RawMessage(fill(string(c.Arguments), groups, inJSON))
		}
		calls[i] = c
	}
	t.Calls = calls
	return t
}
