package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// names gives ids of ours.
type names struct{ err error }

func (n names) Container(_ context.Context, theirs string) (string, error) {
	return "ours_" + strings.TrimSuffix(theirs, "_up0001"), n.err
}

func (n names) File(_ context.Context, container, theirs string) (string, error) {
	return "ours_" + strings.TrimSuffix(container, "_up0001") + "_" + strings.TrimSuffix(theirs, "_up0001"), n.err
}

// hostedAnswer is a turn in which the vendor runs a call, in its own shapes.
const hostedAnswer = `data: {"type":"response.created","response":{"id":"resp_up0001","status":"in_progress","output":[]}}

data: {"type":"response.output_item.added","output_index":0,"item":{"type":"shell_call","id":"sh_up0001","call_id":"call_up0001","status":"in_progress","action":{"commands":[],"timeout_ms":null,"max_output_length":null},"environment":null,"created_by":"resp_up0001"}}

data: {"type":"response.shell_call_command.added","output_index":0,"command_index":0,"command":""}

data: {"type":"response.shell_call_command.delta","output_index":0,"command_index":0,"delta":"ls","obfuscation":"zz"}

data: {"type":"response.shell_call_command.done","output_index":0,"command_index":0,"command":"ls"}

data: {"type":"response.output_item.done","output_index":0,"item":{"type":"shell_call","id":"sh_up0001","call_id":"call_up0001","status":"completed","action":{"commands":["ls"],"timeout_ms":7,"max_output_length":null},"environment":{"type":"container_reference","container_id":"cntr_up0001"}}}

data: {"type":"response.output_item.added","output_index":1,"item":{"type":"shell_call_output","id":"sho_up0001","call_id":"call_up0001","status":"in_progress","output":[],"max_output_length":null}}

data: {"type":"response.shell_call_output_content.delta","item_id":"sho_up0001","output_index":1,"command_index":0,"delta":{"stdout":"a\n"}}

data: {"type":"response.shell_call_output_content.done","item_id":"sho_up0001","output_index":1,"command_index":0,"output":[{"stdout":"a\n","stderr":"","outcome":{"type":"exit","exit_code":0},"created_by":"sh_up0001"}]}

data: {"type":"response.output_item.done","output_index":1,"item":{"type":"shell_call_output","id":"sho_up0001","call_id":"call_up0001","status":"completed","output":[{"stdout":"a\n","stderr":"","outcome":{"type":"exit","exit_code":0}}],"max_output_length":null}}

data: {"type":"response.output_item.added","output_index":2,"item":{"type":"message","id":"msg_up0001","role":"assistant","status":"in_progress","content":[]}}

data: {"type":"response.output_text.delta","output_index":2,"content_index":0,"delta":"a.txt"}

data: {"type":"response.output_text.annotation.added","output_index":2,"content_index":0,"annotation_index":0,"annotation":{"type":"container_file_citation","container_id":"cntr_up0001","file_id":"cfile_up0001","filename":"a.txt","start_index":0,"end_index":5}}

data: {"type":"response.output_item.done","output_index":2,"item":{"type":"message","id":"msg_up0001","role":"assistant","status":"completed","content":[{"type":"output_text","text":"a.txt","annotations":[]}]}}

data: {"type":"response.completed","response":{"id":"resp_up0001","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}}

`

func hostedRequest(n names) llm.Request {
	r := providertest.Hello()
	r.Tools, r.Shell, r.Hosted = []wire.Tool{providertest.Shell}, providertest.Shell.Name, &llm.Hosted{Names: n}
	return r
}

func TestTheVendorsShell(t *testing.T) {
	for _, split := range providertest.Splits {
		t.Run(split.Name, func(t *testing.T) {
			a := providertest.Collect(t, t.Context(), recorded(providertest.Streamed(hostedAnswer, split.How)), hostedRequest(names{}))
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			text := providertest.Dump(providertest.Together(a.Events))
			if strings.Contains(text, "up0001") {
				t.Error("an id of the vendor's got out")
			}
			providertest.Golden(t, "testdata/hosted.golden", []byte(text))
		})
	}
}

// An answer in one piece has the same items.
func TestTheVendorsShellInOnePiece(t *testing.T) {
	whole := `{"object":"response","status":"completed","output":[` +
		`{"type":"shell_call","id":"sh_up0001","call_id":"call_up0001","status":"completed","action":{"commands":["ls"]},"environment":{"type":"container_reference","container_id":"cntr_up0001"}},` +
		`{"type":"shell_call_output","id":"sho_up0001","call_id":"call_up0001","status":"completed","output":[{"stdout":"a","stderr":"","outcome":{"type":"timeout"}}]},` +
		`{"type":"message","id":"msg_up0001","role":"assistant","content":[{"type":"output_text","text":"ok","annotations":[{"type":"container_file_citation","container_id":"cntr_up0001","file_id":"cfile_up0001","filename":"a"}]}]}]}`
	client := &http.Client{Transport: trip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(whole))}, nil
	})}
	a := providertest.Collect(t, t.Context(), recorded(client), hostedRequest(names{}))
	text := providertest.Dump(a.Events)
	if a.Err != nil || strings.Contains(text, "up0001") || len(a.Items) != 3 || !strings.Contains(string(a.Items[2].Raw), "ours_cntr_cfile") {
		t.Errorf("%v\n%s", a.Err, text)
	}
	if a.Items[0].CallID != a.Items[1].CallID || a.Items[0].ID == a.Items[1].ID {
		t.Errorf("%s and %s", a.Items[0].Raw, a.Items[1].Raw)
	}
}

func TestWhatIsSentForTheVendorsShell(t *testing.T) {
	limit := int64(4)
	r := hostedRequest(names{})
	r.Hosted.Container, r.Hosted.Own, r.Hosted.Limit = "cntr_up0001", "ours_cntr", &limit
	r.ToolChoice = json.RawMessage(`{"type":"function","name":"shell"}`)
	r.Items = append(r.Items, wire.NewItem(wire.FunctionCall{Type: wire.TypeFunctionCall, CallID: "c", Name: "shell", Arguments: `{"commands":["ls"]}`}),
		wire.NewItem(wire.FunctionCallOutput{Type: wire.TypeFunctionCallOutput, CallID: "c", Output: `{"stdout":"a","stderr":"","exit_code":0}`}), wire.UserText("more"))
	for _, d := range []Dialect{{Provider: "p"}, {Provider: "p", NativeShell: "on"}} {
		body, err := d.Body(r)
		if err == nil {
			err = acceptable(body)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"tools":[{"environment":{"container_id":"cntr_up0001","type":"container_reference"},"type":"shell"}]`, `"max_tool_calls":4`,
			`"tool_choice":{"type":"shell"}`, `"environment":{"type":"container_reference","container_id":"cntr_up0001"}`, `"type":"shell_call_output"`} {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s is not in %s", want, body)
			}
		}
		if strings.Contains(string(body), "ours_") || strings.Contains(string(body), "About the shell") {
			t.Errorf("sent %s", body)
		}
	}
}

// A call that may have run commands is not made again, whatever becomes of its answer.
func TestTheVendorIsNotAskedTwice(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"cut after the beginning": func(w http.ResponseWriter, r *http.Request) {
			providertest.WriteStream(w, "data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_up0001\",\"status\":\"in_progress\"}}\n\n")
		},
		"cut after the head":   func(w http.ResponseWriter, r *http.Request) { providertest.WriteStream(w, ": \n\n") },
		"a gateway's patience": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) },
		"nobody knows":         func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"cut before a byte":    func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		"failed": func(w http.ResponseWriter, r *http.Request) {
			providertest.WriteStream(w, strings.Split(hostedAnswer, "\n\n")[0]+"\n\n"+`data: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"the container cntr_up0001 and resp_up0001 broke"}}}`+"\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			p := New(Options{Options: upstream.Options{Name: "test", APIKey: "k", BaseURL: providertest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				io.Copy(io.Discard, r.Body)
				serve(w, r)
			}))}})
			t.Cleanup(p.Close)
			r := hostedRequest(names{})
			r.Whole = true
			a := providertest.Collect(t, t.Context(), p, r)
			if a.Err == nil || asked.Load() != 1 || strings.Contains(fmt.Sprint(a.Err), "up0001") {
				t.Errorf("asked %d times: %v", asked.Load(), a.Err)
			}
		})
	}
}

// One that was refused before it began is.
func TestTheVendorIsAskedAgainWhereItHadNotBegun(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		var asked atomic.Int64
		p := New(Options{Options: upstream.Options{Name: "test", APIKey: "k", BaseURL: providertest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 1 {
				w.WriteHeader(status)
				return
			}
			providertest.WriteStream(w, hostedAnswer)
		}))}})
		t.Cleanup(p.Close)
		if a := providertest.Collect(t, t.Context(), p, hostedRequest(names{})); a.Err != nil || asked.Load() != 2 {
			t.Errorf("%d: asked %d times: %v", status, asked.Load(), a.Err)
		}
	}
}

func TestAContainerThatIsNobodys(t *testing.T) {
	a := providertest.Collect(t, t.Context(), recorded(providertest.Streamed(hostedAnswer, func(r io.Reader) io.Reader { return r })),
		hostedRequest(names{fault.New(fault.Upstream, "not yours")}))
	if a.Err == nil || !strings.Contains(a.Err.Error(), "not yours") {
		t.Errorf("%v", a.Err)
	}
}

func TestWhoHostsAShell(t *testing.T) {
	for native, want := range map[string]bool{"": true, "on": true, "off": false} {
		p := New(Options{NativeShell: native})
		if got := len((llm.Route{Provider: p}).Hosts()) == 1; got != want {
			t.Errorf("%q: %v", native, got)
		}
		p.Close()
	}
}

// Calls of apply_patch come as calls of the function, and none where it was not given.
func TestNativePatches(t *testing.T) {
	answer := `data: {"type":"response.output_item.done","output_index":0,"item":{"type":"apply_patch_call","id":"apc_up","call_id":"call_up","status":"completed","operation":{"type":"update_file","path":"a<b>","diff":"@@\n+x\n"}}}` + "\n\n" +
		`data: {"type":"response.completed","response":{"status":"completed"}}` + "\n\n"
	r := providertest.Hello()
	a := providertest.Collect(t, t.Context(), recorded(providertest.Streamed(answer, func(r io.Reader) io.Reader { return r })), r)
	if a.Err == nil {
		t.Error("a call of what was not given is believed")
	}
	r.Patch = "apply_patch"
	a = providertest.Collect(t, t.Context(), recorded(providertest.Streamed(answer, func(r io.Reader) io.Reader { return r })), r)
	if c := a.Calls(); a.Err != nil || len(c) != 1 || c[0].Name != "apply_patch" || c[0].Arguments != `{"operation":{"type":"update_file","path":"a<b>","diff":"@@\n+x\n"}}` {
		t.Errorf("%v %+v", a.Err, a.Calls())
	}
}
