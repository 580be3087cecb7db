package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/response/conversation"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// conversationID reads a request's conversation: an id, or an object with one. It is empty where the request has none.
func conversationID(raw json.RawMessage) (string, error) {
	if !present(raw) {
		return "", nil
	}
	var id string
	if json.Unmarshal(raw, &id) != nil {
		var ref openai.ConversationRef
		if json.Unmarshal(raw, &ref) != nil {
			return "", invalid("conversation", "conversation must be the id of one, or an object with its id.").WithCode("invalid_type")
		}
		if id = ref.ID; id == "" {
			return "", invalid("conversation.id", "A conversation needs its id.").WithCode("missing_required_parameter")
		}
	}
	if id == "" {
		return "", invalid("conversation", "conversation must be the id of one, or an object with its id.")
	}
	return id, nil
}

// continued reads what a request continues: the responses before it or its conversation, which no other response may
// continue, unless this one goes on after a crash: then it is the one. It returns the container that was used there last.
func (a *Agent) continued(ctx context.Context, p *plan, goesOn bool) (container string, err error) {
	if p.request.PreviousResponseID != nil {
		chain, err := a.before(ctx, p.principal.Org, p.request)
		if err != nil {
			return "", err
		}
		p.history = chain.Items
		return chain.ContainerID, nil
	}
	if p.conversation, err = conversationID(p.request.Conversation); err != nil || p.conversation == "" {
		return "", err
	}
	h, err := a.responses.History(ctx, p.principal.Org, p.conversation)
	if err != nil {
		return "", conversation.OfRequest(err)
	}
	if h.Running != "" && !goesOn {
		return "", conversation.Locked(p.conversation)
	}
	p.history, p.revision = withoutOrphans(h.Items), h.Revision
	return h.ContainerID, nil
}

// withoutOrphans leaves out outputs whose call is not there any more: a client may have deleted it from its conversation,
// and no model's provider takes the one without the other.
func withoutOrphans(items []openai.Item) []openai.Item {
	calls := map[string]bool{}
	kept := items[:0:0]
	for _, i := range items {
		if answers[i.Type] != "" && !calls[i.CallID] {
			continue
		}
		if i.CallID != "" && answers[i.Type] == "" {
			calls[i.CallID] = true
		}
		kept = append(kept, i)
	}
	return kept
}

// finder looks items up by their ids.
type finder func(ctx context.Context, org string, ids []string) (map[string]openai.Item, error)

// dereferenced puts the items in the place of references to them. What is in the history already is not taken twice.
func (find finder) dereferenced(ctx context.Context, org string, in, history []openai.Item, field string) ([]openai.Item, error) {
	var ids []string
	for n, i := range in {
		if i.Type != openai.TypeItemReference {
			continue
		}
		if i.ID == "" {
			return nil, invalid(fmt.Sprintf("%s[%d].id", field, n), "An item_reference needs an id.").WithCode("missing_required_parameter")
		}
		ids = append(ids, i.ID)
	}
	if ids == nil {
		return in, nil
	}
	if err := distinct(in, history, field); err != nil {
		return nil, err
	}
	found, err := find(ctx, org, ids)
	if err != nil {
		return nil, err
	}
	out := make([]openai.Item, len(in))
	for n, i := range in {
		if i.Type == openai.TypeItemReference {
			item, ok := found[i.ID]
			if !ok {
				return nil, fault.New(fault.NotFound, "Item with id '%s' not found. Items of responses that are not stored are not kept.", i.ID).
					WithCode("item_not_found").WithParam(fmt.Sprintf("%s[%d]", field, n)).WithTry("sending the item itself")
			}
			i = item
		}
		out[n] = i
	}
	return out, nil
}

// distinct refuses an item whose id another one has. Those without get one of their own.
func distinct(in, history []openai.Item, field string) error {
	seen := make(map[string]bool, len(in)+len(history))
	for _, i := range history {
		seen[i.ID] = true
	}
	for n, i := range in {
		if i.ID != "" && seen[i.ID] {
			return invalid(fmt.Sprintf("%s[%d].id", field, n), "Duplicate item found with id '%s'.", i.ID).WithTry("sending each item once")
		}
		seen[i.ID] = true
	}
	return nil
}
