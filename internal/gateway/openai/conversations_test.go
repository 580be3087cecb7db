package openai

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/agent"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// openTalks is a door over the real rooms of responses and conversations.
func openTalks(t testing.TB) *house {
	t.Helper()
	db, _, _ := rooms(t)
	s, err := response.New(context.Background(), response.Options{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return openOver(t, 0, func(d *Door) {
		d.Keepalive, d.Conversations, d.Counter = time.Minute, agent.NewConversations(s), counter{}
	})
}

// counter counts the items of a request's input.
type counter struct{}

func (counter) CountInput(_ context.Context, p tenant.Principal, req *wire.CreateRequest) (wire.InputTokens, error) {
	return wire.InputTokens{Object: "response.input_tokens", InputTokens: int64(len(req.Input)), Estimated: true}, nil
}

func post[T any](t testing.TB, h *house, path, body string) T {
	t.Helper()
	res, text := h.do(t, "POST", path, []byte(body), nil)
	return read[T](t, res, text)
}

func get[T any](t testing.TB, h *house, path string) T {
	t.Helper()
	res, text := h.do(t, "GET", path, nil, nil)
	return read[T](t, res, text)
}

func TestConversationsAPI(t *testing.T) {
	h := openTalks(t)
	c := post[wire.Conversation](t, h, "/v1/conversations", `{"items":[{"role":"user","content":"one"}],"metadata":{"topic":"tea"},"x_unknown":1}`)
	if !strings.HasPrefix(c.ID, "conv_") || c.Object != "conversation" || c.CreatedAt == 0 || c.Metadata["topic"] != "tea" {
		t.Fatalf("%+v", c)
	}
	at := "/v1/conversations/" + c.ID
	if got := get[wire.Conversation](t, h, at); fmt.Sprint(got) != fmt.Sprint(c) {
		t.Errorf("%+v", got)
	}
	if got := post[wire.Conversation](t, h, at, `{"metadata":{"topic":"coffee"}}`); got.Metadata["topic"] != "coffee" || got.ID != c.ID {
		t.Errorf("%+v", got)
	}
	if _, body := h.do(t, "POST", at, []byte(`{"metadata":null}`), nil); !strings.Contains(body, `"metadata":{}`) {
		t.Errorf("no metadata: %s", body)
	}
	if res, body := h.do(t, "POST", "/v1/conversations", nil, nil); res.StatusCode != 200 || !strings.Contains(body, `"metadata":{}`) {
		t.Errorf("one of nothing: %d %s", res.StatusCode, body)
	}
	list := post[wire.List[wire.Item]](t, h, at+"/items?include[]=message.input_image.image_url", `{"items":[{"role":"user","content":"two"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"three"}]}]}`)
	if list.Object != "list" || len(list.Data) != 2 || list.HasMore || *list.FirstID != list.Data[0].ID || *list.LastID != list.Data[1].ID {
		t.Errorf("%+v", list)
	}
	var all []string
	for after, pages := "", 0; pages < 5; pages++ { // as the SDK's pager does it
		page := get[wire.List[wire.Item]](t, h, at+"/items?limit=2&order=asc&after="+after)
		for _, i := range page.Data {
			var m wire.Message
			if err := i.Decode(&m); err != nil || m.Status != "completed" {
				t.Errorf("%s, %v", i.Raw, err)
			}
			all = append(all, m.Content.Text())
		}
		if !page.HasMore {
			break
		}
		after = *page.LastID
	}
	if got := strings.Join(all, " "); got != "one two three" {
		t.Errorf("the items are %q", got)
	}
	if page := get[wire.List[wire.Item]](t, h, at+"/items?limit=1"); page.Data[0].ID != list.Data[1].ID || !page.HasMore {
		t.Errorf("newest first: %+v", page)
	}
	two := at + "/items/" + list.Data[0].ID
	if got := get[wire.Message](t, h, two); got.Content.Text() != "two" || got.Status != "completed" {
		t.Errorf("%+v", got)
	}
	res, body := h.do(t, "DELETE", two, nil, nil)
	if got := read[wire.Conversation](t, res, body); got.ID != c.ID || got.Object != "conversation" {
		t.Errorf("%+v", got)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if res, body := h.do(t, method, two, nil, nil); res.StatusCode != 404 || errorOf(t, body).code != "item_not_found" {
			t.Errorf("%s of a deleted item: %d %s", method, res.StatusCode, body)
		}
	}
	if _, body := h.do(t, "DELETE", at, nil, nil); !strings.Contains(body, `"object":"conversation.deleted","deleted":true`) {
		t.Errorf("delete: %s", body)
	}
	if res, body := h.do(t, "GET", at, nil, nil); res.StatusCode != 404 || errorOf(t, body).code != "conversation_not_found" {
		t.Errorf("deleted: %d %s", res.StatusCode, body)
	}
}

func TestConversationsRefusals(t *testing.T) {
	h := openTalks(t)
	c := post[wire.Conversation](t, h, "/v1/conversations", `{"items":[{"role":"user","content":"one","id":"msg_1"}]}`)
	at := "/v1/conversations/" + c.ID
	for _, bad := range []struct{ method, path, body, param string }{
		{"POST", "/v1/conversations", `{"items":7}`, "items"},
		{"POST", "/v1/conversations", `{"items":[{"role":"user","content":"a"},{"type":5}]}`, "items[1].type"},
		{"POST", "/v1/conversations", `{"items":[{"role":"robot","content":"a"}]}`, "items[0].role"},
		{"POST", "/v1/conversations", `{"metadata":{"a":1}}`, "metadata"},
		{"POST", "/v1/conversations", `{"metadata":{"` + strings.Repeat("k", 65) + `":"v"}}`, "metadata"},
		{"POST", at, `{}`, "metadata"},
		{"POST", at, `{"metadata":"x"}`, "metadata"},
		{"POST", at + "/items", `{}`, "items"},
		{"POST", at + "/items", `{"items":[]}`, "items"},
		{"POST", at + "/items", `{"items":[{"role":"user","content":"a","id":"msg_1"}]}`, "items[0].id"},
		{"POST", at + "/items?include=x", `{"items":[{"role":"user","content":"a"}]}`, "include[0]"},
		{"GET", at + "/items?limit=0", "", "limit"},
		{"GET", at + "/items?limit=101", "", "limit"},
		{"GET", at + "/items?order=up", "", "order"},
		{"GET", at + "/items?after=msg_none", "", "after"},
		{"GET", at + "/items?include[]=reasoning.encrypted_content&include[]=x", "", "include[1]"},
		{"GET", at + "/items/msg_1?include=x", "", "include[0]"},
	} {
		var body []byte
		if bad.body != "" {
			body = []byte(bad.body)
		}
		res, text := h.do(t, bad.method, bad.path, body, nil)
		if param, _, _ := strings.Cut(errorOf(t, text).param, ".a"); res.StatusCode != 400 || param != bad.param {
			t.Errorf("%s %s %s: %d %s", bad.method, bad.path, bad.body, res.StatusCode, text)
		}
	}
	if got := get[wire.List[wire.Item]](t, h, at+"/items"); len(got.Data) != 1 {
		t.Errorf("a refused request has added something: %+v", got)
	}
}

func TestAnotherOrganisationsConversationLooksAbsent(t *testing.T) {
	h := openTalks(t)
	c := post[wire.Conversation](t, h, "/v1/conversations", `{"items":[{"role":"user","content":"one","id":"msg_1"}]}`)
	for _, r := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"POST", "", `{"metadata":{}}`}, {"DELETE", "", ""}, {"GET", "/items", ""}, {"GET", "/items?after=msg_1", ""},
		{"POST", "/items", `{"items":[{"role":"user","content":"x"}]}`}, {"GET", "/items/msg_1", ""}, {"DELETE", "/items/msg_1", ""},
	} {
		var body []byte
		if r.body != "" {
			body = []byte(r.body)
		}
		theirs, text := h.do(t, r.method, "/v1/conversations/"+c.ID+r.path, body,
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+keyTwo) })
		never, nothing := h.do(t, r.method, "/v1/conversations/conv_never"+r.path, body, nil)
		if theirs.StatusCode != 404 || never.StatusCode != 404 || strings.ReplaceAll(text, c.ID, "conv_never") != nothing {
			t.Errorf("%s %s: another's %d %s, unknown %d %s", r.method, r.path, theirs.StatusCode, text, never.StatusCode, nothing)
		}
	}
	if got := get[wire.List[wire.Item]](t, h, "/v1/conversations/"+c.ID+"/items"); len(got.Data) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestCountOfInput(t *testing.T) {
	h := openTalks(t)
	res, body := h.do(t, "POST", "/v1/responses/input_tokens", []byte(`{"model":"m","input":"hello","x_unknown":{}}`), nil)
	if res.StatusCode != 200 || strings.TrimSpace(body) != `{"object":"response.input_tokens","input_tokens":1,"estimated":true}` {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, body := h.do(t, "POST", "/v1/responses/input_tokens", []byte(`{"model":"m","input":7}`), nil); res.StatusCode != 400 || errorOf(t, body).param != "input" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, _ := h.do(t, "GET", "/v1/responses/input_tokens", nil, nil); res.StatusCode != 404 {
		t.Errorf("a response of that name: %d", res.StatusCode)
	}
	if res, _ := h.do(t, "PUT", "/v1/responses/input_tokens", nil, nil); res.StatusCode != 405 {
		t.Errorf("PUT: %d", res.StatusCode)
	}
}

func TestIncludeOfInputItems(t *testing.T) {
	h := open(t, time.Minute)
	h.responses.runs["resp_1"] = newRun()
	for query, want := range map[string]int{
		"": 200,
		"?include[]=reasoning.encrypted_content&include[]=message.input_image.image_url": 200,
		"?include=message.output_text.logprobs":                                          200,
		"?include[]=everything":                                                          400,
	} {
		for _, path := range []string{"/v1/responses/resp_1/input_items", "/v1/responses/resp_1"} {
			res, body := h.do(t, "GET", path+query, nil, nil)
			if res.StatusCode != want || want == 400 && errorOf(t, body).param != "include[0]" {
				t.Errorf("%s%s: %d %s", path, query, res.StatusCode, body)
			}
		}
	}
}
