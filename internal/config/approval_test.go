package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestApprovalPolicies(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hardshell.toml")
	load := func(text string) (*Loaded, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Source{Path: path, Environ: environ(t)})
	}
	l, err := load(`[features.shell.approval]
rules = "rules.toml"
[features.shell.approval.organisations.strict]
policy = "untrusted"
[features.shell.approval.organisations.own]
rules = "/etc/own.toml"
`)
	if err != nil {
		t.Fatal(err)
	}
	a := l.Config.Features.Shell.Approval
	rules := filepath.Join(dir, "rules.toml")
	for org, want := range map[string]OrgApproval{"strict": {"untrusted", rules}, "own": {"never", "/etc/own.toml"}} {
		if got := a.Of(org); got != want {
			t.Errorf("%s: %+v, want %+v", org, got, want)
		}
	}
	if a.Policy != "never" || a.Rules != rules || a.ExpiresSecs != 3600 {
		t.Errorf("for all: %+v", a)
	}
	for text, say := range map[string]string{
		"[features.shell.approval]\npolicy = \"ask\"\n":                                                  "features.shell.approval.policy",
		"[features.shell.approval.organisations.a]\npolicy = \"always\"\n":                               "organisations.a.policy",
		"[features.shell.approval]\nexpires_secs = 0\n":                                                  "expires_secs",
		"[features.shell.approval.organisations.a]\npolicy = \"never\"\nallow_everything_outside = true": "unknown key",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v, want one about %s", text, err, say)
		}
	}
}
