package response

import (
	"context"
	"database/sql"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/response/conversation"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Begin is what a response starts from.
type Begin struct {
	Org        string
	KeyID      string
	Object     openai.Response // every echo field filled; id, times and status are set here
	Input      []openai.Item   // this turn's input, ids given
	Store      bool
	Background bool // readers see only what is durable, and their going away ends nothing
	PreviousID string
	// ConversationID is the conversation that the response continues, as it was at Revision. It must be stored; its row is
	// durable at once, and while it runs nobody else continues the conversation.
	ConversationID string
	Revision       int64

	// Late says that the caller need not know the row to be durable when Begin returns: it becomes so with the first
	// events, within some milliseconds, and at the latest with the end. Sync waits for it. Where writing has just
	// failed, Begin waits all the same, so that nothing is begun that cannot be stored.
	Late bool
	// Work, if there is one, gives what the caller needs to go on with the response after a crash (Claim.Work). It is
	// called when the row is written before the end, once, in another goroutine, and not while the caller waits for
	// anything of the run's.
	Work func() ([]byte, error)
	// Key is what the client named the request by, and Digest tells its body; see [Service.Keyed].
	Key    string
	Digest string

	// Unread says that nobody reads the events, only the end, by Wait. What is not stored then has none.
	Unread bool
}

// Begin starts a response. When it is stored, its row is durable when Begin returns, unless it may be late.
func (s *Service) Begin(ctx context.Context, b Begin) (*Run, error) {
	if b.Background && !b.Store {
		return nil, fault.New(fault.Invalid, "A background response must be stored.").WithCode("invalid_value").
			WithParam("background").WithTry("store: true, or no background")
	}
	if b.ConversationID != "" && !b.Store {
		return nil, fault.New(fault.Invalid, "A response that is not stored cannot be added to a conversation.").WithCode("invalid_value").
			WithParam("store").WithTry("store: true, or the items of the conversation as input")
	}
	now := s.clock()
	r := &Run{s: s, id: id.At(id.Response, now), org: b.Org, stored: b.Store, background: b.Background, fence: 1, begun: now,
		unread: b.Unread && !b.Store, object: b.Object, done: make(chan struct{}), epoch: -1}
	r.object.ID, r.object.Object, r.object.CreatedAt = r.id, "response", now.Unix()
	r.object.Store, r.object.Background = b.Store, b.Background
	r.object.CompletedAt, r.object.Output = nil, []openai.Item{}
	r.object.Tools = withoutSecrets(b.Object.Tools)
	if b.PreviousID != "" {
		r.object.PreviousResponseID = &b.PreviousID
	}
	if b.ConversationID != "" {
		r.object.Conversation = &openai.ConversationRef{ID: b.ConversationID}
	}
	r.object.Status = openai.InProgress
	if b.Background {
		r.object.Status = openai.Queued
	}
	if !b.Store {
		r.input = b.Input
	}
	if b.Store {
		born, err := s.birth(r, b)
		if err != nil {
			return nil, err
		}
		if b.Late && !b.Background && b.Key == "" && b.ConversationID == "" && !s.ailing.Load() {
			r.unborn = born
		} else if err := s.db.Write(ctx, func(tx *sql.Tx) error {
			if err := s.claimKey(tx, r, b); err != nil {
				return err
			}
			if err := born.write(tx, s.statements, r); err != nil || b.ConversationID == "" {
				return err
			}
			return conversation.Take(tx, b.Org, b.ConversationID, b.Revision, r.id)
		}); err != nil {
			return nil, err
		} else {
			s.ailing.Store(false)
		}
	} else if b.Key != "" {
		if err := s.db.Write(ctx, func(tx *sql.Tx) error { return s.claimKey(tx, r, b) }); err != nil {
			return nil, err
		}
	}
	// The run outlives the request that began it; Cancel and Finish end its context.
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.live[r.id] = r
	}
	s.mu.Unlock()
	if closed {
		err := fault.New(fault.Unavailable, "The server is stopping.")
		r.cancel(err)
		if r.unborn == nil && (b.Store || b.Key != "") {
			// Nobody knows the id yet, so nobody misses the row, and the request's name is to be had again. If this fails
			// the next start ends it.
			s.db.Write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
				if err := releaseKey(tx, r, b); err != nil {
					return err
				}
				_, err := tx.Exec(`DELETE FROM response WHERE id = $1`, r.id)
				return err
			})
		}
		return nil, err
	}
	s.observe.ResponseBegan(r.background)
	return r, nil
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
