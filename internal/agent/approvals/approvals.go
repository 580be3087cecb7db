// Package approvals holds the questions that hosted shell calls ask, as rows that outlive the server: what exactly is
// asked, by which response, until when, and what a person said to it, once.
//
// It decides by package terminal/approval under the operator's policies (policy.go) and runs nothing: the agent parks a
// response while its questions are open, and goes on when they are answered. What holds: a question is answered once,
// by a key of the same organisation with the scope for it, and never by the key that runs the response; one that nobody
// answers is denied when its time is over; an answer counts for the digest that was asked about and nothing else; what
// is approved for a container is exactly these commands in that container. Another organisation's questions look absent.
package approvals

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// Status is where a question stands.
type Status string

// The statuses. All but the first are final.
const (
	Pending   Status = "pending"
	Approved  Status = "approved"
	Denied    Status = "denied"
	Expired   Status = "expired"   // nobody answered: that is a no
	Withdrawn Status = "cancelled" // its response ended, or asks something else now
)

// Decision is what a person says.
type Decision string

// The decisions.
const (
	Approve             Decision = "approve"
	ApproveForContainer Decision = "approve_for_container"
	Deny                Decision = "deny"
)

// Approval is a question with its answer, if it has one.
type Approval struct {
	ID        string
	Org       string
	KeyID     string // of the key that runs the response
	Response  string
	Item      string // the shell_call
	Call      string
	Container string
	Digest    string
	Parts     []string
	Question  Question
	Status    Status
	Scope     string // once or container, of one that is approved
	Reason    string
	By        string // the id of the key that decided
	Created   time.Time
	Expires   time.Time
	Decided   time.Time // zero while it is open
}

// Options of a service. DB is required.
type Options struct {
	DB       *store.DB
	Clock    func() time.Time // time.Now
	Expires  time.Duration    // how long a question waits; 1 h
	Policies Policies
	// Decided is told of every answer, once: a person's, or that there was none. It must not wait.
	Decided func(Approval)
}

// DefaultExpiry is how long a question waits for a person.
const DefaultExpiry = time.Hour

// keep is how long an answer can be read, and how long a container's grant holds at most.
const keep = 30 * 24 * time.Hour

// maxReason bounds what a person may give as a reason: the model reads it.
const maxReason = 2000

// Service keeps the questions.
type Service struct {
	db       *store.DB
	clock    func() time.Time
	expires  time.Duration
	policies Policies
	decided  func(Approval)
	news     chan struct{}
}

//go:embed migrations/*.sql
var migrations embed.FS

// New migrates the tables.
func New(ctx context.Context, o Options) (*Service, error) {
	s := &Service{db: o.DB, clock: o.Clock, expires: o.Expires, policies: o.Policies, decided: o.Decided, news: make(chan struct{}, 1)}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.expires <= 0 {
		s.expires = DefaultExpiry
	}
	if s.decided == nil {
		s.decided = func(Approval) {}
	}
	if err := s.db.Migrate(ctx, "approval", migrations); err != nil {
		return nil, err
	}
	return s, nil
}

// Policy is an organisation's.
func (s *Service) Policy(org string) Policy { return s.policies.Of(org) }

// Now is the service's time.
func (s *Service) Now() time.Time { return s.clock() }

// News has a token when a response may have its answers.
func (s *Service) News() <-chan struct{} { return s.news }

// Nudge puts the token there.
func (s *Service) Nudge() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// missing is the answer for a question that is absent or another organisation's: the two are not to be told apart.
func missing(id string) error {
	return fault.New(fault.NotFound, "Approval with id '%s' not found.", id).WithCode("approval_not_found")
}

// Get returns a question.
func (s *Service) Get(ctx context.Context, org, id string) (Approval, error) {
	a, err := s.find(ctx, s.db.Read(), org, id)
	if err != nil {
		return Approval{}, err
	}
	return s.aged(a), nil
}

// aged is a question as it stands now: one whose time is over is expired, whether the row says so by now or not.
func (s *Service) aged(a Approval) Approval {
	if a.Status == Pending && !s.clock().Before(a.Expires) {
		a.Status = Expired
	}
	return a
}

// Page asks for a part of the list of an organisation's questions.
type Page struct {
	store.Page
	Status string // "" is all
}

// List returns a part of the questions, and whether there are more.
func (s *Service) List(ctx context.Context, org string, p Page) ([]Approval, bool, error) {
	set, err := p.Keyset(id.Approval, 20, 100)
	if err != nil {
		return nil, false, err
	}
	switch Status(p.Status) {
	case "", Pending, Approved, Denied, Expired, Withdrawn:
	default:
		return nil, false, fault.New(fault.Invalid, "status must be pending, approved, denied, expired or cancelled.").
			WithCode("invalid_value").WithParam("status")
	}
	now := s.clock().UnixMilli()
	list, err := s.rows(ctx, `WHERE org = $1 AND ($2 = '' OR id `+set.Compare+` $2)
		AND ($3 = '' OR $3 = CASE WHEN status = 'pending' AND expires <= $4 THEN 'expired' ELSE status END)
		ORDER BY id `+set.Order+` LIMIT $5`, org, p.After, p.Status, now, set.Limit+1)
	if err != nil {
		return nil, false, err
	}
	for i := range list {
		list[i] = s.aged(list[i])
	}
	page, more := store.Cut(list, set.Limit)
	return page, more, nil
}

// Answer records what a person says to a question. The second answer is refused, whatever it says.
func (s *Service) Answer(ctx context.Context, p tenant.Principal, id string, d Decision, reason string) (Approval, error) {
	switch d {
	case Approve, ApproveForContainer, Deny:
	default:
		return Approval{}, fault.New(fault.Invalid, "decision must be approve, approve_for_container or deny.").
			WithCode("invalid_value").WithParam("decision")
	}
	if len(reason) > maxReason {
		return Approval{}, fault.New(fault.Invalid, "reason must have at most %d bytes.", maxReason).WithCode("invalid_value").WithParam("reason")
	}
	if !p.Has(tenant.ScopeApprove) {
		return Approval{}, fault.New(fault.Forbidden, "This key does not have the scope %q.", tenant.ScopeApprove).WithCode("insufficient_scope").
			WithTry("a key made with `hardshell key create --scope %s`", tenant.ScopeApprove)
	}
	var a Approval
	err := s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		if a, err = s.find(ctx, tx, p.Org, id); err != nil {
			return err
		}
		if a.KeyID == p.KeyID {
			return fault.New(fault.Forbidden, "The key that runs a response cannot approve what it asks.").WithCode("approval_own_response").
				WithTry("another key, made with `hardshell key create --scope %s`", tenant.ScopeApprove)
		}
		now := s.clock()
		if a = s.aged(a); a.Status != Pending {
			return fault.New(fault.Conflict, "Approval %s is %s; it is answered once.", id, a.Status).WithCode("approval_" + string(a.Status))
		}
		a.Status, a.Scope = Approved, "once"
		switch d {
		case Deny:
			a.Status, a.Scope = Denied, ""
		case ApproveForContainer:
			a.Scope = "container"
			if err := s.grant(tx, a, p.KeyID, now); err != nil {
				return err
			}
		}
		a.Reason, a.By, a.Decided = reason, p.KeyID, now
		return s.decide(tx, a)
	})
	if err != nil {
		return Approval{}, err
	}
	s.decided(a)
	s.Nudge()
	return a, nil
}

// Ask makes these the open questions of a response; what else it asked is withdrawn. A question that is there already
// stays as it is, answered or not.
func (s *Service) Ask(ctx context.Context, response string, list []Approval) error {
	now := s.clock()
	ids := make([]string, len(list))
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		for i, a := range list {
			ids[i] = a.ID
			a.Response, a.Status, a.Created, a.Expires = response, Pending, now, now.Add(s.expires)
			if err := s.insert(tx, a); err != nil {
				return err
			}
		}
		return s.withdraw(tx, response, ids, now)
	})
}

// Withdraw ends the open questions of a response that will not go on with them.
func (s *Service) Withdraw(ctx context.Context, response string) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		if err := s.withdraw(tx, response, nil, s.clock()); err != nil {
			return err
		}
		return s.settle(tx, response)
	})
}

// Settle notes that a response has taken its answers to its record.
func (s *Service) Settle(ctx context.Context, response string) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error { return s.settle(tx, response) })
}

// Answers returns a response's questions by id, as they stand now.
func (s *Service) Answers(ctx context.Context, response string) (map[string]Approval, error) {
	list, err := s.rows(ctx, `WHERE response_id = $1`, response)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Approval, len(list))
	for _, a := range list {
		out[a.ID] = s.aged(a)
	}
	return out, nil
}

// Expire ends the questions whose time is over, and forgets what is old.
func (s *Service) Expire(ctx context.Context) error {
	now := s.clock()
	var due, old bool
	err := s.db.Read().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM approval WHERE status = 'pending' AND expires <= $1),
		EXISTS (SELECT 1 FROM approval WHERE settled = 1 AND decided <= $2)`, now.UnixMilli(), now.Add(-keep).UnixMilli()).Scan(&due, &old)
	if err != nil {
		return fmt.Errorf("look for old approvals: %w", err)
	}
	if !due && !old { // an idle server leaves the disk alone
		return nil
	}
	var ended []Approval
	err = s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		if ended, err = s.expire(tx, now); err != nil {
			return err
		}
		return s.prune(tx, now)
	})
	for _, a := range ended {
		if err == nil {
			s.decided(a)
		}
	}
	return err
}

// Answered lists the responses that have an answer which they have not taken note of, and no question that is open.
func (s *Service) Answered(ctx context.Context) ([]string, error) {
	return store.All(ctx, s.db.Read(), func(row store.Scanner) (id string, err error) { return id, row.Scan(&id) },
		`SELECT DISTINCT response_id FROM approval a WHERE settled = 0 AND status <> 'pending'
		AND NOT EXISTS (SELECT 1 FROM approval b WHERE b.response_id = a.response_id AND b.status = 'pending')`)
}

// Granted are the digests of the commands that were approved for a container.
func (s *Service) Granted(ctx context.Context, org, container string) ([]approval.Digest, error) {
	return store.All(ctx, s.db.Read(), func(row store.Scanner) (d approval.Digest, err error) { return d, row.Scan(&d) },
		`SELECT digest FROM approval_grant WHERE org = $1 AND container_id = $2 AND expires > $3`, org, container, s.clock().UnixMilli())
}

// text is a value as its column keeps it.
func text(v any) (string, error) {
	raw, err := json.Marshal(v)
	return string(raw), err
}
