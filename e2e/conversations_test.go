package e2e

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/conversations"
	"github.com/openai/openai-go/v3/responses"
)

// A response continues a conversation, whose items come through the SDK's auto pager in both orders (check 23).
func TestAConversationPagesThroughItsItems(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	talk, err := s.Client.Conversations.New(ctx, conversations.ConversationNewParams{Metadata: map[string]string{"topic": "tea"}})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, input := range []string{"$ echo kept > note.txt", "$ cat note.txt"} {
		r := request(input)
		r.Conversation = responses.ResponseNewParamsConversationUnion{OfString: openai.String(talk.ID)}
		resp, err := s.Client.Responses.New(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Conversation.ID != talk.ID {
			t.Errorf("conversation %q", resp.Conversation.ID)
		}
		asked := s.Client.Responses.InputItems.ListAutoPaging(ctx, resp.ID, responses.InputItemListParams{Order: responses.InputItemListParamsOrderAsc})
		for asked.Next() {
			want = append(want, asked.Current().ID)
		}
		if err := asked.Err(); err != nil {
			t.Fatal(err)
		}
		for _, item := range resp.Output {
			want = append(want, item.ID)
			if item.AsAny() == nil {
				t.Errorf("item %s has no typed variant", item.Type)
			}
		}
		if last := resp.Output[1].AsShellCallOutput(); input != "$ echo kept > note.txt" && last.Output[0].Stdout != "kept\n" {
			t.Errorf("the second response is not in the first's container: %q", last.Output[0].Stdout)
		}
	}
	if len(want) != 8 {
		t.Errorf("%d items", len(want))
	}
	for _, order := range []conversations.ItemListParamsOrder{conversations.ItemListParamsOrderAsc, conversations.ItemListParamsOrderDesc} {
		var got []string
		items := s.Client.Conversations.Items.ListAutoPaging(ctx, talk.ID, conversations.ItemListParams{Limit: openai.Int(3), Order: order})
		for items.Next() {
			if items.Current().AsAny() == nil {
				t.Errorf("item %s has no typed variant", items.Current().Type)
			}
			got = append(got, items.Current().ID)
		}
		if err := items.Err(); err != nil {
			t.Fatal(err)
		}
		if order == conversations.ItemListParamsOrderDesc {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", order, got, want)
		}
	}
	if gone, err := s.Client.Conversations.Delete(ctx, talk.ID); err != nil || !gone.Deleted {
		t.Errorf("%+v, %v", gone, err)
	}
	var failed *openai.Error
	if _, err := s.Client.Conversations.Get(ctx, talk.ID); !errors.As(err, &failed) || failed.StatusCode != 404 || failed.Code != "conversation_not_found" {
		t.Errorf("err = %v", err)
	}
}
