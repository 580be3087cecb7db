package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm/chat"
	upstreamhttp "github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// upstream is a Chat Completions server that answers its n-th question with the n-th text, and remembers what it was
// asked.
type upstream struct {
	mu      sync.Mutex
	answers []func(http.ResponseWriter, *http.Request)
	asked   []string
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	n := len(u.asked)
	u.asked = append(u.asked, string(body))
	var answer func(http.ResponseWriter, *http.Request)
	if n < len(u.answers) {
		answer = u.answers[n]
	}
	u.mu.Unlock()
	if answer == nil {
		http.Error(w, `{"error":{"message":"asked too often"}}`, http.StatusBadRequest)
		return
	}
	answer(w, r)
}

// sends streams chunks: each is a delta's JSON, or with "!" before it a whole line of data.
func sends(chunks ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, c := range chunks {
			if raw, ok := strings.CutPrefix(c, "!"); ok {
				fmt.Fprintf(w, "data: %s\n\n", raw)
			} else {
				fmt.Fprintf(w, `data: {"id":"up_%d","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":null}]}`+"\n\n", i, c)
			}
			http.NewResponseController(w).Flush()
		}
	}
}

// Lines that end a turn.
const (
	stopped   = `!{"id":"up","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	called    = `!{"id":"up","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	filtered  = `!{"id":"up","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}`
	usageLine = `!{"id":"up","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}`
	doneLine  = `![DONE]`
)

func toolCall(index int, id, arguments string) string {
	raw, _ := json.Marshal(arguments)
	return fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":"shell","arguments":%s}}]}`, index, id, raw)
}

// way is one way in which an upstream fails or is strange, by its number in the list of what users of gateways keep
// hitting. Of those that are not here, compaction (15), which is not served yet, is refused by name (TestRefusals, gateway/openai's
// TestUnknownPathsSpeakTheEnvelope), resume (16) is TestAServerMayDieAnywhere's, cancel (17) TestCancelEndsTheCommandAndTheLog's,
// silent minutes (18) gateway/openai's TestSilenceIsFilledFromTheFirstByte, who pays (19) TestAForegroundCancelReachesTheUpstream's,
// the store that grows (23) response's TestRetention and TestTheDatabaseKeepsToItsSize, and what is pinned (24) e2e's.
type way struct {
	number  int
	name    string
	answers []func(http.ResponseWriter, *http.Request)
	status  string
	text    string // of the messages that are complete
	started map[string]int
	silent  bool // it is given up for its silence; of all others a slow machine is waited for
	more    func(t *testing.T, u *upstream, log []response.Frame, r *openai.Response)
}

const plainQuestion = `{"model":"m","input":"go","instructions":"Be brief.","tools":[{"type":"shell"}],"background":true}`

var ways = []way{
	{number: 1, name: "ids that change", answers: many(sends(`{"role":"assistant","content":"Hi"}`, `{"content":" there."}`, stopped, doneLine)),
		status: openai.Completed, text: "Hi there.", more: oneID},
	{number: 2, name: "type in the data", answers: many(sends(`{"content":"Hi."}`, stopped, doneLine)), status: openai.Completed, text: "Hi.",
		more: func(t *testing.T, _ *upstream, log []response.Frame, _ *openai.Response) {
			for _, f := range log {
				if !strings.HasPrefix(string(f.Data), `{"type":"`+f.Type+`"`) {
					t.Errorf("event %d: %s", f.Seq, f.Data)
				}
			}
		}},
	{number: 3, name: "closed without an end", answers: many(sends(`{"content":"Hal"}`)), status: openai.Failed},
	{number: 3, name: "closed before anything", answers: repeat(sends(), 8), status: openai.Failed},
	{number: 3, name: "cut in a call", answers: many(sends(toolCall(0, "c1", `{"commands":["l`))), status: openai.Failed, started: map[string]int{}},
	{number: 4, name: "ends twice", answers: many(sends(`{"content":"Hi."}`, stopped, stopped, doneLine, doneLine)), status: openai.Completed, text: "Hi."},
	{number: 5, name: "usage after the end", answers: many(sends(`{"content":"Hi."}`, stopped, usageLine, doneLine)), status: openai.Completed, text: "Hi.",
		more: func(t *testing.T, _ *upstream, _ []response.Frame, r *openai.Response) {
			if r.Usage == nil || r.Usage.InputTokens != 7 || r.Usage.OutputTokens != 5 {
				t.Errorf("usage %+v", r.Usage)
			}
		}},
	{number: 6, name: "deltas of what was never announced", answers: many(sends(`{"content":"Hi."}`, stopped, doneLine)), status: openai.Completed, text: "Hi."},
	{number: 7, name: "a first delta that is empty", answers: many(sends(`{"role":"assistant","content":""}`, `{"content":"Hi."}`, stopped, doneLine)),
		status: openai.Completed, text: "Hi."},
	{number: 8, name: "text and a call in one answer", answers: many(sends(`{"content":"Let me look."}`, toolCall(0, "c1", `{"commands":["ls"]}`), called, doneLine),
		sends(`{"content":"Done."}`, stopped, doneLine)), status: openai.Completed, text: "Let me look.Done.", started: map[string]int{"ls": 1}},
	{number: 9, name: "deltas and the whole say the same", answers: many(sends(`{"content":"a"}`, `{"content":"b"}`, `{"content":"c"}`, stopped, doneLine)),
		status: openai.Completed, text: "abc", more: oneID},
	{number: 10, name: "arguments that come at once", answers: many(sends(toolCall(0, "c1", `{"commands":["ls"]}`), called, doneLine),
		sends(`{"content":"Done."}`, stopped, doneLine)), status: openai.Completed, text: "Done.", started: map[string]int{"ls": 1}},
	{number: 11, name: "parallel calls", answers: many(sends(toolCall(0, "c1", `{"commands":["ls"]}`), toolCall(1, "c2", `{"commands":["pwd"]}`), called, doneLine),
		sends(`{"content":"Done."}`, stopped, doneLine)), status: openai.Completed, text: "Done.", started: map[string]int{"ls": 1, "pwd": 1},
		more: func(t *testing.T, u *upstream, _ []response.Frame, _ *openai.Response) {
			var body struct {
				Messages []struct {
					Role      string
					ToolCalls []any `json:"tool_calls"`
				}
			}
			if err := json.Unmarshal([]byte(u.asked[1]), &body); err != nil {
				t.Fatal(err)
			}
			var roles []string
			for _, m := range body.Messages[len(body.Messages)-3:] {
				roles = append(roles, fmt.Sprint(m.Role, len(m.ToolCalls)))
			}
			if !slices.Equal(roles, []string{"assistant2", "tool0", "tool0"}) {
				t.Errorf("the second question ends with %q", roles)
			}
		}},
	{number: 12, name: "reasoning", answers: many(sends(`{"reasoning_content":"Hm. "}`, `{"reasoning_content":"Ah."}`, `{"content":"Hi."}`, stopped, doneLine)),
		status: openai.Completed, text: "Hi.", more: func(t *testing.T, _ *upstream, _ []response.Frame, r *openai.Response) {
			if r.Output[0].Type != openai.TypeReasoning || !strings.Contains(string(r.Output[0].Raw), "Hm. Ah.") {
				t.Errorf("output begins with %s", r.Output[0].Raw)
			}
		}},
	{number: 13, name: "a content filter is no success", answers: many(sends(`{"content":"Hi"}`, filtered, doneLine)), status: openai.Incomplete,
		more: func(t *testing.T, u *upstream, _ []response.Frame, r *openai.Response) {
			if r.IncompleteDetails == nil || r.IncompleteDetails.Reason != "content_filter" {
				t.Errorf("details %+v", r.IncompleteDetails)
			}
			if !strings.Contains(u.asked[0], "Be brief.") {
				t.Errorf("the instructions were dropped: %s", u.asked[0])
			}
		}},
	{number: 14, name: "the shell reaches the model", answers: many(sends(`{"content":"Hi."}`, stopped, doneLine)), status: openai.Completed, text: "Hi.",
		more: func(t *testing.T, u *upstream, _ []response.Frame, _ *openai.Response) {
			if !strings.Contains(u.asked[0], `"name":"shell"`) {
				t.Errorf("the upstream was asked %s", u.asked[0])
			}
		}},
	{number: 20, name: "usage of every turn, with the end", answers: many(sends(toolCall(0, "c1", `{"commands":["ls"]}`), called, usageLine, doneLine),
		sends(`{"content":"Done."}`, stopped, usageLine, doneLine)), status: openai.Completed, text: "Done.", started: map[string]int{"ls": 1},
		more: func(t *testing.T, _ *upstream, log []response.Frame, r *openai.Response) {
			if r.Usage == nil || r.Usage.TotalTokens != 24 || !strings.Contains(string(log[len(log)-1].Data), `"total_tokens":24`) {
				t.Errorf("usage %+v", r.Usage)
			}
		}},
	{number: 21, name: "an error after the first chunk", answers: many(sends(`{"content":"Hal"}`, `!{"error":{"message":"overloaded","type":"server_error"}}`)), status: openai.Failed},
	{number: 21, name: "an error after a command", answers: many(sends(toolCall(0, "c1", `{"commands":["ls"]}`), called, doneLine),
		sends(`{"content":"Hal"}`, `!{"error":{"message":"overloaded","type":"server_error"}}`)), status: openai.Failed, started: map[string]int{"ls": 1}},
	{number: 22, name: "an answer that is no stream", answers: repeat(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>busy</html>") }, 8), status: openai.Failed},
	{number: 22, name: "data that is no JSON", answers: many(sends(`{"content":"Hal"}`, `!{"id":`)), status: openai.Failed},
	{number: 22, name: "silence", answers: repeat(hangs, 8), status: openai.Failed, silent: true},
	{number: 22, name: "silence in the middle", answers: many(func(w http.ResponseWriter, r *http.Request) { sends(`{"content":"Hal"}`)(w, r); hangs(w, r) }), status: openai.Failed, silent: true},
	{number: 22, name: "a refusal", answers: many(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"bad key","code":"invalid_api_key"}}`, http.StatusUnauthorized)
	}), status: openai.Failed},
}

func many(answers ...func(http.ResponseWriter, *http.Request)) []func(http.ResponseWriter, *http.Request) {
	return answers
}

func repeat(answer func(http.ResponseWriter, *http.Request), n int) []func(http.ResponseWriter, *http.Request) {
	return slices.Repeat(many(answer), n)
}

func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// oneID says that all events speak of one response.
func oneID(t *testing.T, _ *upstream, log []response.Frame, r *openai.Response) {
	for _, f := range log {
		if strings.Contains(string(f.Data), `"response":{`) && !strings.Contains(string(f.Data), `"id":"`+r.ID+`"`) {
			t.Errorf("event %d is of another response: %s", f.Seq, f.Data)
		}
	}
}

// TestUpstreamsFailHonestly plays each way against a real log and the real translation.
func TestUpstreamsFailHonestly(t *testing.T) {
	for _, w := range ways {
		t.Run(fmt.Sprintf("%d %s", w.number, w.name), func(t *testing.T) {
			u := &upstream{answers: w.answers}
			server := httptest.NewServer(u)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			g := newGround(t)
			g.model = chat.New(chat.Options{Options: upstreamhttp.Options{BaseURL: server.URL, Client: client, FirstByteTimeout: 2 * time.Second,
				IdleTimeout: 2 * time.Second, MaxRetryWait: time.Millisecond}})
			g.scripts = map[string]script{"ls": {deltas: []container.Delta{{Stdout: "a"}}}, "pwd": {deltas: []container.Delta{{Stdout: "b"}}}}
			h := newHouse(t, g)
			r := h.play(t, plainQuestion)
			log, resp := h.await(r.id)
			checkLog(t, log)
			if resp.Status != w.status || resp.Status == openai.Failed && (resp.Error == nil || resp.Error.Message == "") {
				t.Fatalf("status %s, %+v; want %s", resp.Status, resp.Error, w.status)
			}
			var text strings.Builder
			for _, i := range resp.Output {
				var m openai.Message
				if i.Type == openai.TypeMessage && i.Status == openai.Completed && i.Decode(&m) == nil {
					text.WriteString(m.Content.Text())
				}
			}
			if text.String() != w.text {
				t.Errorf("text %q, want %q", text.String(), w.text)
			}
			for script, n := range g.starts {
				if n != w.started[script] {
					t.Errorf("%s was started %d times", script, n)
				}
			}
			if len(g.starts) != len(w.started) {
				t.Errorf("started %v, want %v", g.starts, w.started)
			}
			if w.more != nil {
				w.more(t, u, log, resp)
			}
			// The state was there before the end was told: a follow-up that is quick finds it.
			room, _ := h.now()
			if _, err := room.Chain(within(t), principal.Org, r.id); err != nil {
				t.Errorf("it cannot be gone on from: %v", err)
			}
		})
	}
}

// TestAForegroundCancelReachesTheUpstream is the nineteenth way: who pays for what nobody reads. A background response is
// left alone (gateway/openai), a foreground one ends its question.
func TestAForegroundCancelReachesTheUpstream(t *testing.T) {
	left, begun := make(chan struct{}), make(chan struct{})
	u := &upstream{answers: many(func(w http.ResponseWriter, r *http.Request) {
		sends(`{"content":"Hal"}`)(w, r)
		close(begun)
		<-r.Context().Done()
		close(left)
	})}
	server := httptest.NewServer(u)
	defer server.Close()
	g := newGround(t)
	g.model = chat.New(chat.Options{Options: upstreamhttp.Options{BaseURL: server.URL, Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}})
	h := newHouse(t, g)
	_, a := h.now()
	r, live, err := a.begin(t.Context(), principal, request(t, `{"model":"m","input":"go","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	go live()
	<-begun
	r.Cancel(response.ErrClientGone)
	select {
	case <-left:
	case <-time.After(patience):
		t.Fatal("the upstream is still asked")
	}
	if log, resp := h.await(r.ID()); resp.Status != openai.Cancelled || log[len(log)-1].Type != openai.EventIncomplete {
		t.Errorf("%s", resp.Status)
	}
}
