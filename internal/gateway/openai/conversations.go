package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response/conversation"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Conversations are what responses may continue and add to, as clients change them by hand. Another organisation's look
// absent.
type Conversations interface {
	Create(ctx context.Context, org string, req *wire.ConversationRequest) (conversation.Conversation, error)
	Get(ctx context.Context, org, id string) (conversation.Conversation, error)
	SetMetadata(ctx context.Context, org, id string, metadata map[string]string) (conversation.Conversation, error)
	Delete(ctx context.Context, org, id string) error
	// Add returns the items as they stand in the conversation.
	Add(ctx context.Context, org, id string, items []wire.Item) ([]wire.Item, error)
	Items(ctx context.Context, org, id string, page conversation.Page) ([]wire.Item, bool, error)
	Item(ctx context.Context, org, id, itemID string) (wire.Item, error)
	DeleteItem(ctx context.Context, org, id, itemID string) (conversation.Conversation, error)
}

// State is what is kept between responses, and what may be asked about it.
type State struct {
	Conversations Conversations
	Counter       Counter
}

func (d *Door) conversationRoutes() map[string]gateway.Handler {
	return map[string]gateway.Handler{
		"POST /v1/conversations":                     d.createConversation,
		"GET /v1/conversations/{id}":                 d.getConversation,
		"POST /v1/conversations/{id}":                d.updateConversation,
		"DELETE /v1/conversations/{id}":              d.deleteConversation,
		"POST /v1/conversations/{id}/items":          d.addItems,
		"GET /v1/conversations/{id}/items":           d.listItems,
		"GET /v1/conversations/{id}/items/{item}":    d.getItem,
		"DELETE /v1/conversations/{id}/items/{item}": d.deleteItem,
	}
}

func (d *Door) createConversation(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req wire.ConversationRequest
	if r.ContentLength != 0 { // nothing in it has to be said
		if _, err := readJSON(r, &req); err != nil {
			return err
		}
	}
	c, err := d.Conversations.Create(r.Context(), p.Org, &req)
	return writeConversation(w, c, err)
}

func writeConversation(w http.ResponseWriter, c conversation.Conversation, err error) error {
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.Conversation{ID: c.ID, Object: "conversation", CreatedAt: c.Created.Unix(), Metadata: c.Metadata})
}

func (d *Door) getConversation(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	c, err := d.Conversations.Get(r.Context(), p.Org, r.PathValue("id"))
	return writeConversation(w, c, err)
}

func (d *Door) updateConversation(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req struct {
		Metadata map[string]string `json:"metadata"`
	}
	raw, err := readJSON(r, &req)
	if err != nil {
		return err
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) != nil || keys["metadata"] == nil {
		return fault.New(fault.Invalid, "metadata is what can be changed of a conversation; null takes all of it away.").
			WithCode("missing_required_parameter").WithParam("metadata")
	}
	c, err := d.Conversations.SetMetadata(r.Context(), p.Org, r.PathValue("id"), req.Metadata)
	return writeConversation(w, c, err)
}

// deleteConversation leaves the responses that have added to it.
func (d *Door) deleteConversation(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id := r.PathValue("id")
	if err := d.Conversations.Delete(r.Context(), p.Org, id); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.Deleted{ID: id, Object: "conversation.deleted", Deleted: true})
}

func (d *Door) addItems(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	if err := checkInclude(r.URL.Query()); err != nil {
		return err
	}
	var req wire.ItemsRequest
	if _, err := readJSON(r, &req); err != nil {
		return err
	}
	if len(req.Items) == 0 {
		return fault.New(fault.Invalid, "items must be a list of at least one item.").WithCode("missing_required_parameter").WithParam("items")
	}
	items, err := d.Conversations.Add(r.Context(), p.Org, r.PathValue("id"), req.Items)
	if err != nil {
		return err
	}
	return writeItems(w, items, false)
}

func (d *Door) listItems(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	page, err := readItemPage(r.URL.Query())
	if err != nil {
		return err
	}
	items, more, err := d.Conversations.Items(r.Context(), p.Org, r.PathValue("id"),
		conversation.Page{Limit: page.limit, After: page.after, Order: page.order})
	if err != nil {
		return err
	}
	return writeItems(w, items, more)
}

func writeItems(w http.ResponseWriter, items []wire.Item, more bool) error {
	shown := make([]wire.Item, len(items))
	for n, i := range items {
		shown[n] = whole(i)
	}
	return writeJSON(w, http.StatusOK, wire.NewList(shown, more, func(i wire.Item) string { return i.ID }))
}

func (d *Door) getItem(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	if err := checkInclude(r.URL.Query()); err != nil {
		return err
	}
	i, err := d.Conversations.Item(r.Context(), p.Org, r.PathValue("id"), r.PathValue("item"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, whole(i))
}

// deleteItem answers with the conversation, as the vendor does.
func (d *Door) deleteItem(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	c, err := d.Conversations.DeleteItem(r.Context(), p.Org, r.PathValue("id"), r.PathValue("item"))
	return writeConversation(w, c, err)
}

// whole is an item as conversations show it: a message always has a status there, which clients need not send.
func whole(i wire.Item) wire.Item {
	if i.Type != wire.TypeMessage || i.Status != "" {
		return i
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(i.Raw, &keys) != nil || keys == nil {
		return i
	}
	keys["status"] = json.RawMessage(`"` + wire.Completed + `"`)
	return wire.NewItem(keys)
}

// readItemPage reads the query of a list of items.
func readItemPage(q url.Values) (page, error) {
	if err := checkInclude(q); err != nil {
		return page{}, err
	}
	return readPage(q)
}

// checkInclude refuses what nobody can ask for by include. What can be asked for is shown always, where there is any.
func checkInclude(q url.Values) error {
	for _, name := range []string{"include", "include[]"} {
		for n, v := range q[name] {
			if !wire.KnownInclude(v) {
				return fault.New(fault.Invalid, "include has an unknown value %q.", v).WithCode("invalid_value").WithParam(fmt.Sprintf("include[%d]", n))
			}
		}
	}
	return nil
}

// Counter says how many tokens a request's input would count.
type Counter interface {
	CountInput(ctx context.Context, p tenant.Principal, req *wire.CreateRequest) (wire.InputTokens, error)
}

func (d *Door) countInput(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req wire.CreateRequest
	raw, err := readJSON(r, &req)
	if err != nil {
		return err
	}
	req.Raw = raw
	n, err := d.Counter.CountInput(r.Context(), p, &req)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, n)
}
