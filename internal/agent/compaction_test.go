package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/agent/compact"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// talkative plays turns of one command each, whose output is long, and an answer. The upstream counts four bytes as a
// token.
func talkative(t testing.TB, turns int) *world {
	w := newWorld(t)
	w.options.Compaction = Compaction{Enabled: true, Keep: 2}
	w.options.MaxIterations = 50
	for n := range turns {
		command := fmt.Sprintf("step %d", n)
		w.commands[command] = printed(strings.Repeat(fmt.Sprintf("line of step %d\n", n), 250), "", 0)
		w.rounds = append(w.rounds, w.counts(4, func(t *llm.Turn) { t.Call("shell").Write(argumentsOf(command)) }))
	}
	w.rounds = append(w.rounds, w.counts(4, func(t *llm.Turn) { t.Text([]byte("Done.")) }))
	return w
}

// counts ends a turn with the count of an upstream that takes so many bytes for a token.
func (w *world) counts(bytes int, play round) round {
	return func(t *llm.Turn) {
		play(t)
		t.Complete(usage(int64(size(w.asked[len(w.asked)-1])/bytes), 5))
	}
}

func compacted(threshold int, more string) string {
	return fmt.Sprintf(`{"model":"m","instructions":"Be kind.","input":[{"role":"developer","content":"No jokes."},{"role":"user","content":"Do it."}],`+
		`"tools":[{"type":"shell"}],"context_management":[{"type":"compaction","compact_threshold":%d%s}]}`, threshold, more)
}

// compactions is how many an output has.
func compactions(items []openai.Item) int {
	n := 0
	for _, i := range items {
		if i.Type == openai.TypeCompaction {
			n++
		}
	}
	return n
}

// unpaired names the calls of a model call that have no output, and outputs without a call.
func unpaired(r llm.Request) (names []string) {
	pairs := map[string]int{}
	for _, i := range r.Items {
		switch i.Type {
		case openai.TypeFunctionCall:
			pairs[i.CallID]++
		case openai.TypeFunctionCallOutput:
			pairs[i.CallID] += 10
		case openai.TypeCompaction, openai.TypeCompactionTrigger, openai.TypeShellCall, openai.TypeShellCallOutput:
			names = append(names, i.Type)
		}
	}
	for id, n := range pairs {
		if n != 11 {
			names = append(names, id)
		}
	}
	return names
}

func size(r llm.Request) int {
	n := beside(r)
	for _, i := range r.Items {
		n += compact.Weigh(i, 0)
	}
	return n
}

func TestRoomIsMadeBetweenTheTurnsOfOneResponse(t *testing.T) {
	w := talkative(t, 8)
	r, o := w.run(compacted(4000, ""))
	if o.Status != openai.Completed || len(w.started) != 8 {
		t.Fatalf("status %s, %d commands", o.Status, len(w.started))
	}
	if n := compactions(o.Output); n < 1 || n > 4 {
		t.Errorf("%d compactions in 9 model calls: %s", n, types(o))
	}
	for n, asked := range w.asked {
		if lost := unpaired(asked); len(lost) > 0 {
			t.Errorf("model call %d: %v", n, lost)
		}
		// The estimate is of what is stored, and half of a result's frame is ours.
		if tokens := size(asked) / 4; tokens > 4400 {
			t.Errorf("model call %d has some %d tokens", n, tokens)
		}
		view := shown(asked)
		if !strings.Contains(view, "No jokes.") || !strings.Contains(view, "Do it.") || !strings.Contains(view, "Be kind.") {
			t.Errorf("model call %d was not told all: %s", n, view)
		}
		if n > 0 && !strings.Contains(view, fmt.Sprintf("line of step %d", n-1)) {
			t.Errorf("model call %d does not see the latest output", n)
		}
	}
	if view := shown(w.asked[8]); !strings.Contains(view, "stdout_omitted_chars") {
		t.Errorf("the model is not told what was left out: %s", view)
	}
	if !strings.Contains(r.transcript(), "response.compaction.compacting") {
		t.Error("the client is not told")
	}

	// The stored conversation is what it was, and a later turn goes on from the last compaction without another one.
	if raw, err := openai.Marshal(o.Output); err != nil || strings.Count(string(raw), "line of step 0") != 250 {
		t.Error("what was stored has changed")
	}
	w.chains[r.id] = response.Chain{Items: slices.Concat(w.begun[0].Input, o.Output), ContainerID: o.ContainerID}
	w.rounds = append(w.rounds, says("Again."))
	next := strings.Replace(compacted(4000, ""), `"input"`, `"previous_response_id":"`+r.id+`","input"`, 1)
	_, o = w.run(strings.Replace(next, "Do it.", "And now?", 1))
	last := w.asked[len(w.asked)-1]
	if o.Status != openai.Completed || compactions(o.Output) != 0 {
		t.Errorf("status %s, output %s", o.Status, types(o))
	}
	if tokens := size(last) / 4; tokens > 4400 || len(unpaired(last)) > 0 || !strings.Contains(shown(last), "Do it.") {
		t.Errorf("%d tokens, unpaired %v: %s", tokens, unpaired(last), shown(last))
	}
}

func TestTheOldestCallsGoAndTheModelIsTold(t *testing.T) {
	w := talkative(t, 12)
	_, o := w.run(compacted(1600, ""))
	if o.Status != openai.Completed {
		t.Fatalf("status %s", o.Status)
	}
	last := shown(w.asked[12])
	if !strings.Contains(last, "user: [Here ") || !strings.Contains(last, "left out to make room") || strings.Contains(last, "step 0") {
		t.Errorf("the model sees\n%s", last)
	}
	if lost := unpaired(w.asked[12]); len(lost) > 0 {
		t.Errorf("unpaired %v", lost)
	}
}

func TestTheModelSumsUp(t *testing.T) {
	w := talkative(t, 3)
	var transcript llm.Request
	sums := func(text string) round {
		return func(t *llm.Turn) {
			transcript = w.asked[len(w.asked)-1]
			t.Text([]byte(text))
			t.Complete(usage(1000, 50))
		}
	}
	w.rounds = slices.Insert(w.rounds, 3, sums("Steps 0 and 1 went well."))
	_, o := w.run(compacted(2600, `,"strategy":"llm","prompt":"Be short."`))
	if o.Status != openai.Completed || compactions(o.Output) != 1 {
		t.Fatalf("status %s, output %s", o.Status, types(o))
	}
	asked := shown(transcript)
	if !strings.HasPrefix(transcript.Instructions, "Be short.\n\nThe transcript is material.") || len(transcript.Tools) > 0 || len(transcript.Items) != 1 ||
		!strings.Contains(asked, "assistant runs: step 0") || !strings.Contains(asked, "line of step 1") || strings.Contains(asked, "line of step 2") {
		t.Errorf("the summary was asked for with\n%s", asked)
	}
	last := shown(w.asked[4])
	if !strings.Contains(last, "Steps 0 and 1 went well.") || strings.Contains(last, "line of step 1") || !strings.Contains(last, "line of step 2") ||
		!strings.Contains(last, "No jokes.") || !strings.Contains(last, "Do it.") || len(unpaired(w.asked[4])) > 0 {
		t.Errorf("the model sees\n%s", last)
	}
	sum := 1000
	for n, asked := range w.asked {
		if n != 3 {
			sum += size(asked) / 4
		}
	}
	if o.Usage.InputTokens != int64(sum) || o.Usage.OutputTokens != 4*5+50 {
		t.Errorf("usage %+v, want %d", o.Usage, sum)
	}
}

func TestWithoutASummaryTheOldestGo(t *testing.T) {
	for name, fails := range map[string]round{
		"the call fails": func(t *llm.Turn) { t.Fail(fault.New(fault.Upstream, "overloaded")) },
		"no words":       func(t *llm.Turn) { t.Complete(usage(7, 1)) },
		"half a summary": func(t *llm.Turn) { t.Text([]byte("Then")); t.Stop(openai.ReasonMaxOutputTokens, usage(7, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := talkative(t, 3)
			w.rounds = slices.Insert(w.rounds, 3, fails)
			_, o := w.run(compacted(2600, `,"strategy":"llm"`))
			if o.Status != openai.Completed || compactions(o.Output) != 1 || !strings.Contains(shown(w.asked[4]), "stdout_omitted_chars") {
				t.Errorf("status %s, output %s, the model sees\n%s", o.Status, types(o), shown(w.asked[4]))
			}
		})
	}
}

func TestWhatTheUpstreamCountsIsLearned(t *testing.T) {
	w := talkative(t, 2)
	// An upstream that takes two bytes for a token: room is made at half the length.
	for n := range w.rounds[:2] {
		w.rounds[n] = w.counts(2, func(t *llm.Turn) { t.Call("shell").Write(argumentsOf(fmt.Sprintf("step %d", n))) })
	}
	_, o := w.run(compacted(3500, ""))
	if o.Status != openai.Completed || compactions(o.Output) != 1 {
		t.Errorf("status %s, output %s", o.Status, types(o))
	}
	if r := w.agent.ratios.of("fake/m"); r < 0.2 || r > 0.6 {
		t.Errorf("the ratio is %v", r)
	}
}

func TestWhereNobodyAsksNothingIsLeftOut(t *testing.T) {
	w := talkative(t, 8)
	_, o := w.run(strings.Replace(compacted(100, ""), `"context_management"`, `"metadata":{},"other"`, 1))
	if compactions(o.Output) != 0 || !strings.Contains(shown(w.asked[8]), "line of step 0") {
		t.Errorf("output %s", types(o))
	}
	// Nor where it is not enabled: then the answer's header says so.
	w = talkative(t, 8)
	w.options.Compaction.Enabled = false
	body := compacted(100, "")
	if _, o = w.run(body); compactions(o.Output) != 0 || !strings.Contains(shown(w.asked[8]), "line of step 0") {
		t.Errorf("output %s", types(o))
	}
	if said := w.agent.Ignored(t.Context(), principal, request(t, body)); !strings.Contains(said, "not enabled") {
		t.Errorf("ignored: %q", said)
	}
	if said := w.agent.Ignored(t.Context(), principal, request(t, plainShell)); said != "" {
		t.Errorf("ignored: %q", said)
	}
}

// compactor is a provider that makes room by itself.
type compactor struct{ *world }

func (compactor) Compacts() bool { return true }

type compactorModels struct{ *world }

func (m compactorModels) Resolve(ctx context.Context, org, model string, more ...string) (llm.Route, error) {
	r, err := m.world.Resolve(ctx, org, "m", more...)
	if r.ProviderName = "other"; model == "m" {
		r.Provider, r.ProviderName = compactor(m), "vendor"
	}
	return r, err
}

func TestAProviderThatCompactsIsLetTo(t *testing.T) {
	w := newWorld(t, func(t *llm.Turn) {
		t.Item(openai.NewItem(openai.Compaction{Type: openai.TypeCompaction, ID: "cmp_vendors", EncryptedContent: "gAAAAvendor"}))
		t.Text([]byte("Fine."))
		t.Complete(usage(10, 5))
	}, says("Again."), says("Elsewhere."))
	w.agent = newAgent(w, w, compactorModels{w}, w.options)
	t.Cleanup(func() { w.agent.Close(context.Background()) })
	body := compacted(1000, `,"strategy":"llm","prompt":"Be short."`)
	r, o := w.run(body)
	if got := string(w.asked[0].ContextManagement); got != `[{"compact_threshold":1000,"type":"compaction"}]` {
		t.Errorf("the provider was sent %s", got)
	}
	if said := w.agent.Ignored(t.Context(), principal, request(t, body)); !strings.Contains(said, "not sent to provider vendor") {
		t.Errorf("ignored: %q", said)
	}
	if types(o) != "compaction message" || strings.Contains(string(o.Output[0].Raw), "gAAAA") {
		t.Fatalf("output %s: %s", types(o), o.Output[0].Raw)
	}
	// It goes back to its provider as the vendor wrote it, and what stood before it does not.
	w.chains[r.id] = response.Chain{Items: slices.Concat(w.begun[0].Input, o.Output)}
	w.run(`{"model":"m","input":"next","previous_response_id":"` + r.id + `"}`)
	if view := shown(w.asked[1]); !strings.Contains(view, `"encrypted_content":"gAAAAvendor"`) || strings.Contains(view, "Do it.") || !strings.Contains(view, "user: next") {
		t.Errorf("the provider was sent\n%s", view)
	}
	// Another provider gets what it stands for.
	w.run(`{"model":"x","input":"next","previous_response_id":"` + r.id + `"}`)
	if view := shown(w.asked[2]); strings.Contains(view, "gAAAA") || !strings.Contains(view, "Do it.") || !strings.Contains(view, "user: next") {
		t.Errorf("the other provider was sent\n%s", view)
	}
	// And where that is not there, nothing is made up.
	input := fmt.Sprintf(`{"model":"%%s","input":[%s,{"role":"user","content":"next"}]}`, o.Output[0].Raw)
	if _, err := w.create(request(t, fmt.Sprintf(input, "x"))); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "vendor") {
		t.Errorf("another provider's compaction alone: %v", err)
	}
}

func TestACompactedConversationIsTheClientsToCarry(t *testing.T) {
	w := talkative(t, 8)
	_, o := w.run(strings.Replace(compacted(2000, ""), `"model"`, `"store":false,"model"`, 1))
	last := slices.IndexFunc(o.Output, func(i openai.Item) bool { return i.Type == openai.TypeCompaction })
	if last < 0 {
		t.Fatalf("output %s", types(o))
	}
	for n, i := range o.Output {
		if i.Type == openai.TypeCompaction {
			last = n
		}
	}
	var items []string
	for _, i := range o.Output[last:] {
		items = append(items, string(i.Raw))
	}
	input := fmt.Sprintf(`{"model":"m","input":[{"role":"developer","content":"No jokes."},%s,{"role":"user","content":"next"}]}`, strings.Join(items, ","))
	w.rounds = append(w.rounds, says("Again."))
	_, o = w.run(input)
	asked := w.asked[len(w.asked)-1]
	if view := shown(asked); o.Status != openai.Completed || !strings.Contains(view, "Do it.") || strings.Count(view, "No jokes.") != 1 || len(unpaired(asked)) > 0 {
		t.Errorf("status %s, unpaired %v; the model sees\n%s", o.Status, unpaired(asked), view)
	}
	for name, who := range map[string]tenant.Principal{"another organisation": {Org: "org_b", KeyID: principal.KeyID}, "another key": {Org: principal.Org, KeyID: "key_b"}} {
		if _, _, err := w.agent.begin(context.Background(), who, request(t, input)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	tampered := strings.Replace(input, `"encrypted_content":"hsc1.`, `"encrypted_content":"hsc1.x`, 1)
	_, _, err := w.agent.begin(context.Background(), principal, request(t, tampered))
	if e, ok := fault.As(err); !ok || e.Kind != fault.Invalid || e.Code != "invalid_compaction" || e.Param != "input[1].encrypted_content" {
		t.Errorf("tampered: %v", err)
	}
}

func TestATriggerMakesRoomNow(t *testing.T) {
	w := newWorld(t, says("Fine."))
	w.options.Compaction = Compaction{Enabled: true, Keep: 2}
	long := strings.Repeat("word ", 400)
	_, o := w.run(`{"model":"m","input":[{"role":"user","content":"` + long + `"},{"role":"assistant","content":"` + long + `"},` +
		`{"role":"user","content":"` + long + `"},{"role":"assistant","content":"ok"},{"type":"compaction_trigger"},{"role":"user","content":"go"}]}`)
	if view := shown(w.asked[0]); types(o) != "compaction message" || len(w.asked[0].Items) > 4 || !strings.Contains(view, "left out") || !strings.Contains(view, "user: go") {
		t.Errorf("output %s, the model sees\n%s", types(o), view)
	}
}

func TestCompactNow(t *testing.T) {
	w := newWorld(t, func(t *llm.Turn) { t.Text([]byte("They spoke of words.")); t.Complete(usage(100, 9)) }, says("Fine."))
	w.options.Compaction = Compaction{Keep: 2} // it is asked for by name: enabled or not
	w.agent = newAgent(w, w, w, w.options)
	t.Cleanup(func() { w.agent.Close(context.Background()) })
	long := strings.Repeat("word ", 400)
	var input openai.Input
	if err := input.UnmarshalJSON([]byte(`[{"role":"system","content":"Be kind."},{"role":"user","content":"` + long + `"},{"role":"assistant","content":"` + long + `"},` +
		`{"role":"user","content":[{"type":"input_file","filename":"a.txt","file_data":"YQ=="}]},{"role":"assistant","content":"ok"}]`)); err != nil {
		t.Fatal(err)
	}
	got, err := w.agent.Compact(t.Context(), principal, &openai.CompactRequest{Model: "m", Input: input})
	if err != nil {
		t.Fatal(err)
	}
	if got.Object != "response.compaction" || len(got.Output) != 1 || got.Output[0].Type != openai.TypeCompaction || got.Usage.TotalTokens != 109 {
		t.Fatalf("%+v", got)
	}
	w.run(fmt.Sprintf(`{"model":"m","input":[%s,{"role":"user","content":"next"}]}`, got.Output[0].Raw))
	view := shown(w.asked[1])
	if !strings.Contains(view, "They spoke of words.") || strings.Contains(view, long) || !strings.Contains(view, "system: Be kind.") ||
		!strings.Contains(view, "[file a.txt, left out]") || !strings.Contains(view, "assistant: ok") || !strings.Contains(view, "user: next") {
		t.Errorf("the model sees\n%s", view)
	}
	for name, req := range map[string]*openai.CompactRequest{
		"model":                {Input: input},
		"input":                {Model: "m"},
		"strategy":             {Model: "m", Input: input, Strategy: new(string)},
		"previous_response_id": {Model: "m", PreviousResponseID: new(string)},
	} {
		_, err := w.agent.Compact(t.Context(), principal, req)
		if e, ok := fault.As(err); !ok || e.Param != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
