// Package tenant knows who may: organisations, their keys, and what each key is for.
//
// It does not decide what an organisation owns; every room keeps that with its rows. What holds: a secret is stored
// only as its SHA-256; a revoked key is refused from the moment Revoke returns; a key that does not exist costs a
// caller the same as one whose secret is wrong.
package tenant

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"embed"
	"encoding/base32"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
)

// Scope is one thing that a key is for. A key that runs cannot approve unless it has both.
type Scope string

// The scopes.
const (
	ScopeRun     Scope = "run"     // use the API: responses, containers, files
	ScopeApprove Scope = "approve" // answer questions that a run asks
	ScopeAdmin   Scope = "admin"   // manage keys and settings
	ScopeMetrics Scope = "metrics" // read what the server counts, of all organisations
)

// scopeNames is what somebody may try who named none of them.
const scopeNames = "run, approve, admin or metrics"

// Principal is who a request comes from.
type Principal struct {
	Org    string
	KeyID  string
	Scopes []Scope
}

// Has says whether the principal's key is for s.
func (p Principal) Has(s Scope) bool { return slices.Contains(p.Scopes, s) }

// Key is a key as it may be shown: everything but the secret.
type Key struct {
	ID      string
	Org     string
	Name    string
	Scopes  []Scope
	Created time.Time
	Revoked time.Time // zero while the key is good
}

// entry is a live key in memory.
type entry struct {
	hash      [sha256.Size]byte
	principal Principal
}

// Service holds every live key in memory, by its public part. The database is written by this process alone, so the
// memory is exact, and an unknown key needs no look-up that its timing could betray.
type Service struct {
	db    *store.DB
	write sync.Mutex // orders changes of live behind the database's
	live  atomic.Pointer[map[string]entry]
}

//go:embed migrations/*.sql
var migrations embed.FS

// New migrates the tables and loads the keys.
func New(ctx context.Context, db *store.DB) (*Service, error) {
	if err := db.Migrate(ctx, "tenant", migrations); err != nil {
		return nil, err
	}
	live := map[string]entry{}
	rows, err := db.Read().QueryContext(ctx, `SELECT id, org, name, scopes, created, revoked, hash FROM api_key WHERE revoked IS NULL`)
	if err != nil {
		return nil, fmt.Errorf("load keys: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var hash []byte
		k, err := scan(rows, &hash)
		if err != nil {
			return nil, fmt.Errorf("load keys: %w", err)
		}
		e := entry{principal: Principal{Org: k.Org, KeyID: k.ID, Scopes: k.Scopes}}
		copy(e.hash[:], hash)
		live[public(k.ID)] = e
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("load keys: %w", err)
	}
	s := &Service{db: db}
	s.live.Store(&live)
	return s, nil
}

// scan reads the columns id, org, name, scopes, created, revoked and then more.
func scan(rows *sql.Rows, more ...any) (Key, error) {
	var k Key
	var scopes string
	var created int64
	var revoked sql.NullInt64
	if err := rows.Scan(append([]any{&k.ID, &k.Org, &k.Name, &scopes, &created, &revoked}, more...)...); err != nil {
		return Key{}, err
	}
	for s := range strings.FieldsSeq(scopes) {
		k.Scopes = append(k.Scopes, Scope(s))
	}
	k.Created = time.UnixMilli(created)
	if revoked.Valid {
		k.Revoked = time.UnixMilli(revoked.Int64)
	}
	return k, nil
}

// secrets are written in lower-case letters and digits, so that a double click selects a whole key.
var secrets = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// scheme begins every key, so that secret scanners and people know one when they see it.
const scheme = "hsk_"

// public is the part of a key's id that stands in the key itself.
func public(keyID string) string { return strings.TrimPrefix(keyID, id.Key+"_") }

// split takes a token apart. A token of another form has no public part.
func split(token string) (part, secret string) {
	rest, ok := strings.CutPrefix(token, scheme)
	if !ok {
		return "", ""
	}
	part, secret, _ = strings.Cut(rest, "_")
	return part, secret
}

// Authenticate tells whose key token is. Whether the key is absent, revoked or wrong, the answer is the same
// fault.Unauthenticated after the same work.
func (s *Service) Authenticate(ctx context.Context, token string) (Principal, error) {
	part, secret := split(token)
	e, known := (*s.live.Load())[part]
	sum := sha256.Sum256([]byte(secret))
	same := subtle.ConstantTimeCompare(sum[:], e.hash[:]) == 1
	if !known || !same {
		return Principal{}, fault.New(fault.Unauthenticated, "The API key is missing, wrong or revoked.").
			WithCode("invalid_api_key").WithTry("a key from `hardshell key create`, as `Authorization: Bearer KEY`")
	}
	p := e.principal
	p.Scopes = slices.Clone(p.Scopes)
	return p, nil
}

var orgName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
})

// CreateKey makes a key for an organisation, which it makes too when it is new. The secret is returned this once.
func (s *Service) CreateKey(ctx context.Context, org, name string, scopes []Scope) (Key, string, error) {
	if !orgName().MatchString(org) {
		return Key{}, "", fault.New(fault.Invalid, "%q is not a name of an organisation: letters, digits, '.', '_' and '-', at most 64.", org).WithParam("org")
	}
	if len(name) > 200 {
		return Key{}, "", fault.New(fault.Invalid, "The name of a key has at most 200 bytes.").WithParam("name")
	}
	if len(scopes) == 0 {
		return Key{}, "", fault.New(fault.Invalid, "A key needs at least one scope.").WithParam("scopes").WithTry(scopeNames)
	}
	var words []string
	for _, sc := range scopes {
		if sc != ScopeRun && sc != ScopeApprove && sc != ScopeAdmin && sc != ScopeMetrics {
			return Key{}, "", fault.New(fault.Invalid, "%q is not a scope.", string(sc)).WithParam("scopes").WithTry(scopeNames)
		}
		words = append(words, string(sc))
	}
	var raw [32]byte
	rand.Read(raw[:]) // documented never to fail
	secret := secrets.EncodeToString(raw[:])
	hash := sha256.Sum256([]byte(secret))
	k := Key{ID: id.New(id.Key), Org: org, Name: name, Scopes: slices.Clone(scopes), Created: time.Now().Truncate(time.Millisecond)}

	s.write.Lock()
	defer s.write.Unlock()
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.Exec(`INSERT INTO organisation (id, created) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`,
			org, k.Created.UnixMilli()); err != nil {
			return fmt.Errorf("create organisation: %w", err)
		}
		if _, err := tx.Exec(`INSERT INTO api_key (id, org, name, scopes, hash, created) VALUES ($1, $2, $3, $4, $5, $6)`,
			k.ID, org, name, strings.Join(words, " "), hash[:], k.Created.UnixMilli()); err != nil {
			return fmt.Errorf("create key: %w", err)
		}
		return nil
	})
	if err != nil {
		return Key{}, "", err
	}
	s.change(func(live map[string]entry) {
		live[public(k.ID)] = entry{hash: hash, principal: Principal{Org: org, KeyID: k.ID, Scopes: slices.Clone(scopes)}}
	})
	return k, scheme + public(k.ID) + "_" + secret, nil
}

// Keys lists an organisation's keys, revoked ones too, oldest first.
func (s *Service) Keys(ctx context.Context, org string) ([]Key, error) {
	rows, err := s.db.Read().QueryContext(ctx,
		`SELECT id, org, name, scopes, created, revoked FROM api_key WHERE org = $1 ORDER BY id`, org)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	defer rows.Close()
	var keys []Key
	for rows.Next() {
		k, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("list keys: %w", err)
		}
		keys = append(keys, k)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return keys, nil
}

// Revoke ends a key for good. When it returns, the key is refused. Revoking twice is fine.
func (s *Service) Revoke(ctx context.Context, keyID string) error {
	s.write.Lock()
	defer s.write.Unlock()
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE api_key SET revoked = COALESCE(revoked, $2) WHERE id = $1`, keyID, time.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("revoke key: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil {
			return fmt.Errorf("revoke key: %w", err)
		} else if n == 0 {
			return fault.New(fault.NotFound, "There is no key %s.", keyID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.change(func(live map[string]entry) { delete(live, public(keyID)) })
	return nil
}

// change puts a changed copy of the live keys in place. The caller holds s.write; readers never wait.
func (s *Service) change(edit func(map[string]entry)) {
	old := *s.live.Load()
	live := make(map[string]entry, len(old)+1)
	maps.Copy(live, old)
	edit(live)
	s.live.Store(&live)
}
