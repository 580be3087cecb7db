package audit

import (
	"time"
)

// Kind says what an entry tells.
type Kind string

// The kinds.
const (
	KindWriter   Kind = "writer"   // a writer began; in the list of writers only
	KindBegin    Kind = "begin"    // a command was about to start
	KindEnd      Kind = "end"      // it ended
	KindRefused  Kind = "refused"  // it never started
	KindApproval Kind = "approval" // a question was answered
	KindPruned   Kind = "pruned"   // a session was ended, or forgotten, to make room
)

// Entry is one thing that happened. Texts are masked when they are written; digests are of what was there.
type Entry struct {
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`

	Call    string `json:"call,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Session int    `json:"session,omitempty"`
	Source  string `json:"source,omitempty"` // who it is from: agent, user_shell
	Writer  string `json:"writer,omitempty"`
	Whose

	Command       []string `json:"command,omitempty"`
	Parts         []string `json:"parts,omitempty"` // the command, parsed, a line each
	CommandDigest string   `json:"command_digest,omitempty"`
	Cwd           string   `json:"cwd,omitempty"`

	Decision *Decision `json:"decision,omitempty"`
	Limits   *Limits   `json:"limits,omitempty"`
	Outcome  *Outcome  `json:"outcome,omitempty"`
	Note     string    `json:"note,omitempty"`
}

// Whose says for whom a command ran where it is not the user of this machine.
type Whose struct {
	Org       string `json:"org,omitempty"`
	Key       string `json:"key,omitempty"` // its id
	Container string `json:"container,omitempty"`
}

// Decision is what let a command run or kept it from running, and who decided.
type Decision struct {
	Outcome string   `json:"outcome,omitempty"` // allow, ask or forbid
	By      string   `json:"by,omitempty"`      // policy, rule, grant, or a person's name
	Answer  string   `json:"answer,omitempty"`
	Why     string   `json:"why,omitempty"`
	Rules   []string `json:"rules,omitempty"` // with file and line
	Grant   string   `json:"grant,omitempty"`
	Outside bool     `json:"outside,omitempty"` // of the sandbox
	Digest  string   `json:"digest,omitempty"`  // what exactly was decided about
}

// Limits are what the command was held to.
type Limits struct {
	Sandbox string        `json:"sandbox,omitempty"`
	Asked   string        `json:"asked,omitempty"`
	Got     string        `json:"got,omitempty"`
	Missing []string      `json:"missing,omitempty"`
	Profile string        `json:"profile,omitempty"` // digest of all that confines it
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	Attempt int           `json:"attempt,omitempty"`
}

// Outcome is how a command ended.
type Outcome struct {
	ExitCode     int           `json:"exit_code"`
	Signal       string        `json:"signal,omitempty"`
	TimedOut     bool          `json:"timed_out,omitempty"`
	Error        string        `json:"error,omitempty"`
	Message      string        `json:"message,omitempty"`
	Denial       string        `json:"denial,omitempty"`
	Stdout       int64         `json:"stdout_bytes"`
	Stderr       int64         `json:"stderr_bytes"`
	Duration     time.Duration `json:"duration_ns"`
	Output       string        `json:"output,omitempty"` // its beginning
	OutputDigest string        `json:"output_digest,omitempty"`
}

// The bounds of what is kept of a text. A command that is longer than an audit line may be is told by its digest.
const (
	maxOutput  = 4 << 10
	maxCommand = 64 << 10
)

// bounded cuts a text where a character ends, and says so.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most] + "[cut]"
}

// masked returns the entry as it may be written.
func (e Entry) masked(mask func(string) string) Entry {
	keepOutput := mask != nil
	if mask == nil {
		mask = func(s string) string { return s }
	}
	list := func(in []string) (out []string) {
		room := maxCommand
		for _, s := range in {
			if room <= 0 {
				return append(out, "[cut]")
			}
			s = bounded(mask(s), min(room, maxCommand))
			room -= len(s)
			out = append(out, s)
		}
		return out
	}
	e.Command, e.Parts = list(e.Command), list(e.Parts)
	e.Cwd, e.Note = bounded(mask(e.Cwd), maxOutput), bounded(mask(e.Note), maxOutput)
	if d := e.Decision; d != nil {
		out := *d
		out.Why, out.Answer, out.Rules = bounded(mask(d.Why), maxOutput), bounded(mask(d.Answer), maxOutput), list(d.Rules)
		e.Decision = &out
	}
	if o := e.Outcome; o != nil {
		out := *o
		out.Message, out.Denial = bounded(mask(o.Message), maxOutput), bounded(mask(o.Denial), maxOutput)
		out.Output = ""
		if keepOutput {
			out.Output = bounded(mask(o.Output), maxOutput)
		}
		e.Outcome = &out
	}
	return e
}
