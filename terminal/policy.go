package terminal

import (
	"strings"

	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// ApprovalPolicy decides what a person is asked. [AskFor] has the known ones; one of your own may decide otherwise, and
// brings the text that tells the model how to live with it.
type ApprovalPolicy interface {
	// Name is the policy's name in results, events and digests.
	Name() string
	// Decide answers for one command. It is pure: it asks nobody.
	Decide(call approval.Call, rules []approval.Rule, grants approval.Grants) approval.Decision
	// Retries says whether a person may be offered to run a call again outside once the sandbox has denied it something.
	Retries(call approval.Call) bool
	// AsksUntrusted says whether what nobody has proven harmless is asked about.
	AsksUntrusted() bool
	// Prompt tells the model what is asked and what is refused.
	Prompt() string
}

// AskFor is one of the known policies: approval.Policy{Ask: approval.Never} and the like. The zero value asks on request.
func AskFor(p approval.Policy) ApprovalPolicy { return knownPolicy{p} }

type knownPolicy struct{ policy approval.Policy }

func (k knownPolicy) Name() string { return k.policy.Ask.String() }

func (k knownPolicy) Decide(call approval.Call, rules []approval.Rule, grants approval.Grants) approval.Decision {
	return approval.Decide(call, k.policy, rules, grants)
}

func (k knownPolicy) Retries(call approval.Call) bool { return approval.Retries(call, k.policy) }

func (k knownPolicy) AsksUntrusted() bool { return k.policy.Ask == approval.UnlessTrusted }

// The texts by which a model is told of a policy.
var prompts = map[approval.Ask]string{
	approval.Never: "Nobody can be asked. Commands run in the sandbox. A request to leave it (sandbox_permissions: require_escalated) is refused at once: " +
		"do without, or say what you could not do.",
	approval.OnRequest: "Commands run in the sandbox without a question. When the sandbox keeps a command from something, its result says what and what would allow it. " +
		"If the task needs it, call again with sandbox_permissions: require_escalated and a justification of one sentence: a person is asked. " +
		"Forced removals, and commands that a rule names, are asked about too.",
	approval.OnFailure: "Commands run in the sandbox. When it keeps a command from something, a person is offered to run it again outside. " +
		"You may also ask to leave it at once with sandbox_permissions: require_escalated and a justification of one sentence. Forced removals are asked about.",
	approval.UnlessTrusted: "Commands that are proven to only read, or that a rule allows, run in the sandbox without a question; a person is asked about all others. " +
		"Prefer plain commands (ls, cat, grep, rg, sed -n, git status): redirections, substitutions and variables cannot be proven.",
}

// Prompt tells of the policy and of the classes of question that nobody is asked.
func (k knownPolicy) Prompt() string {
	text := prompts[k.policy.Ask]
	var closed []string
	if g := k.policy.Granular; g != nil && k.policy.Ask != approval.Never {
		for _, class := range []struct {
			open bool
			name string
		}{{g.Escalation, "leaving the sandbox"}, {g.Removal, "forced removals"}, {g.Rules, "what a rule asks about"}, {g.Untrusted, "what is not proven to only read"}} {
			if !class.open {
				closed = append(closed, class.name)
			}
		}
	}
	if len(closed) > 0 {
		text += " Refused without a question: " + strings.Join(closed, ", ") + "."
	}
	if k.policy.Locked {
		text += " The sandbox is locked: nothing leaves it, whoever approves."
	}
	return text
}
