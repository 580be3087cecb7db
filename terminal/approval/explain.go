package approval

import (
	"fmt"
	"strings"
)

// Explanation says for a call what would be decided, and for each part by what. It is made by the same code that
// decides.
type Explanation struct {
	Decision string          `json:"decision"` // allow, ask or forbid
	Why      []string        `json:"why,omitempty"`
	Parts    []ExplainedPart `json:"parts"`
	Sandbox  string          `json:"sandbox"` // sandbox, external, none; or outside, if approval takes it there
	Approval string          `json:"approval"`
	Digest   Digest          `json:"digest"`
}

// ExplainedPart is one part of an explanation.
type ExplainedPart struct {
	Text     string   `json:"text"`
	Argv     []string `json:"argv"` // null if a word is not known before it runs
	Class    string   `json:"class"`
	Decision string   `json:"decision"`
	Rule     string   `json:"rule,omitempty"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
	Why      string   `json:"why"`
}

// Explain tells what [Decide] decides and why.
func Explain(call Call, policy Policy, rules []Rule, grants Grants) Explanation {
	return ExplainDecision(Decide(call, policy, rules, grants), call, policy)
}

// ExplainDecision tells of a decision that was made under a policy, or by one that goes on from it.
func ExplainDecision(decision Decision, call Call, policy Policy) Explanation {
	e := Explanation{Sandbox: call.Confinement.String(), Approval: policy.Ask.String(), Parts: []ExplainedPart{}}
	var parts []Judged
	switch d := decision.(type) {
	case Allow:
		e.Decision, parts, e.Digest = Allowed.String(), d.Parts, d.Digest
		if d.Bypass && call.Confinement == Confined {
			e.Sandbox = "outside"
		}
		if d.Grant != "" {
			e.Why = []string{"It was approved before (" + d.Grant + ")."}
		}
	case Forbid:
		e.Decision, parts, e.Digest, e.Why = Forbidden.String(), d.Parts, d.Digest, []string{d.Why}
	case Question:
		e.Decision, parts, e.Digest, e.Why = Asked.String(), d.Parts, d.Digest, d.Reasons
		if d.Outside {
			e.Sandbox = "outside"
		}
	}
	for _, j := range parts {
		p := ExplainedPart{Text: j.Text, Argv: j.Argv, Class: j.Class.String(), Decision: j.Verdict.String(), Why: j.Why}
		quiet := policy.Ask == Never || call.Confinement == Unconfined && policy.Ask != UnlessTrusted
		if j.Verdict == Asked && j.Rule.Verdict == Asked && silent(call, policy) {
			p.Decision, p.Why = Allowed.String(), j.Why+" Nothing is asked: there is no sandbox, and the policy is on-request."
		}
		if j.Verdict == Allowed && !j.covered {
			switch {
			case policy.Ask == UnlessTrusted, j.removal && !quiet:
				p.Decision = Asked.String()
			case call.Confinement == Confined && !call.Escalate:
				p.Why += " It runs in the sandbox."
			}
		}
		if j.Rule != nil {
			p.Rule, p.File, p.Line = j.Rule.String(), j.Rule.File, j.Rule.Line
		}
		e.Parts = append(e.Parts, p)
	}
	return e
}

// String returns the explanation as lines: the decision, then each part with what decided it.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  (approval %s, %s)\n", e.Decision, e.Approval, e.Sandbox)
	for _, why := range e.Why {
		fmt.Fprintf(&b, "  because %s\n", why)
	}
	for _, p := range e.Parts {
		fmt.Fprintf(&b, "%-7s %s\n        %s: %s\n", p.Decision, p.Text, p.Class, p.Why)
		if p.Rule != "" {
			at := p.File
			if at == "" {
				at = "granted"
			}
			if p.Line > 0 {
				at += fmt.Sprintf(":%d", p.Line)
			}
			fmt.Fprintf(&b, "        rule %s  (%s)\n", p.Rule, at)
		}
	}
	return b.String()
}
