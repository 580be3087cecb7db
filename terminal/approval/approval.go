// Package approval decides whether a command may run: at once, never, or after a person was asked. It holds the
// policies, the rules, the questions, the decisions and the grants, all as values.
//
// It never waits, asks nobody and runs nothing: [Decide] is a pure function, and whoever calls it puts the question to
// a person. It is not the boundary either. Rules and classes are text about text; the sandbox and the proxy enforce,
// and an allow rule by itself never takes a command out of the sandbox.
//
// What holds: a rule that forbids wins over everything; allowing needs every part of a command proven or covered; an approval is bound to the [Digest] of all that was approved; what cannot be judged is asked, or refused where
// nobody may be asked.
package approval

import (
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

// Ask says when a person is asked.
type Ask int

// The policies.
const (
	// OnRequest runs sandboxed commands and asks for leaving the sandbox, forced removal and ask rules.
	OnRequest Ask = iota
	// OnFailure is OnRequest that also offers to run a command again outside when the sandbox denied it something.
	OnFailure
	// UnlessTrusted runs only what is proven read-only or allowed by a rule, asks for the rest, and offers the retry.
	UnlessTrusted
	// Never asks nothing: what would be asked is refused, and the sandbox stays.
	Never
)

var askNames = [...]string{"on-request", "on-failure", "untrusted", "never"}

// String returns the policy's name in configuration.
func (a Ask) String() string {
	if a < 0 || int(a) >= len(askNames) {
		return "invalid"
	}
	return askNames[a]
}

// ParseAsk reads a policy's name; unless-trusted is another name of untrusted.
func ParseAsk(name string) (Ask, error) {
	if name == "unless-trusted" {
		return UnlessTrusted, nil
	}
	for i, known := range askNames {
		if name == known {
			return Ask(i), nil
		}
	}
	return OnRequest, fault.New(fault.Invalid, "There is no approval policy %q.", name).WithTry("%s", strings.Join(askNames[:], ", "))
}

// Granular says for each class of question whether a person may be asked. A class that may not is refused.
type Granular struct{ Escalation, Removal, Rules, Untrusted bool }

// Policy is what the operator and the user have decided before any command came.
type Policy struct {
	Ask      Ask
	Granular *Granular // nil = every class may be asked
	Locked   bool      // nothing leaves the sandbox, whoever approves
}

// Confinement is what stands around a command that is not escalated.
type Confinement int

// The confinements.
const (
	Confined   Confinement = iota // our sandbox
	External                      // a sandbox that somebody else made
	Unconfined                    // none
)

// String returns the confinement in one word.
func (c Confinement) String() string {
	switch c {
	case Confined:
		return "sandbox"
	case External:
		return "external"
	}
	return "none"
}

// Variable is one difference of a command's environment from what it would have anyway.
type Variable struct {
	Name, Value string
	Unset       bool
}

// Call is one command as it would run.
type Call struct {
	Script        *command.Script
	Argv          []string // the exact argument list, the shell's own included
	Cwd           string   // absolute
	Workspace     []string // folders that cd may reach without a question; empty = Cwd
	Env           []Variable
	TTY           bool
	Profile       string // digest of the sandbox policy and limits in force
	Confinement   Confinement
	Escalate      bool     // it asks to run outside the sandbox
	Permissions   string   // further permissions that it asks for, in one canonical text
	Justification string   // the model's own words; shown, and never weighed
	Prefix        []string // a rule that the model proposes for "always"
	Now           time.Time
}

// Verdict is the answer for a part or a call.
type Verdict int

// The verdicts, in order of weight.
const (
	Allowed Verdict = iota
	Asked
	Forbidden
)

// String returns the verdict as rules and explanations spell it.
func (v Verdict) String() string { return [...]string{"allow", "ask", "forbid"}[v] }

// Decision is [Allow], [Forbid] or [Question].
type Decision interface{ decision() }

// Allow lets the command run.
type Allow struct {
	Bypass bool   // it runs without our sandbox: there is none, or a person approved leaving it
	Retry  bool   // if the sandbox denies it something, a person may be offered to run it outside
	Grant  string // the grant that answered, to be spent if it is for once
	Digest Digest
	Parts  []Judged
}

// Forbid refuses the command.
type Forbid struct {
	Why    string // one sentence that the model may see
	Digest Digest
	Parts  []Judged
}

// Question is what a person must be asked.
type Question struct {
	Parts         []Judged // every part, whole, in order of writing
	Reasons       []string
	Justification string
	Proposed      []Rule  // what "always" would save, one per sub-command, exactly as shown; empty = it cannot be offered
	Scopes        []Scope // what may be granted
	Outside       bool    // approval takes it out of the sandbox
	Effect        string  // what approval does, in one sentence
	Digest        Digest
}

func (Allow) decision()    {}
func (Forbid) decision()   {}
func (Question) decision() {}

// Judged is one part with its verdict.
type Judged struct {
	Text    string   // as it should be shown: whole, on one line
	Argv    []string // nil if a word is not known before it runs
	Class   command.Class
	Verdict Verdict
	Rule    *Rule // the rule that decided, if one did
	Why     string

	covered bool // proven or allowed by a rule: the unsure parts are what UnlessTrusted asks about
	removal bool
}
