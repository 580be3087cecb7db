package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// local is a server with a real model, as `make e2e-local` found or started it, seen through a proxy that keeps what it is
// asked.
type local struct {
	url   string // without /v1
	model string

	mu    sync.Mutex
	asked [][]byte
}

func localModel(t *testing.T) *local {
	t.Helper()
	base := os.Getenv("HARDSHELL_LOCAL_URL")
	if base == "" {
		lacks(t, "local-model", "opt in by make e2e-local")
	}
	to, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	l := &local{model: os.Getenv("HARDSHELL_LOCAL_MODEL")}
	if l.model == "" {
		l.model = firstModel(t, to.String())
	}
	onward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.Method == http.MethodPost {
			l.mu.Lock()
			l.asked = append(l.asked, body)
			l.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		onward.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	l.url = front.URL
	return l
}

func firstModel(t *testing.T, base string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil || len(list.Data) == 0 {
		t.Fatalf("%s lists no model: %v", base, err)
	}
	return list.Data[0].ID
}

// take gives what was asked since the last time.
func (l *local) take() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.asked
	l.asked = nil
	return asked
}

// config serves the model by one dialect.
func (l *local) config(dialect string) string {
	base := l.url
	if dialect != "anthropic" {
		base += "/v1"
	}
	return fmt.Sprintf("[providers.local]\ntype = %q\nbase_url = %q\napi_key = \"none\"\nmodels = [%q]\n", dialect, base, l.model)
}

// ways are how a model's server may be asked. A server of llama.cpp speaks three dialects, written by people who do not
// know us.
func ways() []string {
	if only := os.Getenv("HARDSHELL_LOCAL_DIALECTS"); only != "" {
		return strings.Split(only, ",")
	}
	return []string{"chat"}
}

// TestARealModelRunsACommand has a model that is no script call the shell: a grammar holds it to a call, ours runs in a
// container, and the model gets what was printed. What the model makes of it is its own affair.
func TestARealModelRunsACommand(t *testing.T) {
	l := localModel(t)
	for _, dialect := range ways() {
		t.Run(dialect, func(t *testing.T) {
			s := startWith(t, l.config(dialect))
			t.Run("streamed", func(t *testing.T) { l.turn(t, s, true) })
			if dialect == "chat" {
				t.Run("whole", func(t *testing.T) { l.turn(t, s, false) })
			}
		})
	}
}

// turn has the model read a file that only the container has. A small model may need to be asked in other words; what we
// make of its call must be right each time.
func (l *local) turn(t *testing.T, s *server, streamed bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	place, err := s.Client.Containers.New(ctx, openai.ContainerNewParams{Name: "local"})
	if err != nil {
		t.Fatal(err)
	}
	const secret = "amber violet 4711"
	file := openai.ContainerFileNewParams{File: openai.File(strings.NewReader(secret+"\n"), "note", "text/plain")}
	if _, err := s.Client.Containers.Files.New(ctx, place.ID, file); err != nil {
		t.Fatal(err)
	}
	ran := false
	for _, command := range []string{"cat note", "head note", "cat /mnt/data/note"} {
		l.take()
		r := l.ask(t, ctx, s, place.ID, command, streamed)
		i := slices.IndexFunc(r.Output, func(o responses.ResponseOutputItemUnion) bool { return o.Type == "shell_call" })
		if i < 0 {
			t.Logf("asked to run %q, it calls nothing and says %.200q", command, r.OutputText())
			if asked := l.take(); len(asked) == 0 || !bytes.Contains(asked[0], []byte(`"tools"`)) || !bytes.Contains(asked[0], []byte(`"tool_choice"`)) {
				t.Errorf("it was not told of the shell: %s", asked)
			}
			continue
		}
		if i+1 >= len(r.Output) || r.Output[i+1].Type != "shell_call_output" {
			t.Fatalf("its call has no output: %s", r.RawJSON())
		}
		call, got := r.Output[i].AsShellCall(), r.Output[i+1].AsShellCallOutput()
		if len(got.Output) != len(call.Action.Commands) || got.CallID != call.CallID {
			t.Fatalf("%d commands, %d outputs: %s", len(call.Action.Commands), len(got.Output), r.RawJSON())
		}
		var printed strings.Builder
		for _, o := range got.Output {
			if o.Outcome.Type != "exit" {
				t.Errorf("outcome %s", o.RawJSON())
			}
			printed.WriteString(o.Stdout)
		}
		asked := l.take()
		if len(asked) < 2 {
			t.Fatalf("the model was asked %d times: it does not know what was printed", len(asked))
		}
		if !strings.Contains(printed.String(), secret) {
			t.Logf("asked to run %q, it runs %q, which prints %.200q", command, call.Action.Commands, printed.String())
			ran = true
			continue
		}
		if bytes.Contains(asked[0], []byte(secret)) || !bytes.Contains(asked[1], []byte(secret)) {
			t.Errorf("what was printed belongs in the second question alone:\n%s\n%s", asked[0], asked[1])
		}
		t.Logf("it runs %q and says %.200q", call.Action.Commands, r.OutputText())
		return
	}
	if !ran { // a model of this size on another processor; one that ran, ran commands of its own
		lacks(t, "local-model", "asked in three ways, the model did not call the shell")
	}
}

// ask puts three turns of the same kind before the question. tool_choice is "required" and does not name the shell:
// llama.cpp takes an object there for "auto".
func (l *local) ask(t *testing.T, ctx context.Context, s *server, place, command string, streamed bool) *responses.Response {
	t.Helper()
	r := responses.ResponseNewParams{
		Model: "local/" + l.model, Temperature: openai.Float(0), MaxOutputTokens: openai.Int(400),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: examples(command)},
		Tools: []responses.ToolUnionParam{{OfShell: &responses.FunctionShellToolParam{
			Environment: responses.FunctionShellToolEnvironmentUnionParam{OfContainerReference: &responses.ContainerReferenceParam{ContainerID: place}},
		}}},
		ToolChoice: responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)},
	}
	if !streamed {
		got, err := s.Client.Responses.New(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	stream := s.Client.Responses.NewStreaming(ctx, r)
	var last *responses.Response
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseCompletedEvent:
			last = &e.Response
		case responses.ResponseIncompleteEvent:
			last = &e.Response
		case responses.ResponseFailedEvent:
			t.Fatal(e.RawJSON())
		}
	}
	if err := stream.Err(); err != nil || last == nil {
		t.Fatalf("the stream ended with %v: %v", last, err)
	}
	return last
}

func examples(command string) responses.ResponseInputParam {
	var items responses.ResponseInputParam
	user := func(text string) {
		items = append(items, responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser))
	}
	for i, e := range [][2]string{{"echo one", "one"}, {"expr 1 + 2", "3"}, {"echo red green", "red green"}} {
		id := fmt.Sprintf("call_%d", i)
		user("Run: " + e[0])
		items = append(items,
			responses.ResponseInputItemParamOfShellCall(responses.ResponseInputItemShellCallActionParam{Commands: []string{e[0]}}, id),
			responses.ResponseInputItemParamOfShellCallOutput(id, []responses.ResponseFunctionShellCallOutputContentParam{{Stdout: e[1] + "\n",
				Outcome: responses.ResponseFunctionShellCallOutputContentOutcomeUnionParam{OfExit: &responses.ResponseFunctionShellCallOutputContentOutcomeExitParam{ExitCode: 0}}}}),
			responses.ResponseInputItemParamOfMessage("It printed: "+e[1], responses.EasyInputMessageRoleAssistant))
	}
	user("Run: " + command)
	return items
}
