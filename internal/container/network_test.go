package container

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

const secretText = "sk-canary-0cc175b9c0f1"

func TestReadNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		policy  string
		param   string // empty: accepted
		secrets int
	}{
		"disabled":                 {`{"type":"disabled"}`, "", 0},
		"an allowlist":             {`{"type":"allowlist","allowed_domains":["a.test"]}`, "", 0},
		"no secrets":               {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[]}`, "", 0},
		"an inline secret":         {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[{"domain":"a.test","name":"T","value":"` + secretText + `"}]}`, "", 1},
		"a reference":              {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[{"placeholder":"T"},{"placeholder":"U","allowed_domains":["a.test"]}]}`, "", 2},
		"no type":                  {`{"allowed_domains":["a.test"]}`, ".type", 0},
		"an unknown type":          {`{"type":"open","allowed_domains":["a.test"]}`, ".type", 0},
		"no domains":               {`{"type":"allowlist"}`, ".allowed_domains", 0},
		"disabled with domains":    {`{"type":"disabled","allowed_domains":["a.test"]}`, ".allowed_domains", 0},
		"disabled with secrets":    {`{"type":"disabled","domain_secrets":[{}]}`, ".domain_secrets", 0},
		"secrets that are no list": {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":{"value":"` + secretText + `"}}`, ".domain_secrets", 0},
		"an empty secret":          {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[{}]}`, ".domain_secrets[0]", 0},
		"a mixture":                {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[{"placeholder":"T","value":"` + secretText + `"}]}`, ".domain_secrets[0]", 0},
		"no value":                 {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[{"domain":"a.test","name":"T"}]}`, ".domain_secrets[0]", 0},
		"an empty value":           {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[{"domain":"a.test","name":"T","value":""}]}`, ".domain_secrets[0]", 0},
		"an unknown key":           {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[{"domain":"a.test","name":"T","vaule":"` + secretText + `"}]}`, ".domain_secrets[0]", 0},
		"too many domains":         {`{"type":"allowlist","allowed_domains":["a.test"` + strings.Repeat(`,"a.test"`, maxDomains) + `]}`, ".allowed_domains", 0},
		"too many secrets":         {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[{"placeholder":"T"}` + strings.Repeat(`,{"placeholder":"T"}`, maxSecrets) + `]}`, ".domain_secrets", 0},
		"a number for a value":     {`{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[{"placeholder":"T"},{"domain":"a.test","name":"T","value":5}]}`, ".domain_secrets[1]", 0},
	} {
		var p openai.NetworkPolicy
		if err := json.Unmarshal([]byte(c.policy), &p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		policy, secrets, err := ReadNetwork(&p)
		if c.param == "" {
			if err != nil || policy.Type != p.Type || len(secrets) != c.secrets {
				t.Errorf("%s: %+v, %d secrets, %v", name, policy, len(secrets), err)
			}
			continue
		}
		f, ok := fault.As(err)
		if !ok || f.Code != "shell_environment_rejected" || f.Param != "network_policy"+c.param || strings.Contains(f.Error()+f.Public(), secretText) {
			t.Errorf("%s: %+v", name, err)
		}
	}
	if policy, secrets, err := ReadNetwork(nil); policy != nil || secrets != nil || err != nil {
		t.Errorf("no policy: %v %v %v", policy, secrets, err)
	}
}

// A model that is told of apt would try to install with it.
func TestWhatAModelIsToldOfAPolicy(t *testing.T) {
	for domains, apt := range map[string]bool{"a.test": false, "a.test bundle:npm": false, "bundle:apt": true} {
		text := NetworkPolicy{Type: networkAllowlist, AllowedDomains: strings.Fields(domains)}.Told()
		if !strings.HasPrefix(text, "only "+strings.Join(strings.Fields(domains), ", ")+", through the proxy") || strings.Contains(text, "apt can download") != apt {
			t.Errorf("%s: %s", domains, text)
		}
	}
}

// A runtime that knows nothing of proxies is never asked to hold a policy.
func TestARuntimeWithoutAProxyTakesNoAllowlist(t *testing.T) {
	b := newBench(t, Limits{})
	ceiling, err := egress.ParseCeiling("", []string{"*"}, egress.Bundles{})
	if err != nil {
		t.Fatal(err)
	}
	b.network.Egress.Ceiling = ceiling
	_, err = b.Create(b.ctx, "org", CreateSpec{Network: &NetworkPolicy{Type: "allowlist", AllowedDomains: []string{"a.test"}}})
	wantFault(t, err, fault.Invalid, "network_policy_rejected")
	if f, _ := fault.As(err); !strings.Contains(f.Message, "can't keep a container to a network policy") {
		t.Errorf("%v", err)
	}
}

func TestSealedSecrets(t *testing.T) {
	dir := t.TempDir()
	s, err := newSealer(dir)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []egress.Secret{{Name: "T", Value: egress.NewValue(secretText), Hosts: []string{"a.test"}}, {Name: "T", Value: egress.NewValue("other"), Hosts: []string{"b.test"}},
		{Name: "U", Value: egress.NewValue(secretText), Hosts: []string{"a.test"}}}
	text, err := s.seal("cntr_1", secrets)
	if err != nil || strings.Contains(text, "canary") || strings.Contains(text, "a.test") {
		t.Fatalf("%q, %v", text, err)
	}
	again, err := newSealer(dir) // the key is kept
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.open("cntr_1", text)
	if err != nil || len(got) != 3 || !got[0].Value.Equal(secrets[0].Value) || got[0].Placeholder == "" || got[0].Placeholder != got[1].Placeholder || got[0].Placeholder == got[2].Placeholder {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := again.open("cntr_2", text); err == nil {
		t.Error("it opens in another container's row")
	}
	if _, err := again.open("cntr_1", text[:len(text)-4]+"AAAA"); err == nil {
		t.Error("it opens changed")
	}
	if info, err := os.Stat(filepath.Join(dir, sealName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if other, err := newSealer(t.TempDir()); err != nil {
		t.Error(err)
	} else if _, err := other.open("cntr_1", text); err == nil {
		t.Error("it opens with another key")
	}
	if err := os.WriteFile(filepath.Join(dir, sealName), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newSealer(dir); err == nil {
		t.Error("a broken key is used, or replaced")
	}
}

// Secrets live as long as their container is active. One that is restored has its policy, and says that it has none.
func TestAnEndedContainerHasNoSecrets(t *testing.T) {
	b := newBench(t, Limits{})
	ceiling, err := egress.ParseCeiling("", []string{"*"}, egress.Bundles{})
	if err != nil {
		t.Fatal(err)
	}
	b.network.Egress.Ceiling = ceiling
	c, err := b.Create(b.ctx, "org", CreateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := b.seal.seal(c.ID, []egress.Secret{{Name: "T", Value: egress.NewValue(secretText), Hosts: []string{"a.test"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.db.Write(b.ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE container SET secrets = $1, network = '{"type":"allowlist","allowed_domains":["a.test"]}' WHERE id = $2`, text, c.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.clock.advance(2 * c.IdleTTL)
	if got, err := b.Get(b.ctx, "org", c.ID); err != nil || got.Status != Expired {
		t.Fatalf("%+v, %v", got, err)
	}
	r, err := b.row(b.ctx, "org", c.ID)
	if err != nil || r.secrets != "" {
		t.Errorf("secrets %q, %v", r.secrets, err)
	}
	if _, err := b.Restore(b.ctx, "org", c.ID); err != nil {
		t.Fatal(err)
	}
	if r, err = b.row(b.ctx, "org", c.ID); err != nil || r.secrets != "" || r.Status != Active {
		t.Errorf("restored: %+v, %v", r, err)
	}
	policy := &openai.NetworkPolicy{Type: "allowlist", AllowedDomains: []string{"a.test"}}
	if err := b.Admits(b.ctx, "org", c.ID, policy); err != nil {
		t.Errorf("its policy: %v", err)
	}
	policy.DomainSecrets = json.RawMessage(`[{"domain":"a.test","name":"T","value":"` + secretText + `"}]`)
	err = b.Admits(b.ctx, "org", c.ID, policy)
	wantFault(t, err, fault.Invalid, "shell_environment_rejected")
	if f, _ := fault.As(err); f == nil || !strings.Contains(f.Message, "restored") || strings.Contains(f.Error(), secretText) {
		t.Errorf("%v", err)
	}
}
