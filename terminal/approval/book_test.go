package approval

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

func always(id string, rules ...Rule) Grant {
	return Grant{ID: id, Scope: Always, Rules: rules, By: "ann", Issued: clock, Expires: clock.Add(time.Hour)}
}

func TestTheBookKeepsGrants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config", "grants.toml")
	book := OpenBook(path)
	if g, err := book.Grants(); len(g) != 0 || err != nil {
		t.Errorf("an absent book: %v %v", g, err)
	}
	rule := ruleOf("go,vet")
	if err := book.Add(always("g1", rule)); err != nil {
		t.Fatal(err)
	}
	call := callOf(t, "go vet ./...", command.Bash)
	decide := func() string {
		g, err := OpenBook(path).Grants() // as another process would
		if err != nil {
			t.Fatal(err)
		}
		return outcome(Decide(call, Policy{Ask: UnlessTrusted}, nil, g))
	}
	if got := decide(); got != "allow+retry" {
		t.Errorf("kept: %s", got)
	}
	call.Now = clock.Add(2 * time.Hour)
	if got := decide(); got != "ask" {
		t.Errorf("expired: %s", got)
	}
	call.Now = clock
	if err := book.Revoke("g1", clock.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := decide(); got != "ask" {
		t.Errorf("revoked: %s", got)
	}
	if err := book.Revoke("g2", clock); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestTheBookRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grants.toml")
	book := OpenBook(path)
	shell := ruleOf("bash")
	shell.Exact = false
	endless := always("g", ruleOf("go,vet"))
	endless.Expires = time.Time{}
	for name, g := range map[string]Grant{"a shell by prefix": always("g", shell), "no end": endless, "no rules": always("g"), "a rule that asks": always("g", Rule{Verdict: Asked, Prefix: [][]string{{"x"}}}),
		"a session's": {ID: "g", Scope: Session, Rules: []Rule{ruleOf("go")}, Expires: clock}, "a workspace's": always("g", Rule{Prefix: [][]string{{"x"}}, Origin: Workspace})} {
		if err := book.Add(g); err == nil {
			t.Errorf("%s is kept", name)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("something was written")
	}
	for name, text := range map[string]string{"no TOML": "[[grant", "an unknown key": "[[grant]]\nid = \"x\"\ndecision = \"allow\"\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if g, err := book.Grants(); err == nil || len(g) > 0 {
			t.Errorf("%s: %v", name, g)
		}
	}
	// What others could have written does not count, nor what is somewhere else.
	good := "[[grant]]\nid = \"x\"\nexpires = 2030-01-01T00:00:00Z\n[[grant.rule]]\nprefix = [[\"go\"]]\n"
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err := book.Grants(); err != nil || len(g) != 1 {
		t.Errorf("%v %v", g, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if g, err := book.Grants(); err == nil || len(g) > 0 {
		t.Errorf("written by others: %v", g)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if g, err := OpenBook(link).Grants(); err == nil || len(g) > 0 {
		t.Errorf("behind a link: %v", g)
	}
}

func TestManyWritersLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grants.toml")
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			if err := OpenBook(path).Add(always(fmt.Sprintf("g%d", n), ruleOf("go,vet"))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if g, err := OpenBook(path).Grants(); err != nil || len(g) != 20 {
		t.Errorf("%d grants, %v", len(g), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".grants-") {
			t.Errorf("%s is left", e.Name())
		}
	}
}
