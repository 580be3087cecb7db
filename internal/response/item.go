package response

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// How the life of a response lies around the time at which one of its items was made.
const (
	madeBefore = 2 * time.Minute // an input's item, before its response: files are fetched between the two
	madeAfter  = 24 * time.Hour  // an output's item, after it
	madeSlack  = time.Second     // clocks that were set
)

// Items finds items by their ids: those of conversations, and of responses that have ended. An id that this program made
// says when; the responses that lived then are few. Ids that a client made up are found in conversations only. What is
// not found is not in the map, and neither is what another organisation has.
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
	}
	return found, nil
}

// recall finds the response that has an item, and notes all items of it: a request that names one of them names others.
func (s *Service) recall(ctx context.Context, org, itemID string, found map[string]openai.Item) error {
	made, ok := id.Made(itemID)
	if !ok {
		return nil
	}
	type texts struct{ input, object string }
	// LIKE finds more than it should, as an id holds an underscore: what it finds is read.
	rows, err := store.All(ctx, s.db.Read(), func(row store.Scanner) (t texts, err error) {
		err = row.Scan(&t.input, &t.object)
		return t, err
	}, `SELECT i.items, r.object FROM response r JOIN response_input i ON i.response_id = r.id
		WHERE r.org = $1 AND r.id >= $2 AND r.id < $3 AND r.completed >= $4 AND (r.object LIKE $5 OR i.items LIKE $5)
		ORDER BY r.id DESC`, org, id.From(id.Response, made.Add(-madeAfter)), id.From(id.Response, made.Add(madeBefore)),
		made.Add(-madeSlack).UnixMilli(), `%"`+itemID+`"%`)
	if err != nil {
		return fmt.Errorf("find item: %w", err)
	}
	for _, t := range rows {
		var all []openai.Item
		var o struct {
			Output []openai.Item `json:"output"`
		}
		err := json.Unmarshal([]byte(t.input), &all)
		if err == nil {
			err = json.Unmarshal([]byte(t.object), &o)
		}
		if err != nil {
			return fmt.Errorf("find item: %w", err)
		}
		for _, i := range append(all, o.Output...) {
			if _, ok := found[i.ID]; !ok && i.ID != "" {
				found[i.ID] = i
			}
		}
	}
	return nil
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
