package approval

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/terminal/command"
)

// Decide answers for one call. It is a pure function of its arguments.
//
// A rule that forbids wins. Then a grant for exactly this call answers. Then the policy says which of these are
// questions: leaving the sandbox, an ask rule (or words that could be what a rule names and cannot be told), a forced
// removal in a sandbox, and under UnlessTrusted any part that is neither proven nor allowed. Under Never, and for a
// class that a granular policy closes, a question is a refusal; only a forced removal under Never runs, since guessing
// at what a command does chooses between asking and running and never refuses. OnRequest without any sandbox asks
// nothing: there an ask rule lets run, and what a rule may forbid is refused.
func Decide(call Call, policy Policy, rules []Rule, grants Grants) Decision {
	digest := DigestOf(call, policy)
	parts, loose := judge(call, rules, grants)
	for _, p := range parts {
		if p.Verdict == Forbidden {
			return Forbid{Why: p.Why, Digest: digest, Parts: parts}
		}
	}
	escalates := call.Escalate && call.Confinement == Confined
	switch {
	case call.Escalate && policy.Ask == Never:
		return Forbid{Why: "The approval policy is never: nothing leaves the sandbox. Run it without asking for more.", Digest: digest, Parts: parts}
	case escalates && policy.Locked:
		return Forbid{Why: "The sandbox is locked: nothing leaves it, whoever approves.", Digest: digest, Parts: parts}
	}
	if g, ok := grants.find(digest, call.Now); ok && g.Outside == escalates {
		return Allow{Bypass: call.Confinement != Confined || g.Outside, Grant: g.ID, Retry: !g.Outside && Retries(call, policy), Digest: digest, Parts: parts}
	}
	reasons, refusal := weigh(call, policy, parts, loose, escalates)
	if refusal != "" {
		return Forbid{Why: refusal, Digest: digest, Parts: parts}
	}
	if len(reasons) == 0 {
		return Allow{Bypass: call.Confinement != Confined, Retry: Retries(call, policy), Digest: digest, Parts: parts}
	}
	q := Question{Parts: parts, Reasons: reasons, Justification: call.Justification, Outside: escalates, Digest: digest, Scopes: []Scope{Once, Session}}
	q.Effect = "It runs once, inside the sandbox."
	switch {
	case escalates:
		q.Effect = "It runs OUTSIDE the sandbox, with all that you may do."
	case call.Confinement != Confined:
		q.Effect = "It runs once, without a sandbox of ours."
	}
	if !escalates && len(loose) == 0 {
		if q.Proposed = propose(call, parts, rules, grants); len(q.Proposed) > 0 {
			q.Scopes = append(q.Scopes, Always)
		}
	}
	return q
}

// Retries reports whether a person may be offered to run a call again outside, once our sandbox has denied it something.
// Only OnFailure and UnlessTrusted offer it; elsewhere the denial is told to the model.
func Retries(call Call, policy Policy) bool {
	offers := policy.Ask == OnFailure || policy.Ask == UnlessTrusted
	return offers && call.Confinement == Confined && !policy.Locked && open(policy, func(g Granular) bool { return g.Escalation })
}

// open reports whether a granular policy lets a class be asked.
func open(p Policy, class func(Granular) bool) bool { return p.Granular == nil || class(*p.Granular) }

// silent is OnRequest where there is no sandbox: whoever chose both wants no question.
func silent(call Call, policy Policy) bool {
	return policy.Ask == OnRequest && call.Confinement == Unconfined
}

// weigh gathers what a person must be asked about, or why it is refused instead.
func weigh(call Call, policy Policy, parts []Judged, loose []string, escalates bool) (reasons []string, refusal string) {
	closed := func(ok bool, what string) bool {
		if policy.Ask == Never || !ok {
			if refusal == "" {
				refusal = what + " It would need a person's approval, and the policy lets nobody be asked."
			}
			return true
		}
		return false
	}
	if escalates && !closed(open(policy, func(g Granular) bool { return g.Escalation }), "It asks to leave the sandbox.") {
		reasons = append(reasons, "It asks to run outside the sandbox.")
	}
	silent := silent(call, policy)
	for _, p := range parts {
		if silent && p.Verdict == Asked && p.Rule.Verdict == Asked {
			continue
		}
		if p.Verdict == Asked && !closed(!silent && open(policy, func(g Granular) bool { return g.Rules }), p.Why) {
			reasons = append(reasons, p.Text+": "+p.Why)
		}
	}
	for _, p := range parts {
		quiet := policy.Ask == Never || call.Confinement == Unconfined && policy.Ask != UnlessTrusted
		if p.removal && !p.covered && p.Verdict == Allowed && !quiet &&
			!closed(open(policy, func(g Granular) bool { return g.Removal }), "It removes files without asking.") {
			reasons = append(reasons, p.Text+": it removes files without asking.")
		}
	}
	if policy.Ask != UnlessTrusted {
		return reasons, refusal
	}
	for _, p := range parts {
		if !p.covered && p.Verdict == Allowed && !closed(open(policy, func(g Granular) bool { return g.Untrusted }), "It is not proven to only read.") {
			reasons = append(reasons, p.Text+": "+p.Why)
		}
	}
	for _, why := range loose {
		if !closed(open(policy, func(g Granular) bool { return g.Untrusted }), why) {
			reasons = append(reasons, why)
		}
	}
	return reasons, refusal
}

// judge gives each part its verdict, and says what is unproven about the call as a whole.
func judge(call Call, rules []Rule, grants Grants) (out []Judged, loose []string) {
	if call.Script == nil {
		return []Judged{{Text: strings.Join(call.Argv, " "), Class: command.Unknown, Verdict: Forbidden, Why: "The command was not parsed."}}, nil
	}
	all := slices.Concat(rules, grants.rules(call.Now))
	parts := call.Script.Parts
	leaf := make([]bool, len(parts))
	for i := range parts {
		leaf[i] = true
		if p := parts[i].Parent; p >= 0 && len(parts[i].Wrappers) > len(parts[p].Wrappers) {
			leaf[p] = false
		}
	}
	places := map[string]bool{path.Clean(call.Cwd): true}
	exact := make([]*Rule, len(parts))
	for i := range parts {
		p := &parts[i]
		j := Judged{Text: p.Display(), Class: p.Class, removal: p.ForcedRemoval, covered: p.Class == command.ReadOnly && len(p.Findings) == 0}
		j.Argv, _ = p.Argv()
		j.Why = "It is proven to only read."
		if reasons := p.Reasons(); len(reasons) > 0 {
			j.Why = strings.Join(reasons, "; ") + "."
		}
		if p.Transparent {
			j.Why = "It adds nothing to what it runs."
		}
		if p.Chdir != "" && j.covered {
			if !move(places, p.Chdir, call) {
				j.covered, j.Why = false, "It leaves the workspace."
			} else {
				j.Why = "It stays in the workspace."
			}
		}
		allow(&j, i, parts, exact, all, call)
		restrict(&j, p, leaf[i], all, call)
		out = append(out, j)
	}
	for _, v := range call.Env {
		if v.Unset || !command.HarmlessVariable(v.Name, v.Value) {
			loose = append(loose, fmt.Sprintf("It runs with %s changed, which programs may heed.", v.Name))
		}
	}
	return out, loose
}

// allow looks for a rule that vouches for a part, or for an exact one around it, which says all that its words run.
func allow(j *Judged, i int, parts []command.Part, exact []*Rule, rules []Rule, call Call) {
	p := &parts[i]
	if up := p.Parent; up >= 0 && exact[up] != nil && (len(p.Wrappers) > len(parts[up].Wrappers) || parts[up].Parent >= 0 && exact[parts[up].Parent] == exact[up]) {
		exact[i] = exact[up]
	}
	for n := range rules {
		r := &rules[n]
		if !r.live(call.Now) || !r.covers(p) {
			continue
		}
		if r.Exact && exact[i] == nil {
			exact[i] = r
		}
		if !j.covered {
			j.Why = "A rule allows it."
		}
		if j.covered = true; j.Rule == nil {
			j.Rule = r
		}
	}
	if !j.covered && exact[i] != nil && !p.Doubtful {
		j.covered, j.Rule, j.Why = true, exact[i], "A rule allows exactly the command around it."
	}
	if j.Rule != nil && j.Rule.Why != "" {
		j.Why = j.Rule.Why
	}
}

// restrict looks for the strictest rule that asks about or forbids a part.
func restrict(j *Judged, p *command.Part, leaf bool, rules []Rule, call Call) {
	for n := range rules {
		r := &rules[n]
		if r.Verdict == Allowed || !r.live(call.Now) {
			continue
		}
		verdict, why := r.Verdict, r.Why
		switch r.meets(p, leaf) {
		case no:
			continue
		case maybe:
			verdict, why = Asked, "It cannot be told whether this is "+said(r)+", which a rule decides."
		case yes:
			if why == "" {
				why = map[Verdict]string{Asked: "A rule asks about " + said(r) + ".", Forbidden: "A rule forbids " + said(r) + "."}[verdict]
			}
		}
		graver := verdict == Asked && j.Verdict == Asked && r.Verdict > j.Rule.Verdict // it may be what a rule forbids
		if verdict > j.Verdict || graver {
			j.Verdict, j.Rule, j.Why = verdict, r, why
		}
	}
}

func said(r *Rule) string {
	words := make([]string, len(r.Prefix))
	for i, alternatives := range r.Prefix {
		words[i] = strings.Join(alternatives, "|")
	}
	return "`" + strings.Join(words, " ") + "`"
}

// move steps every folder where the script could stand to where cd would go, and reports whether all stay in the
// workspace. Folders that were left stay possible: a subshell returns to them. Links are not followed: a later write is
// the sandbox's to stop, and is not proven here.
func move(places map[string]bool, to string, call Call) bool {
	roots := call.Workspace
	if len(roots) == 0 {
		roots = []string{call.Cwd}
	}
	inside := true
	for _, place := range slices.Sorted(maps.Keys(places)) {
		next := path.Clean(to)
		if !path.IsAbs(to) {
			next = path.Join(place, to)
		}
		if !slices.ContainsFunc(roots, func(root string) bool {
			root = path.Clean(root)
			return next == root || root == "/" || strings.HasPrefix(next, root+"/")
		}) {
			inside = false
		}
		if len(places) < 64 {
			places[next] = true
		} else if !places[next] {
			inside = false
		}
	}
	return inside
}

// propose makes the rules that "always" would save: one for each part that is not covered, exactly as it is. The
// model's own prefix is taken where it covers the part and may be longer than it says.
func propose(call Call, parts []Judged, rules []Rule, grants Grants) (out []Rule) {
	for i, j := range parts {
		if j.covered && j.Verdict == Allowed {
			continue
		}
		p := &call.Script.Parts[i]
		if j.Verdict != Allowed || j.Argv == nil {
			return nil // a rule that asks stays, and what is not known cannot be written down
		}
		r := Rule{Verdict: Allowed, Exact: true, Origin: Granted}
		for _, word := range j.Argv {
			r.Prefix = append(r.Prefix, []string{word})
		}
		if model := (Rule{Verdict: Allowed, Origin: Granted}); len(call.Prefix) > 0 {
			for _, word := range call.Prefix {
				model.Prefix = append(model.Prefix, []string{word})
			}
			if model.check() == nil && !model.mustBeExact() && model.covers(p) && !j.removal {
				r = model
			}
		}
		if !r.covers(p) {
			continue // an exact rule for the wrapper around it may cover it; the check below tells
		}
		if !slices.ContainsFunc(out, func(o Rule) bool { return o.String() == r.String() }) {
			out = append(out, r)
		}
	}
	// Only what would really answer the same call is offered.
	again, _ := judge(call, slices.Concat(rules, out), grants)
	for _, j := range again {
		if !j.covered || j.Verdict != Allowed {
			return nil
		}
	}
	return out
}
