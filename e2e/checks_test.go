package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// key runs `hardshell key` on the server's data folder.
func (s *server) key(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(within(t), s.bin, append([]string{"key"}, append(args, "--data", s.data)...)...)
	cmd.Env = s.cmd.Env
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("key %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

func say(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: "scripted", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

func answer(callID string) responses.ResponseNewParamsInputUnion {
	item := responses.ResponseInputItemParamOfFunctionCallOutput("done")
	item.OfFunctionCallOutput.CallID = openai.String(callID)
	return responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{item}}
}

// Check 14: an output that answers no call is a 400, and a chain of another organisation a 404, as one that never was.
func TestWhatAnOutputMustAnswer(t *testing.T) {
	s := start(t)
	ctx := within(t)
	first, err := s.Client.Responses.New(ctx, say("hello"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey(s.key(t, "create", "--org", "other")), option.WithMaxRetries(0))
	for _, c := range []struct {
		name     string
		client   *openai.Client
		previous string
		status   int
		code     string
	}{
		{"no call of that name", &s.Client, first.ID, 400, "invalid_value"},
		{"no response of that name", &s.Client, "resp_nobody", 404, "previous_response_not_found"},
		{"another organisation's", &stranger, first.ID, 404, "previous_response_not_found"},
	} {
		_, err := c.client.Responses.New(ctx, responses.ResponseNewParams{Model: "scripted", PreviousResponseID: openai.String(c.previous), Input: answer("call_nobody")})
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != c.status || e.Code != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Check 20: errors by status, each with a request id.
func TestErrorsByStatus(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error":{"message":"no"}}`, http.StatusBadRequest)
	}))
	t.Cleanup(broken.Close)
	s := startWith(t, "[features.containers]\nmax_per_org = 1\n[providers.broken]\ntype = \"chat\"\nbase_url = \""+broken.URL+"/v1\"\nmodels = [\"m\"]\n")
	ctx := within(t)
	as := func(key string) *openai.Client {
		c := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
		return &c
	}
	late := say("$ " + nap(4))
	late.Background, late.Tools = openai.Bool(true), request("").Tools
	running, err := s.Client.Responses.New(ctx, late)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(c *openai.Client, change func(*responses.ResponseNewParams)) error {
		p := say("hello")
		change(&p)
		_, err := c.Responses.New(ctx, p)
		return err
	}
	for _, c := range []struct {
		name   string
		err    error
		status int
		code   string
	}{
		{"a bad value", ask(&s.Client, func(p *responses.ResponseNewParams) { p.Temperature = openai.Float(9) }), 400, "invalid_value"},
		{"no key", ask(as("wrong"), func(*responses.ResponseNewParams) {}), 401, "invalid_api_key"},
		{"a key for something else", ask(as(s.key(t, "create", "--scope", "approve")), func(*responses.ResponseNewParams) {}), 403, "insufficient_scope"},
		{"nothing there", ask(&s.Client, func(p *responses.ResponseNewParams) { p.PreviousResponseID = openai.String("resp_x") }), 404, "previous_response_not_found"},
		{"too early", ask(&s.Client, func(p *responses.ResponseNewParams) { p.PreviousResponseID = openai.String(running.ID) }), 409, ""},
		{"an upstream that refuses", ask(&s.Client, func(p *responses.ResponseNewParams) { p.Model = "broken/m" }), 502, ""},
	} {
		wantError(t, c.name, c.err, c.status, c.code)
	}
	if _, err := s.Client.Responses.Cancel(ctx, running.ID); err != nil {
		t.Error(err)
	}
	var full error
	for range 2 { // the first may be the one that the response has made
		_, full = s.Client.Containers.New(ctx, openai.ContainerNewParams{Name: "x"})
	}
	wantError(t, "one too many", full, 429, "too_many_containers")
}

func wantError(t *testing.T, name string, err error, status int, code string) {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != status || code != "" && e.Code != code || e.Response.Header.Get("X-Request-Id") == "" {
		t.Errorf("%s: %v", name, err)
	}
}

// Check 20, second half: a client that tries again by itself runs no command twice, whatever failed after it.
func TestARetryRunsNothingTwice(t *testing.T) {
	var asked atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			http.Error(w, `{"error":{"message":"broken"}}`, http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"shell","arguments":"{\"commands\":[\"echo once >> log\"]}"}}]},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(upstream.Close)
	s := startWith(t, "[providers.mock]\ntype = \"chat\"\nbase_url = \""+upstream.URL+"/v1\"\nmodels = [\"m\"]\n")
	ctx := within(t)
	stubborn := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey(s.Key), option.WithMaxRetries(2))
	p := request("do it")
	p.Model = "mock/m"
	r, err := stubborn.Responses.New(ctx, p)
	if err != nil || r.Status != "failed" {
		t.Fatalf("%v, %v", r, err)
	}
	all, err := s.Client.Containers.List(ctx, openai.ContainerListParams{})
	if err != nil || len(all.Data) != 1 {
		t.Fatalf("%d containers, %v: the request was made more than once", len(all.Data), err)
	}
	again := say("$ cat log")
	again.Tools, again.PreviousResponseID = request("").Tools, openai.String(r.ID)
	if r, err = s.Client.Responses.New(ctx, again); err != nil || r.Output[1].AsShellCallOutput().Output[0].Stdout != "once\n" {
		t.Errorf("%v, %v", r, err)
	}
}

// pages collects the ids of a list through the SDK's pager.
type pager[T any] interface {
	Next() bool
	Current() T
	Err() error
}

func pages[T any](t *testing.T, p pager[T], id func(T) string) (all []string) {
	t.Helper()
	for p.Next() {
		all = append(all, id(p.Current()))
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// Check 23: input items, containers and their files through the pager, in both orders, each entry once.
func TestAutoPagingInBothOrders(t *testing.T) {
	s := start(t)
	ctx := within(t)
	var input responses.ResponseInputParam
	for i := range 5 {
		input = append(input, responses.ResponseInputItemParamOfMessage(fmt.Sprint("message ", i), responses.EasyInputMessageRoleUser))
	}
	r, err := s.Client.Responses.New(ctx, responses.ResponseNewParams{Model: "scripted", Input: responses.ResponseNewParamsInputUnion{OfInputItemList: input}})
	if err != nil {
		t.Fatal(err)
	}
	var place string
	for i := range 3 {
		c, err := s.Client.Containers.New(ctx, openai.ContainerNewParams{Name: fmt.Sprint("c", i)})
		if err != nil {
			t.Fatal(err)
		}
		place = c.ID
	}
	for i := range 5 {
		file := openai.File(strings.NewReader("x"), fmt.Sprint("f", i), "text/plain")
		if _, err := s.Client.Containers.Files.New(ctx, place, openai.ContainerFileNewParams{File: file}); err != nil {
			t.Fatal(err)
		}
	}
	for name, list := range map[string]struct {
		in   func(order string) []string
		want int
	}{
		"input items": {func(order string) []string {
			return pages(t, s.Client.Responses.InputItems.ListAutoPaging(ctx, r.ID, responses.InputItemListParams{Limit: openai.Int(2), Order: responses.InputItemListParamsOrder(order)}),
				func(i responses.ResponseItemUnion) string { return i.ID })
		}, 5},
		"containers": {func(order string) []string {
			return pages(t, s.Client.Containers.ListAutoPaging(ctx, openai.ContainerListParams{Limit: openai.Int(2), Order: openai.ContainerListParamsOrder(order)}),
				func(c openai.ContainerListResponse) string { return c.ID })
		}, 3},
		"files": {func(order string) []string {
			return pages(t, s.Client.Containers.Files.ListAutoPaging(ctx, place, openai.ContainerFileListParams{Limit: openai.Int(2), Order: openai.ContainerFileListParamsOrder(order)}),
				func(f openai.ContainerFileListResponse) string { return f.ID })
		}, 5},
	} {
		up, down := list.in("asc"), list.in("desc")
		slices.Reverse(down)
		sorted := slices.Sorted(slices.Values(up))
		if len(slices.Compact(sorted)) != list.want || !slices.Equal(up, down) {
			t.Errorf("%s: up %q, down, turned round, %q", name, up, down)
		}
	}
}
