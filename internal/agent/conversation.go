package agent

import (
	"bytes"
	"context"
	"fmt"

	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/response/conversation"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// maxAdded is how many items a client may add to a conversation at once: the vendor's limit.
const maxAdded = 20

// Conversations are conversations as clients change them by hand: what they add is checked as a request's input is.
type Conversations struct {
	*conversation.Room
	find finder
}

// NewConversations makes them over the room of responses.
func NewConversations(responses *response.Service) *Conversations {
	return &Conversations{responses.Conversations(), responses.Items}
}

// Create makes a conversation.
func (c *Conversations) Create(ctx context.Context, org string, req *openai.ConversationRequest) (conversation.Conversation, error) {
	if err := checkMetadata(req.Metadata); err != nil {
		return conversation.Conversation{}, err
	}
	items, err := c.read(ctx, org, req.Items, nil)
	if err != nil {
		return conversation.Conversation{}, err
	}
	return c.Room.Create(ctx, org, items, req.Metadata)
}

// SetMetadata replaces a conversation's metadata.
func (c *Conversations) SetMetadata(ctx context.Context, org, id string, metadata map[string]string) (conversation.Conversation, error) {
	if err := checkMetadata(metadata); err != nil {
		return conversation.Conversation{}, err
	}
	return c.Room.SetMetadata(ctx, org, id, metadata)
}

// Add puts items behind those of a conversation and returns them as they stand there.
func (c *Conversations) Add(ctx context.Context, org, id string, items []openai.Item) ([]openai.Item, error) {
	h, err := c.History(ctx, org, id)
	if err != nil {
		return nil, err
	}
	if items, err = c.read(ctx, org, items, h.Items); err != nil {
		return nil, err
	}
	return items, c.Room.Add(ctx, org, id, h.Revision, items)
}

func (c *Conversations) read(ctx context.Context, org string, in, history []openai.Item) ([]openai.Item, error) {
	if len(in) > maxAdded {
		return nil, invalid("items", "%d items; %d may be added at once.", len(in), maxAdded)
	}
	in, err := c.find.dereferenced(ctx, org, in, history, "items")
	if err != nil {
		return nil, err
	}
	if in, err = readItems(in, "items"); err != nil {
		return nil, err
	}
	if err := distinct(in, history, "items"); err != nil {
		return nil, err
	}
	calls := map[string]bool{}
	for _, items := range [][]openai.Item{history, in} {
		for _, i := range items {
			if i.CallID != "" && answers[i.Type] == "" {
				calls[i.CallID] = true
			}
		}
	}
	for n, i := range in {
		if answers[i.Type] != "" && !calls[i.CallID] {
			return nil, invalid(fmt.Sprintf("items[%d].call_id", n), "No tool call found for %s with call_id %q.", i.Type, i.CallID)
		}
		if compacting(i) {
			return nil, invalid(fmt.Sprintf("items[%d].type", n), "A %s can't be added to a conversation by hand.", i.Type).
				WithCode("unsupported_item").WithTry("it in the input of a response")
		}
		if i.Type == openai.TypeMessage && bytes.Contains(i.Raw, []byte(`"input_file"`)) && hasFile(i) {
			return nil, invalid(fmt.Sprintf("items[%d].content", n), "A file can't be added to a conversation by hand.").
				WithCode("unsupported_item").WithTry("the file in the input of a response that continues the conversation")
		}
	}
	return in, nil
}

func hasFile(i openai.Item) bool {
	var m openai.Message
	if i.Decode(&m) != nil {
		return true // readItems has read it before
	}
	for _, p := range m.Content {
		if p.Type == "input_file" {
			return true
		}
	}
	return false
}
