package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// talk is a WebSocket to the server, spoken by hand.
type talk struct {
	*websocket.Conn
	t *testing.T
}

// event is what comes over it.
type event struct {
	Type     string `json:"type"`
	Number   *int64 `json:"sequence_number"`
	Status   int    `json:"status"`
	Response struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		Output []struct {
			Type    string `json:"type"`
			Content []struct{ Text string }
			Output  []struct{ Stdout string }
			CallID  string `json:"call_id"`
		} `json:"output"`
	} `json:"response"`
	Delta json.RawMessage `json:"delta"`
	Error struct{ Code, Message string }

	raw string
}

func (s *server) talk(t *testing.T) talk {
	t.Helper()
	c, _, err := websocket.Dial(within(t), s.URL+"/v1/responses", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + s.Key}}})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	t.Cleanup(func() { c.CloseNow() })
	return talk{c, t}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (c talk) say(v any) {
	c.t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.Write(within(c.t), websocket.MessageText, raw); err != nil {
		c.t.Fatal(err)
	}
}

func (c talk) hear() event {
	c.t.Helper()
	kind, raw, err := c.Read(within(c.t))
	if err != nil || kind != websocket.MessageText {
		c.t.Fatalf("%v %s: %v", kind, raw, err)
	}
	e := event{raw: string(raw)}
	if err := json.Unmarshal(raw, &e); err != nil {
		c.t.Fatalf("%s: %v", raw, err)
	}
	return e
}

// until hears events up to one of a type, or one that says that it will not come.
func (c talk) until(typ string) (all []event) {
	c.t.Helper()
	for {
		e := c.hear()
		all = append(all, e)
		if e.Type == typ {
			return all
		}
		switch e.Type {
		case "error", "response.completed", "response.incomplete", "response.failed":
			c.t.Fatalf("%s came, not %s", e.raw, typ)
		}
	}
}

// ended is how the other side closes.
func (c talk) ended() websocket.StatusCode {
	c.t.Helper()
	for {
		if _, _, err := c.Read(within(c.t)); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

type fields map[string]any

var hosted = []fields{{"type": "shell", "environment": fields{"type": "container_auto"}}}

// The official client over a WebSocket: a shell turn is typed, a second turn continues what is not stored in its container,
// and a refusal leaves the connection usable.
func TestTheOfficialClientOverAWebSocket(t *testing.T) {
	s := start(t)
	ctx := within(t)
	c, err := s.Client.Responses.Connect(ctx, responses.ResponseConnectionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	shell := []responses.ToolUnionParam{{OfShell: &responses.FunctionShellToolParam{
		Environment: responses.FunctionShellToolEnvironmentUnionParam{OfContainerAuto: &responses.ContainerAutoParam{}}}}}
	ask := func(previous, input string) {
		t.Helper()
		p := responses.ResponsesClientEventResponseCreateParam{Model: "scripted", Store: openai.Bool(false), Tools: shell,
			Input: responses.ResponsesClientEventResponseCreateInputUnionParam{OfString: openai.String(input)}}
		if previous != "" {
			p.PreviousResponseID = openai.String(previous)
		}
		if err := c.Create(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	ask("", "$ echo kept > note.txt")
	var id string
	for next := int64(0); id == ""; next++ {
		e, err := c.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var head struct {
			Number int64 `json:"sequence_number"`
		}
		if err := json.Unmarshal([]byte(e.RawJSON()), &head); err != nil || e.AsAny() == nil || head.Number != next {
			t.Errorf("event %d: %s", next, e.RawJSON())
		}
		if e.Type == "response.completed" {
			id = e.OfResponsesServerEventResponseWsCompleted.Response.ID
		}
	}
	ask(id, "$ cat note.txt")
	second, err := c.FinalResponse(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if out := second.Output[1].AsShellCallOutput(); len(out.Output) != 1 || out.Output[0].Stdout != "kept\n" {
		t.Errorf("the second turn's command: %s", second.RawJSON())
	}
	ask("resp_nobody", "hello")
	var refusal *responses.ResponseProtocolError
	if _, err := c.FinalResponse(ctx); !errors.As(err, &refusal) || !strings.Contains(refusal.Event.RawJSON(), `"previous_response_not_found"`) {
		t.Errorf("a refusal: %v", err)
	}
	ask("", "hello")
	if r, err := c.FinalResponse(ctx); err != nil || r.Status != "completed" {
		t.Errorf("after the refusal: %v, %v", r, err)
	}
}

// What is said is byte for byte what a stream of the same response says.
func TestAWebSocketSaysWhatAStreamSays(t *testing.T) {
	s := start(t)
	c := s.talk(t)
	c.say(fields{"type": "response.create", "model": "scripted", "input": "$ echo one; sleep 0.1; echo two", "tools": hosted})
	said := c.until("response.completed")
	req, err := http.NewRequestWithContext(within(t), "GET", s.URL+"/v1/responses/"+said[0].Response.ID+"?stream=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	n := 0
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is || data == "[DONE]" {
			continue
		}
		if n >= len(said) || said[n].raw != data || said[n].Number == nil || *said[n].Number != int64(n) {
			t.Fatalf("event %d of the stream: %s", n, data)
		}
		n++
	}
	if n != len(said) || lines.Err() != nil {
		t.Errorf("the stream has %d events, the socket %d: %v", n, len(said), lines.Err())
	}
}

// nap is a command of this run of the tests alone.
func nap(n int) string { return fmt.Sprintf("sleep 3%d%d", n, os.Getpid()) }

// running says how many processes of this machine have a command line that begins so.
func running(t *testing.T, text string) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		line, _ := os.ReadFile("/proc/" + p.Name() + "/cmdline")
		if strings.HasPrefix(strings.ReplaceAll(string(line), "\x00", " "), text) {
			n++
		}
	}
	return n
}

// counted waits until so many processes have a command line that begins so.
func counted(t *testing.T, text string, want int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); running(t, text) != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %q, want %d", running(t, text), text, want)
		}
	}
}

// A client that goes away ends its command; not that of a response in the background.
func TestAWebSocketThatClosesEndsItsCommand(t *testing.T) {
	s := start(t)
	ask := func(background bool, command string) (talk, string) {
		c := s.talk(t)
		c.say(fields{"type": "response.create", "model": "scripted", "input": "$ echo on; " + command, "tools": hosted, "background": background})
		said := c.until("response.shell_call_output_content.delta")
		return c, said[0].Response.ID
	}
	short, long := nap(1), nap(2)
	fore, _ := ask(false, short)
	back, id := ask(true, long+"; echo off")
	counted(t, short, 1)
	counted(t, long, 1)
	began := time.Now()
	fore.CloseNow()
	back.CloseNow()
	counted(t, short, 0)
	t.Logf("gone after %v", time.Since(began))
	if r, err := s.Client.Responses.Get(within(t), id, responses.ResponseGetParams{}); err != nil || r.Status != "in_progress" || running(t, long) != 1 {
		t.Errorf("the response in the background: %v, %v", r, err)
	}
	if r, err := s.Client.Responses.Cancel(within(t), id); err != nil || r.Status != "cancelled" {
		t.Errorf("%v, %v", r, err)
	}
}

// A stop tells what runs honestly and closes every connection with a code upon which the clients come again.
func TestAStopClosesWebSockets(t *testing.T) {
	s := start(t)
	idle, working := s.talk(t), s.talk(t)
	working.say(fields{"type": "response.create", "model": "scripted", "input": "$ echo on; " + nap(3), "tools": hosted})
	working.until("response.shell_call_output_content.delta")
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := idle.ended(); code != websocket.StatusServiceRestart {
		t.Errorf("an idle connection is closed with %d", code)
	}
	if e := working.until("response.incomplete"); e[len(e)-1].Response.Status != "cancelled" {
		t.Errorf("what ran ends with %s", e[len(e)-1].raw)
	}
	if code := working.ended(); code != websocket.StatusServiceRestart {
		t.Errorf("a working connection is closed with %d", code)
	}
	s.ended(t)
	counted(t, nap(3), 0)
	s.launch(t) // for the end of the test
}

// A key that is revoked is good for no further message.
func TestARevokedKeyEndsItsWebSocket(t *testing.T) {
	s := start(t)
	admin := s.Key
	s.Key = s.key(t, "create", "--name", "brief", "--scope", "run")
	c := s.talk(t)
	s.Key = admin
	ask := fields{"type": "response.create", "model": "scripted", "input": "hello"}
	c.say(ask)
	c.until("response.completed")
	id := ""
	for line := range strings.Lines(s.key(t, "list")) {
		if strings.Contains(line, "brief") {
			id = strings.Fields(line)[0]
		}
	}
	s.key(t, "revoke", id)
	c.say(ask)
	if e := c.hear(); e.Type != "error" || e.Status != 401 {
		t.Errorf("a revoked key: %s", e.raw)
	}
	if code := c.ended(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d", code)
	}
}

// A warm-up asks no model and runs nothing, and others go on from it.
func TestAWarmUp(t *testing.T) {
	s := start(t)
	for _, store := range []bool{false, true} {
		c := s.talk(t)
		c.say(fields{"type": "response.create", "model": "scripted", "input": "$ echo once", "tools": hosted, "generate": false, "store": store})
		said := c.until("response.completed")
		r := said[len(said)-1].Response
		if r.Status != "completed" || len(r.Output) != 0 || len(said) != 3 {
			t.Errorf("%v: %s after %d events", store, said[len(said)-1].raw, len(said))
		}
		c.say(fields{"type": "response.create", "model": "scripted", "input": "hello", "tools": hosted, "previous_response_id": r.ID, "store": store})
		if said = c.until("response.completed"); len(said[len(said)-1].Response.Output) == 0 {
			t.Errorf("%v: the turn after it: %s", store, said[len(said)-1].raw)
		}
	}
}

// What a connection alone knows becomes part of a response that is stored, whole: it is gone on with over HTTP.
func TestAStoredResponseTakesAlongWhatWasNot(t *testing.T) {
	s := start(t)
	c := s.talk(t)
	c.say(fields{"type": "response.create", "model": "scripted", "input": "$ echo first", "tools": hosted, "store": false})
	said := c.until("response.completed")
	c.say(fields{"type": "response.create", "model": "scripted", "input": "second", "store": true, "previous_response_id": said[len(said)-1].Response.ID})
	said = c.until("response.completed")
	id := said[len(said)-1].Response.ID
	page, err := s.Client.Responses.InputItems.List(within(t), id, responses.InputItemListParams{Order: "asc"})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, i := range page.Data {
		kinds = append(kinds, i.Type)
	}
	if got := strings.Join(kinds, " "); got != "message shell_call shell_call_output message message" {
		t.Errorf("its input: %s", got)
	}
	third, err := s.Client.Responses.New(within(t), responses.ResponseNewParams{Model: "scripted", PreviousResponseID: openai.String(id),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("third")}})
	if err != nil || third.Status != "completed" {
		t.Errorf("%v, %v", third, err)
	}
}
