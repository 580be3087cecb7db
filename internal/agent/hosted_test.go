package agent

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	responsesapi "github.com/hardshell-dev/hardshell/internal/llm/openai"
	upstreamhttp "github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// hostedTools are a shell of ours beside tools that only a Responses upstream runs.
const hostedTools = `"tools":[{"type":"shell"},{"type":"web_search"},{"type":"mcp","server_label":"m","server_url":"https://m.example",` +
	`"authorization":"sk-of-the-mcp-server","headers":{"X-Key":"sk-of-the-header"},"Authorization":"sk-of-the-other-spelling","HEADERS":{"K":"sk-of-the-last"}}]`

// searches gives the ground a Responses upstream that searches the web and calls the shell, and then answers. What it is asked
// stands in asked once the response is over.
func searches(t *testing.T, g *ground) (asked *[]string) {
	t.Helper()
	event := func(json string) string { return "data: " + json + "\n\n" }
	search := event(`{"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","id":"ws_up","status":"completed","action":{"type":"search","query":"q"}}}`)
	call := event(`{"type":"response.output_item.done","output_index":1,"item":{"type":"shell_call","id":"sh_up","call_id":"call_up","action":{"commands":["ls"],"timeout_ms":null,"max_output_length":null}}}`)
	said := event(`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_up","role":"assistant","content":[{"type":"output_text","text":"found","annotations":[{"type":"url_citation","url":"https://a.example","title":"A","start_index":0,"end_index":5}]}]}}`)
	end := event(`{"type":"response.completed","response":{"id":"resp_up","status":"completed"}}`)
	asked = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, string(body))
		w.Header().Set("Content-Type", "text/event-stream")
		if len(*asked) == 1 {
			io.WriteString(w, search+call+end)
		} else {
			io.WriteString(w, said+end)
		}
	}))
	t.Cleanup(server.Close)
	g.model = responsesapi.New(responsesapi.Options{Options: upstreamhttp.Options{BaseURL: server.URL,
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}, NativeShell: "on"})
	return asked
}

// Tools that an upstream runs are passed on to it, and so are their items; our shell runs beside them, as the vendor's
// own tool, and goes back in its shape. What shows a secret to an MCP server is in no row.
func TestToolsOfTheUpstream(t *testing.T) {
	g := newGround(t)
	asked := searches(t, g)
	g.scripts = map[string]script{"ls": {deltas: []container.Delta{{Stdout: "file.txt\n"}}}}
	h := newHouse(t, g)
	r := h.play(t, `{"model":"m","input":"go","background":true,`+hostedTools+`}`)
	log, resp := h.await(r.id)
	checkLog(t, log)
	var types []string
	for _, i := range resp.Output {
		types = append(types, i.Type)
		if strings.Contains(string(i.Raw), "_up") {
			t.Errorf("an id of the upstream's got out: %s", i.Raw)
		}
	}
	if got := strings.Join(types, " "); got != "web_search_call shell_call shell_call_output message" || resp.Status != openai.Completed {
		t.Fatalf("%s: %s, %+v", resp.Status, got, resp.Error)
	}
	if !strings.Contains(string(resp.Output[3].Raw), "https://a.example") {
		t.Errorf("the citation is lost: %s", resp.Output[3].Raw)
	}
	for _, want := range []string{`{"type":"web_search"}`, `"authorization":"sk-of-the-mcp-server"`, `{"type":"shell","environment":{"type":"local"}}`} {
		if !strings.Contains((*asked)[0], want) {
			t.Errorf("the upstream was not asked with %s: %s", want, (*asked)[0])
		}
	}
	for _, want := range []string{`"type":"web_search_call"`, `"type":"shell_call"`, `"stdout":"file.txt\n"`} {
		if !strings.Contains((*asked)[1], want) {
			t.Errorf("what goes back lacks %s: %s", want, (*asked)[1])
		}
	}
	for _, frame := range log {
		if strings.Contains(string(frame.Data), "sk-of-the") {
			t.Errorf("a secret is in an event: %s", frame.Data)
		}
	}
	files, err := filepath.Glob(filepath.Join(h.dir, "hardshell.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no database: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "sk-of-the") {
			t.Errorf("a secret is in %s", filepath.Base(file))
		}
	}
}

// A provider whose upstream does not run a tool refuses it, and the refusal names where it stands.
func TestToolsThatThisUpstreamDoesNotRun(t *testing.T) {
	for _, tool := range []string{"web_search", "mcp", "code_interpreter", "computer_use_preview", "custom"} {
		w := newWorld(t)
		_, err := w.create(request(t, `{"model":"m","input":"go","tools":[{"type":"shell"},{"type":"`+tool+`"}]}`))
		e, ok := fault.As(err)
		if !ok || e.Kind != fault.Invalid || e.Code != "unsupported_tool" || e.Param != "tools[1].type" || !strings.Contains(e.Message, tool) {
			t.Errorf("%s: %v", tool, err)
		}
		if len(w.begun)+len(w.made) != 0 {
			t.Errorf("%s: something was begun", tool)
		}
	}
}

// A tool that the upstream ran counts; once no more calls are allowed the upstream gets none to run, and a call of the shell is
// not run either.
func TestToolsOfTheUpstreamCount(t *testing.T) {
	g := newGround(t)
	asked := searches(t, g)
	h := newHouse(t, g)
	r := h.play(t, `{"model":"m","input":"go","background":true,"max_tool_calls":1,"tools":[{"type":"web_search"},{"type":"shell"}]}`)
	if _, resp := h.await(r.id); resp.Status != openai.Completed || len(*asked) != 2 {
		t.Fatalf("%s, %+v, asked %d times", resp.Status, resp.Error, len(*asked))
	}
	if !strings.Contains((*asked)[0], `{"type":"web_search"}`) || strings.Contains((*asked)[1], `{"type":"web_search"}`) {
		t.Errorf("the tools were\n%s\nthen\n%s", (*asked)[0], (*asked)[1])
	}
	if n := g.started("ls"); n != 0 {
		t.Errorf("a call beyond the limit was run %d times", n)
	}
	if !strings.Contains((*asked)[1], "allows no more tool calls") {
		t.Errorf("the model was not told: %s", (*asked)[1])
	}
}
