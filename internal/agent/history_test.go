package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/response/conversation"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// History takes a conversation from the world's chains; one of the name "running CONV" is continued by a response.
func (w *world) History(_ context.Context, _, id string) (conversation.History, error) {
	c, ok := w.chains[id]
	if !ok {
		return conversation.History{}, conversation.Missing(id)
	}
	h := conversation.History{Items: c.Items, ContainerID: c.ContainerID, Revision: 7}
	if _, ok := w.chains["running "+id]; ok {
		h.Running = "resp_running"
	}
	return h, nil
}

// Items finds what is in any chain.
func (w *world) Items(_ context.Context, _ string, ids []string) (map[string]openai.Item, error) {
	found := map[string]openai.Item{}
	for _, id := range ids {
		for _, c := range w.chains {
			for _, i := range c.Items {
				if i.ID == id {
					found[id] = i
				}
			}
		}
	}
	return found, nil
}

func spoken(id, role, text string) openai.Item {
	kind := "input_text"
	if role == "assistant" {
		kind = "output_text"
	}
	return openai.NewItem(openai.Message{Type: openai.TypeMessage, ID: id, Role: role, Content: openai.Content{{Type: kind, Text: text}}})
}

func wasCalled(id, callID string) openai.Item {
	return openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, ID: id, CallID: callID, Name: "f", Arguments: "{}", Status: openai.Completed})
}

func returned(id, callID, text string) openai.Item {
	return openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, ID: id, CallID: callID, Output: openai.OutputText(text)})
}

func TestARequestContinuesAConversation(t *testing.T) {
	for _, said := range []string{`"conv_1"`, `{"id":"conv_1"}`, `{"id":"conv_1","more":true}`} {
		w := newWorld(t, runs("ls"), says("done"))
		w.commands = map[string]command{"ls": printed("", "", 0)}
		w.chains["conv_1"] = response.Chain{ContainerID: "cntr_before", Items: []openai.Item{spoken("msg_1", "user", "one"), spoken("msg_2", "assistant", "two"),
			returned("fco_1", "call_deleted", "an orphan"), wasCalled("fc_2", "call_2"), returned("fco_2", "call_2", "answered")}}
		_, o := w.run(`{"model":"m","input":"three","conversation":` + said + `,"tools":[{"type":"shell"}]}`)
		if o.Status != openai.Completed {
			t.Fatalf("%s: %+v", said, o.Error)
		}
		if b := w.begun[0]; b.ConversationID != "conv_1" || b.Revision != 7 || b.PreviousID != "" || len(b.Input) != 1 {
			t.Errorf("%s: begin = %+v", said, b)
		}
		if got := texts(w.asked[0].Items); got != "one|two|three" {
			t.Errorf("%s: the model was shown %q", said, got)
		}
		if got := shown(w.asked[0]); strings.Contains(got, "orphan") || !strings.Contains(got, "answered") {
			t.Errorf("%s: the model was shown %s", said, got)
		}
		if len(w.made) != 0 || o.ContainerID != "cntr_before" {
			t.Errorf("%s: the shell is in %s, %d containers were made", said, o.ContainerID, len(w.made))
		}
	}
}

func TestRefusalsOfWhatIsContinued(t *testing.T) {
	const user = `{"role":"user","content":"x"}`
	ref := func(id string) string { return `{"type":"item_reference","id":"` + id + `"}` }
	for name, c := range map[string]struct {
		body  string
		kind  fault.Kind
		code  string
		param string
	}{
		"not a conversation":          {`"input":"a","conversation":7`, fault.Invalid, "invalid_type", "conversation"},
		"no id":                       {`"input":"a","conversation":{}`, fault.Invalid, "missing_required_parameter", "conversation.id"},
		"an empty id":                 {`"input":"a","conversation":""`, fault.Invalid, "invalid_value", "conversation"},
		"unknown":                     {`"input":"a","conversation":"conv_2"`, fault.NotFound, "conversation_not_found", "conversation"},
		"running":                     {`"input":"a","conversation":"conv_busy"`, fault.Invalid, "conversation_locked", "conversation"},
		"not stored":                  {`"input":"a","conversation":"conv_1","store":false`, fault.Invalid, "invalid_value", "store"},
		"both":                        {`"input":"a","conversation":"conv_1","previous_response_id":"resp_1"`, fault.Invalid, "invalid_value", "previous_response_id"},
		"an item that is there":       {`"input":[{"role":"user","content":"x","id":"msg_1"}],"conversation":"conv_1"`, fault.Invalid, "invalid_value", "input[0].id"},
		"an item twice":               {`"input":[{"role":"user","content":"x","id":"a"},{"role":"user","content":"y","id":"a"}],"conversation":"conv_1"`, fault.Invalid, "invalid_value", "input[1].id"},
		"a call without its output":   {`"input":"a","conversation":"conv_open"`, fault.Invalid, "invalid_value", "input"},
		"a reference to nothing":      {`"input":[` + user + `,` + ref("msg_none") + `]`, fault.NotFound, "item_not_found", "input[1]"},
		"a reference without id":      {`"input":[{"type":"item_reference"}]`, fault.Invalid, "missing_required_parameter", "input[0].id"},
		"a reference twice":           {`"input":[` + ref("msg_1") + `,` + ref("msg_1") + `]`, fault.Invalid, "invalid_value", "input[1].id"},
		"a reference to what's there": {`"input":[` + ref("msg_1") + `],"conversation":"conv_1"`, fault.Invalid, "invalid_value", "input[0].id"},
		"a reference to half a pair":  {`"input":[` + ref("fc_1") + `]`, fault.Invalid, "invalid_value", "input"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.chains["conv_1"] = response.Chain{Items: []openai.Item{spoken("msg_1", "user", "one")}}
			w.chains["conv_busy"], w.chains["running conv_busy"] = w.chains["conv_1"], response.Chain{}
			w.chains["conv_open"] = response.Chain{Items: []openai.Item{wasCalled("fc_1", "call_1")}}
			_, err := w.create(request(t, `{"model":"m",`+c.body+`}`))
			f, ok := fault.As(err)
			if !ok || f.Kind != c.kind || f.Code != c.code || f.Param != c.param {
				t.Errorf("%+v", err)
			}
			if len(w.begun)+len(w.made) != 0 {
				t.Error("something was begun")
			}
		})
	}
}

func TestReferencesBecomeTheItems(t *testing.T) {
	w := newWorld(t, says("ok"))
	w.chains["resp_1"] = response.Chain{Items: []openai.Item{spoken("msg_1", "user", "one"), wasCalled("fc_1", "call_1"), returned("fco_1", "call_1", "out"), spoken("msg_2", "assistant", "two")}}
	w.run(`{"model":"m","input":[{"id":"msg_1"},{"type":"item_reference","id":"fc_1"},{"type":"function_call_output","call_id":"call_1","output":"mine"},
		{"id":"msg_2","type":null},{"role":"user","content":"three"}]}`)
	if got := texts(w.asked[0].Items); got != "one|two|three" {
		t.Errorf("the model was shown %q", got)
	}
	if got := shown(w.asked[0]); !strings.Contains(got, "mine") {
		t.Errorf("the model was shown %s", got)
	}
	var stored []string
	for _, i := range w.begun[0].Input {
		stored = append(stored, i.Type+" "+strings.SplitN(i.ID, "_", 2)[0])
	}
	if got := strings.Join(stored, ", "); got != "message msg, function_call fc, function_call_output fco, message msg, message msg" {
		t.Errorf("stored as %s", got)
	}
}

// However often its server dies, a response is in its conversation once, and what runs after it sees it.
func TestAConversationAfterEveryDeath(t *testing.T) {
	for at := 1; at <= 40; at += 3 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			h := newHouse(t, busyGround(t), at)
			room, a := h.now()
			c, err := NewConversations(room).Create(t.Context(), principal.Org, &openai.ConversationRequest{Items: []openai.Item{openai.UserText("before")}})
			if err != nil {
				t.Fatal(err)
			}
			r, live, err := a.begin(t.Context(), principal, request(t, strings.Replace(busyRequest, `"background"`, `"conversation":"`+c.ID+`","background"`, 1)))
			if err != nil {
				t.Fatal(err)
			}
			go live()
			checkBusy(t, h, r.ID())
			room, _ = h.now()
			resp, err := room.Get(t.Context(), principal.Org, r.ID())
			if err != nil {
				t.Fatal(err)
			}
			got, err := room.Conversations().History(t.Context(), principal.Org, c.ID)
			if err != nil || got.Running != "" {
				t.Fatalf("%+v, %v", got, err)
			}
			if len(got.Items) != 2+len(resp.Output) || texts(got.Items[:2]) != "before|go" {
				t.Fatalf("%d items, %d in the output: %q", len(got.Items), len(resp.Output), texts(got.Items))
			}
			for n, i := range resp.Output {
				if got.Items[n+2].ID != i.ID {
					t.Errorf("item %d is %s, want %s", n+2, got.Items[n+2].ID, i.ID)
				}
			}
			if got.ContainerID != resp.ContainerID || got.ContainerID == "" {
				t.Errorf("container %q, the response's is %q", got.ContainerID, resp.ContainerID)
			}
			for n, asked := range h.ground.asked {
				if !strings.HasPrefix(texts(asked.Items), "before|go") {
					t.Errorf("question %d began with %q", n, texts(asked.Items))
				}
			}
		})
	}
}

func TestWhatIsAddedByHand(t *testing.T) {
	h := newHouse(t, newGround(t))
	room, _ := h.now()
	talks := NewConversations(room)
	add := func(to string, items ...string) ([]openai.Item, error) {
		return talks.Add(t.Context(), principal.Org, to, request(t, `{"input":[`+strings.Join(items, ",")+`]}`).Input)
	}
	const user = `{"role":"user","content":"hello"}`
	c, err := talks.Create(t.Context(), principal.Org, &openai.ConversationRequest{Items: request(t, `{"input":[`+user+`]}`).Input, Metadata: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	added, err := add(c.ID, `{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}`, `{"role":"assistant","content":"hi","x_unknown":1}`)
	if err != nil || len(added) != 2 || !id.Valid(id.FunctionCall, added[0].ID) || !strings.Contains(string(added[1].Raw), "x_unknown") {
		t.Fatalf("%v, %v", added, err)
	}
	if _, err := add(c.ID, `{"type":"function_call_output","call_id":"call_1","output":"done"}`); err != nil {
		t.Errorf("an output whose call is there: %v", err)
	}
	other, err := talks.Create(t.Context(), principal.Org, &openai.ConversationRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if copied, err := add(other.ID, `{"type":"item_reference","id":"`+added[1].ID+`"}`); err != nil || copied[0].ID != added[1].ID {
		t.Errorf("a reference into another conversation: %v", err)
	}
	for name, bad := range map[string]struct {
		items []string
		code  string
		param string
	}{
		"an output without its call": {[]string{`{"type":"function_call_output","call_id":"call_9","output":"done"}`}, "invalid_value", "items[0].call_id"},
		"a type that is not served":  {[]string{user, `{"type":"computer_call","id":"x"}`}, "unsupported_item", "items[1].type"},
		"a role":                     {[]string{`{"role":"robot","content":"x"}`}, "invalid_value", "items[0].role"},
		"an item that is there":      {[]string{`{"role":"user","content":"x","id":"` + added[1].ID + `"}`}, "invalid_value", "items[0].id"},
		"a file":                     {[]string{`{"role":"user","content":[{"type":"input_file","filename":"a.txt","file_data":"YQ=="}]}`}, "unsupported_item", "items[0].content"},
		"too many":                   {strings.Split(strings.Repeat(user+"\n", 20)+user, "\n"), "invalid_value", "items"},
		"a reference to nothing":     {[]string{`{"id":"msg_none"}`}, "item_not_found", "items[0]"},
	} {
		if _, err := add(c.ID, bad.items...); err == nil {
			t.Errorf("%s was added", name)
		} else if f, ok := fault.As(err); !ok || f.Code != bad.code || f.Param != bad.param {
			t.Errorf("%s: %v", name, err)
		}
	}
	history, err := talks.History(t.Context(), principal.Org, c.ID)
	if err != nil || len(history.Items) != 4 {
		t.Errorf("%d items, %v", len(history.Items), err)
	}
	for name, metadata := range map[string]map[string]string{"key": {strings.Repeat("k", 65): "v"}, "value": {"k": strings.Repeat("v", 513)}} {
		_, made := talks.Create(t.Context(), principal.Org, &openai.ConversationRequest{Metadata: metadata})
		_, changed := talks.SetMetadata(t.Context(), principal.Org, c.ID, metadata)
		for _, err := range []error{made, changed} {
			if f, ok := fault.As(err); !ok || f.Param != "metadata" {
				t.Errorf("a long %s: %v", name, err)
			}
		}
	}
}

// tooLong fails as a provider does whose model can't take the conversation.
func tooLong(t *llm.Turn) {
	t.Fail(fault.New(fault.Upstream, "prompt is too long").WithCode(codeTooLong))
}

func TestTruncation(t *testing.T) {
	history := []openai.Item{spoken("", "developer", "rules")}
	for n := range 9 {
		history = append(history, spoken("", "user", fmt.Sprint("q", n)), wasCalled("", fmt.Sprint("c", n)), returned("", fmt.Sprint("c", n), "r"), spoken("", "assistant", fmt.Sprint("a", n)))
	}
	ask := func(mode string, rounds ...round) (*world, openai.Response) {
		w := newWorld(t, rounds...)
		w.chains["resp_1"] = response.Chain{Items: history}
		w.commands = map[string]command{"ls": printed("", "", 0)}
		_, o := w.run(`{"model":"m","input":"now","previous_response_id":"resp_1","truncation":"` + mode + `","tools":[{"type":"shell"}]}`)
		return w, o
	}
	w, o := ask("disabled", tooLong, says("ok"))
	if o.Status != openai.Failed || o.Error.Code != codeTooLong || len(w.asked) != 1 {
		t.Errorf("disabled: %s, %+v, asked %d times", o.Status, o.Error, len(w.asked))
	}
	w, o = ask("auto", tooLong, tooLong, runs("ls"), says("ok"))
	if o.Status != openai.Completed || len(w.asked) != 4 {
		t.Fatalf("auto: %s, %+v, asked %d times", o.Status, o.Error, len(w.asked))
	}
	for n, want := range []string{"rules|q0|a0", "rules|q2|a2", "rules|q3|a3", "rules|q3|a3"} {
		if got := texts(w.asked[n].Items); !strings.HasPrefix(got, want) || !strings.Contains(got, "a8|now") {
			t.Errorf("question %d: %q, want %q first", n, got, want)
		}
		calls, outputs := 0, 0
		for _, i := range w.asked[n].Items {
			switch i.Type {
			case openai.TypeFunctionCall:
				calls++
			case openai.TypeFunctionCallOutput:
				outputs++
			}
		}
		if calls != outputs {
			t.Errorf("question %d has %d calls and %d outputs", n, calls, outputs)
		}
		if told := strings.Count(w.asked[n].Instructions, noteTruncated); told != min(n, 1) {
			t.Errorf("question %d says %d times that something is left out", n, told)
		}
	}
	var rounds []round
	for range 20 {
		rounds = append(rounds, tooLong)
	}
	w, o = ask("auto", rounds...)
	if o.Status != openai.Failed || o.Error.Code != codeTooLong || len(w.asked) > 12 {
		t.Errorf("a last turn that is too long: %s, %+v, asked %d times", o.Status, o.Error, len(w.asked))
	}
	if got := texts(w.asked[len(w.asked)-1].Items); got != "rules|now" {
		t.Errorf("the last question: %q", got)
	}
}

func TestInputIsCounted(t *testing.T) {
	w := newWorld(t)
	w.chains["resp_1"] = response.Chain{Items: []openai.Item{spoken("msg_1", "user", strings.Repeat("word ", 400))}}
	a := newAgent(w, w, w, w.options)
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	count := func(body string) int64 {
		t.Helper()
		n, err := a.CountInput(t.Context(), principal, request(t, body))
		if err != nil || n.Object != "response.input_tokens" || !n.Estimated {
			t.Fatalf("%+v, %v", n, err)
		}
		return n.InputTokens
	}
	small := count(`{"model":"m","input":"hello"}`)
	if small < 1 || small > 30 {
		t.Errorf("hello counts %d", small)
	}
	for name, body := range map[string]string{
		"a longer input": `{"model":"m","input":"` + strings.Repeat("word ", 400) + `"}`,
		"a chain":        `{"model":"m","input":"hello","previous_response_id":"resp_1"}`,
		"instructions":   `{"model":"m","input":"hello","instructions":"` + strings.Repeat("word ", 400) + `"}`,
	} {
		if n := count(body); n < small+300 || n > small+900 {
			t.Errorf("%s: %d more than %d", name, n-small, small)
		}
	}
	if n := count(`{"model":"m","input":"hello","tools":[{"type":"shell"}]}`); n < small+50 {
		t.Errorf("the shell counts %d", n-small)
	}
	if _, err := a.CountInput(t.Context(), principal, request(t, `{"model":"m","input":"a","conversation":"conv_none"}`)); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of a conversation that is not there: %v", err)
	}
	if len(w.begun)+len(w.made)+len(w.asked) != 0 {
		t.Error("counting has begun something")
	}
}
