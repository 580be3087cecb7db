package tenant

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openAt(t testing.TB, path string) (*Service, *store.DB) {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := New(context.Background(), db)
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

func newService(t testing.TB) *Service {
	t.Helper()
	s, _ := openAt(t, filepath.Join(t.TempDir(), "hardshell.db"))
	return s
}

func create(t testing.TB, s *Service, org string, scopes ...Scope) (Key, string) {
	t.Helper()
	k, secret, err := s.CreateKey(context.Background(), org, "test", scopes)
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

func TestAKeyWorksUntilItIsRevoked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hardshell.db")
	s, db := openAt(t, path)
	ctx := context.Background()
	k, token := create(t, s, "acme", ScopeRun, ScopeApprove)
	_, other := create(t, s, "acme", ScopeRun)
	p, err := s.Authenticate(ctx, token)
	if err != nil {
		t.Fatal(err)
	}
	if p.Org != "acme" || p.KeyID != k.ID || !p.Has(ScopeRun) || !p.Has(ScopeApprove) || p.Has(ScopeAdmin) {
		t.Errorf("principal %+v", p)
	}
	if err := s.Revoke(ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Revoke(ctx, k.ID); err != nil {
		t.Errorf("a second revoke: %v", err)
	}
	if _, err := s.Authenticate(ctx, token); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("a revoked key: %v", err)
	}
	// What holds in memory holds after a restart.
	db.Close()
	s, _ = openAt(t, path)
	if _, err := s.Authenticate(ctx, token); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("a revoked key after a restart: %v", err)
	}
	if _, err := s.Authenticate(ctx, other); err != nil {
		t.Errorf("a good key after a restart: %v", err)
	}
	if err := s.Revoke(ctx, "key_none"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("revoke of an unknown key: %v", err)
	}
}

func TestWrongKeysAreAllAlike(t *testing.T) {
	s := newService(t)
	k, token := create(t, s, "acme", ScopeRun)
	part, secret := split(token)
	cases := map[string]string{
		"empty": "", "no scheme": "nonsense", "scheme only": "hsk_", "no secret": "hsk_" + part, "empty secret": "hsk_" + part + "_",
		"wrong secret": "hsk_" + part + "_" + strings.Repeat("a", len(secret)), "unknown key": "hsk_0000_" + secret,
		"id in place of a key": k.ID, "one character more": token + "a", "upper case": strings.ToUpper(token), "long": "hsk_" + strings.Repeat("x", 1<<20),
	}
	var first string
	for name, c := range cases {
		_, err := s.Authenticate(context.Background(), c)
		f, ok := fault.As(err)
		if !ok || f.Kind != fault.Unauthenticated || f.Code != "invalid_api_key" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if first == "" {
			first = f.Error()
		}
		if f.Error() != first {
			t.Errorf("%s: another answer: %q", name, f.Error())
		}
	}
	// The zero hash of an unknown key must not be anybody's.
	if _, err := s.Authenticate(context.Background(), "hsk__"); err == nil {
		t.Error("an empty public part is let in")
	}
}

func TestSecretsAreNotStored(t *testing.T) {
	dir := t.TempDir()
	s, db := openAt(t, filepath.Join(dir, "hardshell.db"))
	_, token := create(t, s, "acme", ScopeRun)
	_, secret := split(token)
	db.Close()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s holds the secret", f.Name())
		}
	}
}

func TestKeysOfAnOrganisation(t *testing.T) {
	s := newService(t)
	a, _ := create(t, s, "acme", ScopeRun)
	b, _ := create(t, s, "acme", ScopeAdmin, ScopeRun)
	create(t, s, "other", ScopeRun)
	if err := s.Revoke(context.Background(), a.ID); err != nil {
		t.Fatal(err)
	}
	keys, err := s.Keys(context.Background(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]Key{}
	for _, k := range keys {
		byID[k.ID] = k
	}
	if len(keys) != 2 || byID[a.ID].Revoked.IsZero() || !byID[b.ID].Revoked.IsZero() || !slices.Equal(byID[b.ID].Scopes, b.Scopes) || !byID[b.ID].Created.Equal(b.Created) {
		t.Errorf("keys %+v", keys)
	}
}

func TestBadKeys(t *testing.T) {
	s := newService(t)
	for _, tc := range []struct {
		org, name string
		scopes    []Scope
		param     string
	}{
		{"", "n", []Scope{ScopeRun}, "org"}, {"a b", "n", []Scope{ScopeRun}, "org"}, {"../x", "n", []Scope{ScopeRun}, "org"},
		{"acme", strings.Repeat("n", 201), []Scope{ScopeRun}, "name"}, {"acme", "n", nil, "scopes"}, {"acme", "n", []Scope{"root"}, "scopes"},
	} {
		_, _, err := s.CreateKey(context.Background(), tc.org, tc.name, tc.scopes)
		if f, ok := fault.As(err); !ok || f.Kind != fault.Invalid || f.Param != tc.param {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

func TestKeysUnderLoad(t *testing.T) {
	s := newService(t)
	_, steady := create(t, s, "acme", ScopeRun)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				k, token, err := s.CreateKey(context.Background(), fmt.Sprint("org", i), "k", []Scope{ScopeRun})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Authenticate(context.Background(), token); err != nil {
					t.Errorf("fresh key: %v", err)
				}
				if err := s.Revoke(context.Background(), k.ID); err != nil {
					t.Error(err)
				}
				if _, err := s.Authenticate(context.Background(), token); err == nil {
					t.Error("a revoked key is let in")
				}
				if _, err := s.Authenticate(context.Background(), steady); err != nil {
					t.Errorf("steady key: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestBootstrap(t *testing.T) {
	s := newService(t)
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "admin.key")
	if _, err := ReadKey(path); fault.KindOf(err) != fault.NotFound {
		t.Errorf("absent: %v", err)
	}
	for i, want := range []bool{true, false} {
		created, err := s.Bootstrap(ctx, path)
		if err != nil || created != want {
			t.Fatalf("start %d: created %v, %v", i+1, created, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	token, err := ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Authenticate(ctx, token)
	if err != nil || p.Org != DefaultOrg || !p.Has(ScopeAdmin) || !p.Has(ScopeRun) || p.Has(ScopeApprove) {
		t.Errorf("principal %+v, %v", p, err)
	}
	if err := s.Revoke(ctx, p.KeyID); err != nil {
		t.Fatal(err)
	}
	if created, err := s.Bootstrap(ctx, path); err != nil || !created {
		t.Errorf("after revoking: created %v, %v", created, err)
	}
	if again, _ := ReadKey(path); again == token {
		t.Error("the revoked key is still there")
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
