package agent

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/container/passthrough"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// vendors is a room of vendors' containers.
type vendors struct {
	mu    sync.Mutex
	there map[string]passthrough.Container // by our id
	made  []container.CreateSpec
	put   []string
}

func (v *vendors) Make(_ context.Context, org, provider string, spec container.CreateSpec) (passthrough.Container, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.made = append(v.made, spec)
	return v.add(org, provider, fmt.Sprintf("cntr_up%d", len(v.there)), passthrough.Asked(spec)), nil
}

func (v *vendors) add(org, provider, theirs, asked string) passthrough.Container {
	c := passthrough.Container{Provider: provider, Theirs: theirs, Asked: asked}
	c.ID, c.Org, c.Status = id.New(id.Container), org, container.Active
	v.there[c.ID] = c
	return c
}

func (v *vendors) Usable(_ context.Context, org, id string) (passthrough.Container, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, ok := v.there[id]
	if !ok || c.Org != org {
		return c, fault.New(fault.NotFound, "no container %s", id).WithCode("container_not_found")
	}
	if c.Status != container.Active {
		return c, fault.New(fault.Expired, "container %s has expired", id).WithCode("container_expired")
	}
	return c, nil
}

func (v *vendors) Met(_ context.Context, org, provider, theirs string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, c := range v.there {
		if c.Theirs == theirs {
			return id, nil
		}
	}
	return v.add(org, provider, theirs, "").ID, nil
}

func (v *vendors) MetFile(context.Context, string, string, string, string) (string, error) {
	return id.New(id.ContainerFile), nil
}

func (v *vendors) Put(_ context.Context, _, id, name string, r io.Reader) (container.File, error) {
	raw, err := io.ReadAll(r)
	v.put = append(v.put, name+"="+string(raw))
	return container.File{}, err
}

func (v *vendors) PutUpload(_ context.Context, _, _, fileID, name string) (container.File, error) {
	v.put = append(v.put, name+" of "+fileID)
	return container.File{}, nil
}

// host is the world as a provider whose upstream runs its own shell.
type host struct{ *world }

func (host) HostsShell() bool { return true }

func (h host) Resolve(ctx context.Context, org, model string, more ...string) (llm.Route, error) {
	if model == "plain" {
		return llm.Route{Provider: h.world, ProviderName: "plain", Model: "m"}, nil
	}
	r, err := h.world.Resolve(ctx, org, model, more...)
	r.Provider = h
	return r, err
}

func newHost(t *testing.T, rounds ...round) (*world, *vendors) {
	w := newWorld(t, rounds...)
	v := &vendors{there: map[string]passthrough.Container{}}
	w.options.Vendors = v
	w.resolve = host{w}
	return w, v
}

// lentCall is a turn in which the upstream runs a call.
func (w *world) lentCall(theirs string) round {
	return func(t *llm.Turn) { lentTurn(w.asked[len(w.asked)-1].Hosted, theirs)(t) }
}

func lentTurn(hosted *llm.Hosted, theirs string) round {
	return func(t *llm.Turn) {
		own, err := hosted.Names.Container(context.Background(), theirs)
		if err != nil {
			t.Fail(err)
			return
		}
		call := openai.ShellCall{Type: openai.TypeShellCall, ID: id.New(id.ShellCall), CallID: id.New(id.Call), Status: openai.InProgress,
			Action: openai.ShellAction{Commands: []string{}}, Environment: &openai.ItemEnvironment{Type: envReference, ContainerID: own}}
		l := t.Live(openai.NewItem(call))
		l.Say(openai.NewCommand(openai.EventCommandAdded, l.Index(), 0, ""))
		l.Say(openai.NewCommand(openai.EventCommandDelta, l.Index(), 0, "ls"))
		l.Say(openai.NewCommand(openai.EventCommandDone, l.Index(), 0, "ls"))
		call.Status, call.Action.Commands = openai.Completed, []string{"ls"}
		l.End(openai.NewItem(call))
		out := openai.ShellCallOutput{Type: openai.TypeShellCallOutput, ID: id.New(id.ShellCallOutput), CallID: call.CallID, Status: openai.InProgress, Output: []openai.ShellOutput{}}
		o := t.Live(openai.NewItem(out))
		entry := openai.ShellOutput{Stdout: "a\n", Outcome: openai.Exit(0)}
		o.Say(&openai.OutputDeltaEvent{Head: openai.Head{Type: openai.EventOutputDelta}, ItemID: out.ID, OutputIndex: o.Index(), Delta: openai.OutputDelta{Stdout: "a\n"}})
		o.Say(&openai.OutputDoneEvent{Head: openai.Head{Type: openai.EventOutputDone}, ItemID: out.ID, OutputIndex: o.Index(), Output: []openai.ShellOutput{entry}})
		out.Status, out.Output = openai.Completed, []openai.ShellOutput{entry}
		o.End(openai.NewItem(out))
		t.Text([]byte("There is a."))
		t.Complete(usage(1, 2))
	}
}

func TestTheVendorRunsTheCalls(t *testing.T) {
	w, v := newHost(t)
	w.rounds = []round{w.lentCall("cntr_up")}
	r, o := w.run(`{"model":"m","input":"go","max_tool_calls":3,"tools":[{"type":"shell"}]}`)
	if types(o) != "shell_call shell_call_output message" || o.Status != openai.Completed {
		t.Fatalf("status %s %+v, output %s", o.Status, o.Error, types(o))
	}
	untouched(t, w)
	requireStream(t, r.frames)
	asked := w.asked[0]
	if asked.Hosted == nil || asked.Hosted.Container != "" || *asked.Hosted.Limit != 3 || asked.Shell != asked.Tools[0].Name || len(v.made) != 0 {
		t.Errorf("asked %+v %+v, made %v", asked.Hosted, asked.Tools, v.made)
	}
	if v.there[o.ContainerID].Theirs != "cntr_up" {
		t.Errorf("the response's container is %q", o.ContainerID)
	}
	// The next turn goes there, and what ran there is its history.
	w.chains[r.id] = response.Chain{Items: slices.Concat(w.begun[0].Input, o.Output), ContainerID: o.ContainerID}
	w.rounds = append(w.rounds, says("Still a."))
	_, next := w.run(`{"model":"m","input":"and now?","previous_response_id":"` + r.id + `","tools":[{"type":"shell"}]}`)
	if h := w.asked[1].Hosted; next.Status != openai.Completed || h.Container != "cntr_up" || h.Own != o.ContainerID {
		t.Errorf("status %s, then asked %+v", next.Status, h)
	}
	if view := shown(w.asked[1]); !strings.Contains(view, `ls`) || !strings.Contains(view, `"stdout":"a\n"`) {
		t.Errorf("the model was shown %s", view)
	}
}

func TestWhereTheVendorRunsCalls(t *testing.T) {
	shell := func(environment string) string {
		return `"tools":[{"type":"shell","environment":` + environment + `}]`
	}
	for name, tt := range map[string]struct {
		body  string
		code  string // of the refusal
		param string
		theirs,
		made string
	}{
		"another provider":      {body: `"model":"plain",` + shell(`{"type":"container_auto"}`), code: "shell_passthrough_unsupported_provider", param: "model"},
		"another, for a client": {body: `"model":"plain",` + shell(`{"type":"local"}`)},
		"settings":              {body: `"model":"m",` + shell(`{"type":"container_auto","memory_limit":"4g"}`), theirs: "cntr_up4", made: "4g"},
		"a container":           {body: `"model":"m",` + shell(`{"type":"container_reference","container_id":"OURS"}`), theirs: "cntr_ours"},
		"another org's":         {body: `"model":"m",` + shell(`{"type":"container_reference","container_id":"FOREIGN"}`), code: "container_not_found", param: "tools[0].environment.container_id"},
		"an expired one":        {body: `"model":"m",` + shell(`{"type":"container_reference","container_id":"OVER"}`), code: "container_expired", param: "tools[0].environment.container_id"},
		"another provider's":    {body: `"model":"m",` + shell(`{"type":"container_reference","container_id":"ELSEWHERE"}`), code: "shell_environment_rejected", param: "tools[0].environment.container_id"},
		"no id":                 {body: `"model":"m",` + shell(`{"type":"container_reference"}`), code: "missing_required_parameter", param: "tools[0].environment.container_id"},
		"settings of one that is there": {body: `"model":"m",` + shell(`{"type":"container_reference","container_id":"OURS","memory_limit":"1g"}`),
			code: "shell_environment_rejected", param: "tools[0].environment.memory_limit"},
		"a chain":                 {body: `"model":"m","previous_response_id":"resp_ours",` + shell(`{"type":"container_auto"}`), theirs: "cntr_ours"},
		"a chain, the same again": {body: `"model":"m","previous_response_id":"resp_set",` + shell(`{"type":"container_auto","memory_limit":"4g"}`), theirs: "cntr_set"},
		"a chain, others":         {body: `"model":"m","previous_response_id":"resp_set",` + shell(`{"type":"container_auto","memory_limit":"16g"}`), code: "shell_environment_rejected", param: "tools[0].environment"},
		"a chain whose is gone":   {body: `"model":"m","previous_response_id":"resp_over",` + shell(`{"type":"container_auto"}`)},
		"unknown":                 {body: `"model":"m",` + shell(`{"type":"moon"}`), code: "invalid_value", param: "tools[0].environment.type"},
	} {
		t.Run(name, func(t *testing.T) {
			w, v := newHost(t, says("ok"))
			ours, set := v.add("org_a", "fake", "cntr_ours", ""), v.add("org_a", "fake", "cntr_set", passthrough.Asked(container.CreateSpec{MemoryLimit: "4g"}))
			foreign, over, elsewhere := v.add("org_b", "fake", "cntr_b", ""), v.add("org_a", "fake", "cntr_over", ""), v.add("org_a", "other", "cntr_other", "")
			gone := v.there[over.ID]
			gone.Status = container.Expired
			v.there[over.ID] = gone
			delete(v.there, "")
			for id, c := range map[string]string{"resp_ours": ours.ID, "resp_set": set.ID, "resp_over": over.ID} {
				w.chains[id] = response.Chain{Items: []openai.Item{openai.UserText("x")}, ContainerID: c}
			}
			body := strings.NewReplacer("OURS", ours.ID, "FOREIGN", foreign.ID, "OVER", over.ID, "ELSEWHERE", elsewhere.ID).Replace(tt.body)
			r, err := w.create(request(t, `{"input":"go",`+body+`}`))
			if e, ok := fault.As(err); tt.code != "" && (!ok || e.Code != tt.code || e.Param != tt.param) || tt.code == "" && err != nil {
				t.Fatalf("%v (%+v)", err, e)
			}
			if err != nil {
				if tt.code == "shell_passthrough_unsupported_provider" && !strings.Contains(err.Error(), `"plain"`) {
					t.Errorf("the provider is not named: %v", err)
				}
				return
			}
			r.wait(t)
			h := w.asked[0].Hosted
			if strings.Contains(body, `"local"`) {
				if h != nil {
					t.Error("a client's shell is not the vendor's")
				}
				return
			}
			if tt.made != "" && (len(v.made) != 1 || v.made[0].MemoryLimit != tt.made) || tt.made == "" && len(v.made) > 0 {
				t.Errorf("made %+v", v.made)
			}
			if tt.made != "" {
				tt.theirs = h.Container // whatever it is called
			}
			if h == nil || h.Container != tt.theirs || tt.made != "" && h.Container == "" {
				t.Errorf("asked %+v, want %q", h, tt.theirs)
			}
			if strings.Contains(tt.body, "resp_over") && !strings.Contains(w.asked[0].Instructions, "is gone") {
				t.Errorf("instructions %q", w.asked[0].Instructions)
			}
			untouched(t, w)
		})
	}
}

func TestFilesGoToTheVendorsContainer(t *testing.T) {
	w, v := newHost(t, says("ok"))
	w.run(`{"model":"m","tools":[{"type":"shell"}],"input":[{"role":"user","content":[{"type":"input_file","filename":"a.txt","file_data":"data:text/plain;base64,aGVsbG8="}]}]}`)
	if fmt.Sprint(v.put) != "[a.txt=hello]" || len(v.made) != 1 || w.asked[0].Hosted.Container == "" || len(w.put) > 0 {
		t.Errorf("put %v and %v, made %v", v.put, w.put, v.made)
	}
}

// A turn of the vendor's that breaks off leaves no item open, and nobody asks again.
func TestALentTurnThatBreaksOff(t *testing.T) {
	for _, tt := range []struct {
		types string
		ended bool // the call
	}{{"shell_call", false}, {"shell_call shell_call_output", true}} {
		w, _ := newHost(t, func(t *llm.Turn) {
			call := openai.ShellCall{Type: openai.TypeShellCall, ID: id.New(id.ShellCall), CallID: id.New(id.Call), Status: openai.InProgress,
				Action: openai.ShellAction{Commands: []string{}}}
			l := t.Live(openai.NewItem(call))
			l.Say(openai.NewCommand(openai.EventCommandAdded, l.Index(), 0, ""))
			l.Say(openai.NewCommand(openai.EventCommandDelta, l.Index(), 0, "make "))
			l.Say(openai.NewCommand(openai.EventCommandDelta, l.Index(), 7, "nothing"))
			if tt.ended {
				l.Say(openai.NewCommand(openai.EventCommandDone, l.Index(), 0, "make "))
				call.Action.Commands, call.Status = []string{"make "}, openai.Completed
				l.End(openai.NewItem(call))
				out := openai.ShellCallOutput{Type: openai.TypeShellCallOutput, ID: id.New(id.ShellCallOutput), CallID: call.CallID, Status: openai.InProgress,
					Output: []openai.ShellOutput{}}
				o := t.Live(openai.NewItem(out))
				o.Say(&openai.OutputDeltaEvent{Head: openai.Head{Type: openai.EventOutputDelta}, ItemID: out.ID, OutputIndex: o.Index(), Delta: openai.OutputDelta{Stdout: "heard"}})
			}
			t.Fail(fault.New(fault.Upstream, "gone"))
		})
		r, o := w.run(`{"model":"m","input":"go","tools":[{"type":"shell"}]}`)
		requireStream(t, r.frames)
		if o.Status != openai.Failed || types(o) != tt.types || !strings.Contains(string(o.Output[0].Raw), `"make "`) || len(w.asked) != 1 {
			t.Errorf("status %s, output %s, %d model calls", o.Status, o.Output, len(w.asked))
			continue
		}
		if last := o.Output[len(o.Output)-1]; last.Status != openai.Incomplete || tt.ended && !strings.Contains(string(last.Raw), `"heard"`) {
			t.Errorf("the last item is %s", last.Raw)
		}
	}
}

// An upstream that was given no shell, and runs one, is not believed.
func TestOnlyALentShellIsForwarded(t *testing.T) {
	w := newWorld(t)
	w.rounds = []round{func(t *llm.Turn) {
		t.Item(openai.NewItem(openai.ShellCall{Type: openai.TypeShellCall, ID: "sh_x", CallID: "c", Status: openai.Completed}))
		t.Complete(nil)
	}}
	if _, o := w.run(`{"model":"m","input":"go","tools":[{"type":"shell"}]}`); o.Status != openai.Failed || len(o.Output) > 0 {
		t.Errorf("status %s, output %s", o.Status, types(o))
	}
}

// lentModel is a provider whose upstream runs a call in each turn.
type lentModel struct{ asked atomic.Int64 }

func (*lentModel) HostsShell() bool { return true }

func (*lentModel) Models(context.Context) ([]openai.Model, error) { return nil, nil }

func (m *lentModel) Stream(_ context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	m.asked.Add(1)
	return func(yield func(openai.Event, error) bool) {
		lentTurn(r.Hosted, "cntr_up")(llm.NewTurn(yield, nil))
	}
}

// Whenever a server dies while the vendor runs commands, nobody has it run them again.
func TestAServerMayDieWhileTheVendorWorks(t *testing.T) {
	const body = `{"model":"m","input":"go","background":true,"tools":[{"type":"shell"}]}`
	ground := func() (*ground, *lentModel) {
		g, m := newGround(t), &lentModel{}
		g.model, g.options.Vendors = m, &vendors{there: map[string]passthrough.Container{}}
		return g, m
	}
	ended := map[string]int{}
	check := func(t *testing.T, h *house, m *lentModel, id string) int {
		log, o := h.await(id)
		checkLog(t, log)
		ended[o.Status]++
		switch {
		case o.Status == openai.Failed && strings.Contains(o.Error.Message, "which of them were run is not known"):
		case o.Status != openai.Completed || types(*o) != "shell_call shell_call_output message":
			t.Errorf("status %s %+v, output %s", o.Status, o.Error, types(*o))
		}
		if n := m.asked.Load(); n > 1 {
			t.Errorf("the vendor was asked %d times", n)
		}
		return len(log)
	}
	g, m := ground()
	h := newHouse(t, g)
	events := check(t, h, m, h.play(t, body).id)
	for n := 1; n <= events+1; n++ {
		t.Run(fmt.Sprintf("after %d", n), func(t *testing.T) {
			g, m := ground()
			h := newHouse(t, g, n)
			check(t, h, m, h.play(t, body).id)
		})
	}
	if ended[openai.Failed] == 0 || ended[openai.Completed] < 2 {
		t.Errorf("ends: %v", ended)
	}
}
