package config

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
)

// approvalKey is the table of what hosted commands ask.
const approvalKey = "features.shell.approval."

// Approval says when a hosted command of a response waits for a person. It is the operator's: no request changes it.
type Approval struct {
	// Policy is never (nothing is asked), on-request (forced removals, and what a rule asks about), on-failure (the same:
	// nothing leaves a container) or untrusted (whatever is not proven to only read, nor allowed by a rule).
	Policy string `toml:"policy"`
	// Rules is the path of a file of rules.
	Rules string `toml:"rules"`
	// ExpiresSecs is how long a question waits. Then it is denied.
	ExpiresSecs int `toml:"expires_secs"`
	// Organisations have policies of their own, by id. What one leaves empty is as above.
	Organisations map[string]OrgApproval `toml:"organisations"`
}

// OrgApproval is an organisation's own policy.
type OrgApproval struct {
	// Policy is as in features.shell.approval.
	Policy string `toml:"policy"`
	// Rules is the path of a file of rules, instead of the one for all.
	Rules string `toml:"rules"`
}

// Of is what holds for an organisation that is named.
func (a Approval) Of(org string) OrgApproval {
	own := a.Organisations[org]
	return OrgApproval{Policy: cmp.Or(own.Policy, a.Policy), Rules: cmp.Or(own.Rules, a.Rules)}
}

func (a Approval) check() (string, *fault.Error) {
	words := []string{"never", "on-request", "on-failure", "untrusted"}
	if err := oneOf(a.Policy, words...); err != nil {
		return approvalKey + "policy", err
	}
	for _, org := range slices.Sorted(maps.Keys(a.Organisations)) {
		if err := oneOf(cmp.Or(a.Organisations[org].Policy, a.Policy), words...); err != nil {
			return approvalKey + "organisations." + org + ".policy", err
		}
	}
	if a.ExpiresSecs < 1 || a.ExpiresSecs > 7*24*3600 {
		return approvalKey + "expires_secs", invalid("%d is out of bounds", a.ExpiresSecs).WithTry("a number from 1 to %d", 7*24*3600)
	}
	return "", nil
}

// resolveRules makes the paths of rules absolute.
func (l *Loaded) resolveRules(s Source) error {
	a := &l.Config.Features.Shell.Approval
	follow := func(key string, path *string) error {
		if *path == "" {
			return nil
		}
		abs, err := l.absolute(key, *path, s)
		if err != nil {
			return l.wrong(key, err)
		}
		*path = abs
		return nil
	}
	if err := follow(approvalKey+"rules", &a.Rules); err != nil {
		return err
	}
	for _, org := range slices.Sorted(maps.Keys(a.Organisations)) {
		own := a.Organisations[org]
		if err := follow(approvalKey+"organisations."+org+".rules", &own.Rules); err != nil {
			return err
		}
		a.Organisations[org] = own
	}
	return nil
}
