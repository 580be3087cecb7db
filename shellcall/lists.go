package shellcall

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// readList makes rules of the beginnings of commands: "git status", "npm test".
func readList(name, decision string, list []string) ([]approval.Rule, error) {
	var text strings.Builder
	for _, entry := range list {
		words := strings.Fields(entry)
		if len(words) == 0 {
			return nil, fault.New(fault.Invalid, "An entry of the %s list is empty.", name)
		}
		quoted, err := json.Marshal(words)
		if err != nil {
			return nil, fmt.Errorf("read the %s list: %w", name, err)
		}
		fmt.Fprintf(&text, "[[rule]]\nprefix = %s\ndecision = %q\n", quoted, decision)
		if decision == "forbid" {
			why, err := json.Marshal("`" + strings.Join(words, " ") + "` is on the deny list.")
			if err != nil {
				return nil, fmt.Errorf("read the %s list: %w", name, err)
			}
			fmt.Fprintf(&text, "why = %s\n", why)
		}
	}
	return approval.Load(name+" list", []byte(text.String()), approval.User)
}

// listed is an approval policy under which nothing runs but what an allow list names. What it names is then decided as
// ever: the list takes away and gives nothing.
type listed struct {
	terminal.ApprovalPolicy
	allow []approval.Rule
}

// Name tells the policy from the one below it: an approval that was given without the list does not count with it.
func (l listed) Name() string { return l.ApprovalPolicy.Name() + " of a list" }

// Decide refuses every command of which a part is not on the list.
func (l listed) Decide(call approval.Call, rules []approval.Rule, grants approval.Grants) approval.Decision {
	d := l.ApprovalPolicy.Decide(call, rules, grants)
	if _, no := d.(approval.Forbid); no || call.Script == nil {
		return d
	}
	inside := call
	inside.Escalate = false
	var parts []approval.Judged
	var digest approval.Digest
	switch by := approval.Decide(inside, approval.Policy{Ask: approval.UnlessTrusted}, l.allow, nil).(type) {
	case approval.Allow:
		parts, digest = by.Parts, by.Digest
	case approval.Question:
		parts, digest = by.Parts, by.Digest
	case approval.Forbid:
		return by
	}
	if len(parts) == 0 || len(parts) != len(call.Script.Parts) {
		return approval.Forbid{Why: "It cannot be told what it runs, and only what is on the allow list runs here.", Digest: digest, Parts: parts}
	}
	for i, p := range parts {
		onList := p.Verdict == approval.Allowed && p.Rule != nil && p.Rule.Verdict == approval.Allowed
		if !onList && !call.Script.Parts[i].Transparent {
			return approval.Forbid{Why: fmt.Sprintf("`%s` is not on the allow list.", p.Text), Digest: digest, Parts: parts}
		}
	}
	return d
}
