package scripted

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// conversation is what the model reads: the last user message and the calls made since.
type conversation struct {
	user  string
	calls []made
}

// made is a call of the past with its result.
type made struct {
	id        string
	name      string
	arguments string
	answered  bool
	results   []result
	turn      int // of the model, since the user spoke
}

// result is what one command did, as far as the answer to the call tells it.
type result struct {
	command        string
	stdout, stderr string
	ending         string // such as "exit 1"; empty: not told
	note           string // what else the answer says
	failed         bool
}

// failed says whether any command of the call failed.
func (m made) failed() bool {
	for _, r := range m.results {
		if r.failed {
			return true
		}
	}
	return false
}

// read finds the last user message and what came of it.
func read(items []openai.Item) conversation {
	var c conversation
	turn, open := 0, 0 // calls without an answer
	for _, item := range items {
		switch item.Type {
		case openai.TypeMessage:
			var m openai.Message
			if item.Role == "user" && item.Decode(&m) == nil {
				c, turn, open = conversation{user: userText(m.Content)}, 0, 0
			}
		case openai.TypeFunctionCall:
			var f openai.FunctionCall
			if item.Decode(&f) == nil {
				if open == 0 { // the calls of a turn come together, before their answers
					turn++
				}
				open++
				c.calls = append(c.calls, made{id: f.CallID, name: f.Name, arguments: f.Arguments, turn: turn})
			}
		case openai.TypeFunctionCallOutput:
			var o openai.FunctionCallOutput
			if item.Decode(&o) != nil {
				continue
			}
			for i := range c.calls {
				if c.calls[i].id == o.CallID {
					if !c.calls[i].answered {
						open--
					}
					c.calls[i].answered, c.calls[i].results = true, parseResults(string(o.Output))
				}
			}
		}
	}
	return c
}

// fileMark begins the text that the agent puts in a file's place. A file's lines are data: none of them is a command.
const fileMark = "[file "

// userText joins a message's texts as lines of their own: a marker at the start of a part stays at a line's start.
func userText(content openai.Content) string {
	var texts []string
	for _, p := range content {
		if p.Text != "" && !strings.HasPrefix(p.Text, fileMark) {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// parseResults reads a call's answer. The gateway's own form is one JSON object a command; any other text, such as
// that of a client's own tool, is taken as output, and its exit code is looked for in the usual phrases.
func parseResults(output string) []result {
	dec := json.NewDecoder(strings.NewReader(output))
	var results []result
	for {
		var o struct {
			Command  *string `json:"command"`
			Stdout   *string `json:"stdout"`
			Stderr   *string `json:"stderr"`
			Output   *string `json:"output"`
			Error    any     `json:"error"`
			ExitCode *int    `json:"exit_code"`
			BashCode *int    `json:"exitCode"` // of the Messages API's bash
			TimedOut any     `json:"timed_out"`
			Reason   any     `json:"reason"`
			Note     any     `json:"note"`
		}
		if err := dec.Decode(&o); err != nil {
			if dec.More() || len(results) == 0 {
				return []result{plainResult(output)}
			}
			return results
		}
		if o.ExitCode == nil {
			o.ExitCode = o.BashCode
		}
		if o.Stdout == nil && o.Stderr == nil && o.Output == nil && o.ExitCode == nil && o.TimedOut == nil && o.Error == nil {
			return []result{plainResult(output)}
		}
		r := result{command: deref(o.Command), stdout: deref(o.Stdout) + deref(o.Output), stderr: deref(o.Stderr)}
		switch {
		case o.TimedOut != nil && o.TimedOut != false:
			r.ending, r.failed = "timed out", true
		case o.ExitCode != nil:
			r.ending, r.failed = "exit "+strconv.Itoa(*o.ExitCode), *o.ExitCode != 0
		}
		if s, ok := o.Error.(string); ok && s != "" {
			r.stderr, r.failed = strings.TrimPrefix(r.stderr+"\n"+s, "\n"), true
		}
		if s, ok := o.Reason.(string); ok && s != "" {
			r.ending = strings.TrimPrefix(r.ending+", "+s, ", ")
		}
		if s, ok := o.Note.(string); ok {
			r.note = s
		}
		results = append(results, r)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// exitPhrase finds "exit code: 1", "exited with status 2", "Exit code 0" and the like.
var exitPhrase = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\bexit(?:ed)?(?: with)?[ _]?(?:code|status)?[ "]*[:=]? *(-?\d+)`)
})

// plainResult reads a text of no known form.
func plainResult(text string) result {
	r := result{stdout: text}
	if m := exitPhrase().FindStringSubmatch(text); m != nil {
		r.ending, r.failed = "exit "+m[1], m[1] != "0"
	} else if head := strings.ToLower(strings.TrimSpace(text)); strings.HasPrefix(head, "error") || strings.Contains(head, "timed out") {
		r.failed = true
	}
	return r
}
