package approvals

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hardshell-dev/hardshell/terminal/approval"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

// Policy is what the hosted commands of an organisation are held to. The zero value asks about what a person should see
// first; a policy that never asks and has no rules is [Policy.Quiet].
type Policy struct {
	Ask   approval.Ask
	Rules []approval.Rule
}

// Quiet says whether the policy lets every command run, as a container may have it.
func (p Policy) Quiet() bool { return p.Ask == approval.Never && len(p.Rules) == 0 }

// Policies are the operator's, by organisation.
type Policies struct {
	Default Policy
	Orgs    map[string]Policy
}

// Of returns an organisation's policy.
func (p Policies) Of(org string) Policy {
	if own, ok := p.Orgs[org]; ok {
		return own
	}
	return p.Default
}

// Call is a call of the shell as it would run.
type Call struct {
	Container string
	Workdir   string // where a relative Dir begins
	Commands  []string
	Dir       string
	Env       map[string]string
	Stdin     string
	Network   string // what the request narrows, in one canonical text
	Shell     bool   // one shell runs this call and those before it: what they left in it cannot be told from the text
	Granted   []approval.Digest
	Now       time.Time
}

// Verdict says what becomes of a call before a person has said anything.
type Verdict string

// The verdicts.
const (
	Run    Verdict = "run"
	Asks   Verdict = "ask"
	Refuse Verdict = "refuse"
)

// Ruling is a policy's verdict on a call, with exactly what it is about.
type Ruling struct {
	Verdict  Verdict
	Digest   string   // of the whole call
	Parts    []string // the digests of the commands that ask
	Why      []string // of one that is refused, a sentence for each command
	Question Question
}

// Question is what a person is shown. It is whole: what is not in it does not run.
type Question struct {
	Commands []Command         `json:"commands"`
	Cwd      string            `json:"working_directory"`
	Env      map[string]string `json:"env,omitempty"`
	Stdin    string            `json:"stdin,omitempty"`
	Policy   string            `json:"policy"`
}

// Command is one command of a call, with why it is asked about.
type Command struct {
	Command string   `json:"command"`
	Asks    bool     `json:"asks"`
	Reasons []string `json:"reasons,omitempty"`
	Parts   []Part   `json:"parts"`
}

// Part is one part of a command with what decided about it.
type Part struct {
	Text    string `json:"text"`
	Class   string `json:"class"`
	Verdict string `json:"verdict"`
	Rule    string `json:"rule,omitempty"`
	Why     string `json:"why,omitempty"`
}

// notRun is told of the commands beside one that is refused: nothing of a call runs that is not all allowed.
const notRun = "Another command of this call was refused, so nothing of the call was run."

// Judge decides about a call. It is a pure function. Nothing that a call brings along allows more: there is no leaving
// the box, whoever approves, and no grant counts that was not made for exactly this command in this container.
func (p Policy) Judge(c Call) Ruling {
	policy := approval.Policy{Ask: p.Ask, Locked: true}
	var grants approval.Grants
	profile := fmt.Sprintf("hosted 1\ncontainer %s\nnetwork %s", c.Container, c.Network)
	if c.Shell {
		c.Granted, profile = nil, profile+"\nshell" // the same words may do something else by now
	}
	for _, d := range c.Granted {
		grants = append(grants, approval.Grant{ID: string(d), Scope: approval.Session, Digest: d, Expires: c.Now.Add(time.Hour)})
	}
	cwd := c.Dir
	switch {
	case cwd == "":
		cwd = c.Workdir
	case cwd[0] != '/':
		cwd = c.Workdir + "/" + cwd
	}
	r := Ruling{Verdict: Run, Question: Question{Cwd: cwd, Env: c.Env, Stdin: c.Stdin, Policy: p.Ask.String()}}
	var env []approval.Variable
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, approval.Variable{Name: name, Value: c.Env[name]})
	}
	stdin := sha256.Sum256([]byte(c.Stdin))
	whole := sha256.New()
	refused := false
	for _, text := range c.Commands {
		script, _ := command.Parse(text, command.Bash) // without one it is refused
		call := approval.Call{Script: script, Argv: []string{"bash", "-c", text}, Cwd: cwd, Workspace: []string{c.Workdir}, Env: env,
			Profile:     profile,
			Permissions: "stdin sha256:" + hex.EncodeToString(stdin[:]), Confinement: approval.Confined, Now: c.Now}
		digest := approval.DigestOf(call, policy)
		fmt.Fprintln(whole, digest)
		shown := Command{Command: text}
		why := ""
		switch d := approval.Decide(call, policy, p.Rules, grants).(type) {
		case approval.Allow:
			shown.Parts = parts(d.Parts)
			if c.Shell && p.Ask == approval.UnlessTrusted {
				shown.Asks, shown.Reasons = true, []string{"It runs in a shell whose functions and variables earlier commands may have changed."}
			}
		case approval.Question:
			shown.Asks, shown.Reasons, shown.Parts = true, d.Reasons, parts(d.Parts)
		case approval.Forbid:
			shown.Parts = parts(d.Parts)
			why, refused = d.Why, true
		default:
			why, refused = "It cannot be judged.", true
		}
		if shown.Asks {
			r.Parts = append(r.Parts, string(digest))
			r.Verdict = Asks
		}
		r.Why = append(r.Why, why)
		r.Question.Commands = append(r.Question.Commands, shown)
	}
	r.Digest = "sha256:" + hex.EncodeToString(whole.Sum(nil))
	if !refused {
		r.Why = nil
		return r
	}
	r.Verdict, r.Parts = Refuse, nil
	for i, why := range r.Why {
		if why == "" {
			r.Why[i] = notRun
		}
	}
	return r
}

func parts(judged []approval.Judged) (out []Part) {
	for _, j := range judged {
		p := Part{Text: j.Text, Class: j.Class.String(), Verdict: j.Verdict.String(), Why: j.Why}
		if j.Rule != nil {
			p.Rule = j.Rule.String()
		}
		out = append(out, p)
	}
	return out
}
