package approval

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

// Load reads rules from TOML and checks each against its own examples:
//
//	[[rule]]
//	prefix = ["git", ["status", "log"]]
//	decision = "allow"
//	why = "it only looks"
//	match = ["git status --short"]
//	not_match = ["git push", "git log --output=x"]
//
// An unknown key, a bad rule or an example that the rule does not bear out fails the whole file, with its line: a file
// of which half counts is worse than none. A rule that allows an interpreter, shell, wrapper or deleter is made exact.
func Load(file string, data []byte, origin Origin) ([]Rule, error) {
	var document struct {
		Rule []struct {
			Prefix   []any     `toml:"prefix"`
			Exact    bool      `toml:"exact"`
			Decision string    `toml:"decision"`
			Why      string    `toml:"why"`
			Match    []string  `toml:"match"`
			NotMatch []string  `toml:"not_match"`
			Expires  time.Time `toml:"expires"`
		} `toml:"rule"`
	}
	if err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&document); err != nil {
		var strict *toml.StrictMissingError
		var bad *toml.DecodeError
		switch {
		case errors.As(err, &strict) && len(strict.Errors) > 0:
			row, column := strict.Errors[0].Position()
			return nil, fault.New(fault.Invalid, "%s:%d:%d: the key %s is not known.", file, row, column, strings.Join(strict.Errors[0].Key(), "."))
		case errors.As(err, &bad):
			row, column := bad.Position()
			return nil, fault.New(fault.Invalid, "%s:%d:%d: %s.", file, row, column, strings.TrimPrefix(bad.Error(), "toml: "))
		}
		return nil, fault.New(fault.Invalid, "%s: %v.", file, err)
	}
	lines := headers(data)
	var out []Rule
	for i, raw := range document.Rule {
		r := Rule{Exact: raw.Exact, Why: raw.Why, Match: raw.Match, Not: raw.NotMatch, Origin: origin, File: file, Expires: raw.Expires}
		if i < len(lines) {
			r.Line = lines[i]
		}
		err := r.read(raw.Prefix, raw.Decision)
		if err == nil {
			err = r.prove()
		}
		if err != nil {
			f, _ := fault.As(err)
			return nil, fault.Wrap(f.Kind, err, "%s:%d: %s", file, r.Line, f.Message).WithTry("%s", f.Try)
		}
		out = append(out, r)
	}
	return out, nil
}

func (r *Rule) read(prefix []any, decision string) error {
	for i, element := range prefix {
		var alternatives []string
		switch element := element.(type) {
		case string:
			alternatives = []string{element}
		case []any:
			for _, one := range element {
				s, ok := one.(string)
				if !ok {
					return fault.New(fault.Invalid, "Word %d of the prefix is not text.", i+1)
				}
				alternatives = append(alternatives, s)
			}
		default:
			return fault.New(fault.Invalid, "Word %d of the prefix is neither text nor a list of texts.", i+1)
		}
		r.Prefix = append(r.Prefix, alternatives)
	}
	switch decision {
	case "allow":
		r.Verdict = Allowed
	case "ask", "prompt":
		r.Verdict = Asked
	case "forbid", "forbidden":
		r.Verdict = Forbidden
	default:
		return fault.New(fault.Invalid, "The decision %q is not allow, ask or forbid.", decision)
	}
	return r.check()
}

// prove makes the rule exact where it must be, and holds it to its examples.
func (r *Rule) prove() error {
	if r.Verdict == Allowed && r.mustBeExact() {
		r.Exact = true
	}
	for _, example := range r.Match {
		if ok, err := r.bears(example); err != nil || !ok {
			return fault.Wrap(fault.Invalid, err, "The rule does not match its example %q.", example)
		}
	}
	for _, example := range r.Not {
		if ok, err := r.bears(example); err != nil || ok {
			return fault.Wrap(fault.Invalid, err, "The rule matches %q, which it says it must not.", example)
		}
	}
	return nil
}

// bears reports whether a rule decides a script: one that allows, all of it; one that asks or forbids, any part.
func (r *Rule) bears(example string) (bool, error) {
	s, err := command.Parse(example, command.Bash)
	if err != nil {
		return false, err
	}
	call := Call{Script: s, Cwd: "/"}
	rule := *r
	rule.Expires = time.Time{}
	parts, _ := judge(call, []Rule{rule}, nil)
	used, open := false, false
	for _, p := range parts {
		used = used || p.Rule != nil && p.Verdict == r.Verdict
		open = open || !p.covered
	}
	return used && (r.Verdict != Allowed || !open), nil
}

// headers returns the line of each [[rule]].
func headers(data []byte) (lines []int) {
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.ArrayTable {
			continue
		}
		for key := e.Key(); key.Next(); {
			lines = append(lines, p.Shape(key.Node().Raw).Start.Line)
			break
		}
	}
	return lines
}
