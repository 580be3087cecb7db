package response

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// How the life of a response lies around the time at which one of its items was made.
const (
	madeBefore = 2 * time.Minute        // an input's item, before its response: files are fetched between the two
	madeSoon   = 5 * time.Minute        // most items of an output, after it
	madeAfter  = 24 * time.Hour         // all that are looked for
	madeSlack  = 100 * time.Millisecond // clocks that were set
)

// Items finds items by their ids: those of conversations, and of responses that have ended. An id that this program made
// says when; the responses that lived then are few. Ids that a client made up are found in conversations only. What is
// not found is not in the map, nor is what another organisation has, nor what comes after it.
func (s *Service) Items(ctx context.Context, org string, ids []string) (map[string]openai.Item, error) {
	found := map[string]openai.Item{}
	s.onDisk(ctx, org)
	for _, itemID := range ids {
		if _, ok := found[itemID]; ok {
			continue
		}
		i, ok, err := s.conversations.Find(ctx, org, itemID)
		if err != nil {
			return nil, err
		}
		if ok {
			found[itemID] = i
			continue
		}
		if err := s.recall(ctx, org, itemID, found); err != nil {
			return nil, err
		}
		if _, ok := found[itemID]; !ok {
			break // whoever asks wants all of them
		}
	}
	return found, nil
}

// recall finds the response that has an item, and notes all items of it: a request that names one of them names others.
// An item of the output was made after its response was begun, one of the input shortly before.
func (s *Service) recall(ctx context.Context, org, itemID string, found map[string]openai.Item) error {
	made, ok := id.Made(itemID)
	if !ok {
		return nil
	}
	near := func(d time.Duration) string { return id.From(id.Response, made.Add(d)) }
	output := func(from, below time.Duration) (bool, error) {
		return s.search(ctx, found, itemID, `r.id >= $3 AND r.id < $4 AND r.completed >= $5 AND r.object LIKE $2 ORDER BY r.id DESC`,
			org, near(from), near(below), made.Add(-madeSlack).UnixMilli())
	}
	there, err := output(-madeSoon, madeSlack)
	if !there && err == nil {
		there, err = s.search(ctx, found, itemID, `r.id >= $3 AND r.id < $4 AND r.completed IS NOT NULL AND i.items LIKE $2 ORDER BY r.id`,
			org, near(-madeSlack), near(madeBefore))
	}
	if !there && err == nil {
		_, err = output(-madeAfter, -madeSoon)
	}
	return err
}

// search looks for an item in the responses that meet a condition, and stops at the first that has it. LIKE finds more than
// it should, as an id holds an underscore and may be mentioned: what it finds is read.
func (s *Service) search(ctx context.Context, found map[string]openai.Item, itemID, condition, org string, args ...any) (there bool, err error) {
	rows, err := s.db.Read().QueryContext(ctx, `SELECT i.items, r.object FROM response r JOIN response_input i ON i.response_id = r.id
		WHERE r.org = $1 AND `+condition, append([]any{org, `%"` + itemID + `"%`}, args...)...)
	if err != nil {
		return false, fmt.Errorf("find item: %w", err)
	}
	defer rows.Close()
	for !there && rows.Next() {
		var input, object []byte
		if err := rows.Scan(&input, &object); err != nil {
			return false, fmt.Errorf("find item: %w", err)
		}
		var all []openai.Item
		var o struct {
			Output []openai.Item `json:"output"`
		}
		err := json.Unmarshal(input, &all)
		if err == nil {
			err = json.Unmarshal(object, &o)
		}
		if err != nil {
			return false, fmt.Errorf("find item: %w", err)
		}
		for _, i := range append(all, o.Output...) {
			if _, ok := found[i.ID]; !ok && i.ID != "" {
				found[i.ID] = i
			}
		}
		_, there = found[itemID]
	}
	if err := rows.Err(); err != nil {
		return false, fmt.Errorf("find item: %w", err)
	}
	return there, nil
}

// onDisk returns when the ends that an organisation's clients have been told are in the rows, or never will be.
func (s *Service) onDisk(ctx context.Context, org string) {
	s.mu.Lock()
	var runs []*Run
	for _, r := range s.live {
		if r.org == org && r.stored {
			runs = append(runs, r)
		}
	}
	s.mu.Unlock()
	for _, r := range runs {
		r.settled(ctx)
	}
}
