package compact

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func said(role, text string) openai.Item {
	return openai.NewItem(openai.Message{Type: openai.TypeMessage, Role: role, Content: openai.Content{{Type: "input_text", Text: text}}})
}

func thinks(text string) openai.Item {
	return openai.NewItem(openai.Reasoning{Type: openai.TypeReasoning, ID: "rs", Content: []openai.Part{{Type: "reasoning_text", Text: text}}})
}

func ran(callID, command string) openai.Item {
	return openai.NewItem(openai.ShellCall{Type: openai.TypeShellCall, ID: "sh_" + callID, CallID: callID, Status: openai.Completed,
		Action: openai.ShellAction{Commands: []string{command}}})
}

func printed(callID, stdout string) openai.Item {
	return openai.NewItem(openai.ShellCallOutput{Type: openai.TypeShellCallOutput, ID: "sho_" + callID, CallID: callID, Status: openai.Completed,
		Output: []openai.ShellOutput{{Stdout: stdout, Outcome: openai.Exit(0)}}})
}

func asked(callID, name string) openai.Item {
	return openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, ID: "fc_" + callID, CallID: callID, Name: name, Arguments: `{"q":"` + strings.Repeat("x", 40) + `"}`})
}

func answered(callID, text string) openai.Item {
	return openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, ID: "fco_" + callID, CallID: callID, Output: openai.OutputText(text)})
}

// shape names the items of a window, for a test to compare.
func shape(w Window) string {
	var out []string
	for n, i := range w.Items {
		if n == w.At && w.Note() != "" {
			out = append(out, "NOTE")
		}
		switch {
		case i.Type == openai.TypeMessage:
			out = append(out, i.Role)
		case strings.Contains(string(i.Raw), "left out"):
			out = append(out, i.CallID+"-")
		default:
			out = append(out, i.CallID)
		}
	}
	return strings.Join(out, " ")
}

// history is a shell's: a task, turns of one command each, and an answer.
func history(turns, bytes int) []openai.Item {
	list := []openai.Item{said("system", "Be kind."), said("user", "Do it.")}
	for n := range turns {
		list = append(list, ran(fmt.Sprint(n), "make"), printed(fmt.Sprint(n), strings.Repeat("o", bytes)))
	}
	return list
}

func TestRoomIsMadeInOrder(t *testing.T) {
	list := slices.Concat(history(6, 1000), []openai.Item{said("assistant", "Done."), said("user", "And now?")})
	list = slices.Insert(list, 4, said("developer", "Be brief."), said("user", strings.Repeat("u", 1000)))
	for _, tt := range []struct {
		threshold int64
		want      string
	}{
		{5000, ""},
		// Old outputs first, the oldest before the others, and no more of them than need be.
		{2100, "system user 0 0- developer user 1 1- 2 2- 3 3 4 4 5 5 assistant user"},
		{1600, "system user 0 0- developer user 1 1- 2 2- 3 3- 4 4 5 5 assistant user"},
		// Then the oldest calls with their outputs.
		{1490, "system user NOTE developer user 1 1- 2 2- 3 3- 4 4 5 5 assistant user"},
		{1260, "system user NOTE developer user 4 4 5 5 assistant user"},
		// Then the oldest messages, but for the system's and the developer's.
		{930, "system NOTE developer 4 4 5 5 assistant user"},
		// Then what stays is shortened as well.
		{660, "system NOTE developer 4 4- 5 5- assistant user"},
	} {
		l := Limits{Threshold: tt.threshold, Keep: 6, Ratio: 0.25}
		if got, ok := l.Shorten(Window{Items: list}); ok != (tt.want != "") || ok && shape(got) != tt.want {
			t.Errorf("%d tokens, threshold %d: %v\n%s, want\n%s (%d)", l.Tokens(Window{Items: list}), tt.threshold, ok, shape(got), tt.want, l.Tokens(got))
		}
	}
}

func TestParallelCallsGoTogetherWithTheirThinking(t *testing.T) {
	list := []openai.Item{said("user", "Do it."), thinks(strings.Repeat("h", 400)), ran("a", "x"), asked("b", "f"), printed("a", "1"), answered("b", "2"),
		thinks("so"), ran("c", "x"), printed("c", strings.Repeat("o", 400)), said("assistant", "Done."), said("user", "More.")}
	got, ok := Limits{Threshold: 160, Keep: 2, Ratio: 0.25}.Shorten(Window{Items: list})
	if !ok || shape(got) != "user NOTE  c c- assistant user" || got.Left != 5 {
		t.Errorf("%v, %d left: %s", ok, got.Left, shape(got))
	}
	// A call stays where its output is among the latest.
	got, ok = Limits{Threshold: 10, Keep: 3, Ratio: 0.25}.Shorten(Window{Items: list})
	if !ok || shape(got) != "NOTE  c c- assistant user" {
		t.Errorf("%v: %s", ok, shape(got))
	}
}

func TestEveryTypeOfItemCounts(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for name, raw := range map[string]string{
		"message":          `{"type":"message","role":"user","content":[{"type":"input_text","text":"` + long + `"}]}`,
		"easy message":     `{"role":"user","content":"` + long + `"}`,
		"answer":           `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` + long + `","annotations":[]}]}`,
		"refusal":          `{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"` + long + `"}]}`,
		"image":            `{"type":"message","role":"user","content":[{"type":"input_image","image_url":"https://h/i.png"}]}`,
		"file":             `{"type":"message","role":"user","content":[{"type":"input_file","file_data":"` + long + long + `"}]}`,
		"call":             `{"type":"function_call","call_id":"1","name":"f","arguments":"` + long + `"}`,
		"output":           `{"type":"function_call_output","call_id":"1","output":"` + long + `"}`,
		"output of parts":  `{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"` + long + `"}]}`,
		"shell call":       `{"type":"shell_call","call_id":"1","action":{"commands":["` + long + `"]}}`,
		"stdout":           `{"type":"shell_call_output","call_id":"1","output":[{"stdout":"` + long + `","stderr":"","outcome":{"type":"exit","exit_code":0}}]}`,
		"stderr":           `{"type":"shell_call_output","call_id":"1","output":[{"stdout":"","stderr":"` + long + `","outcome":{"type":"timeout"}}]}`,
		"reasoning":        `{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"` + long + `"}]}`,
		"sealed reasoning": `{"type":"reasoning","id":"r","summary":[],"encrypted_content":"` + long + long + `"}`,
		"web search":       `{"type":"web_search_call","id":"w","action":{"query":"` + long + `"}}`,
		"patch":            `{"type":"apply_patch_call","call_id":"1","operation":{"type":"update_file","path":"a","diff":"` + long + `"}}`,
		"unknown":          `{"type":"of tomorrow","x":"` + long + `"}`,
	} {
		var i openai.Item
		if err := json.Unmarshal([]byte(raw), &i); err != nil {
			t.Fatal(err)
		}
		if w := Weigh(i, 0); w < 4000 || w > 6500 {
			t.Errorf("%s weighs %d", name, w)
		}
	}
	if w := Weigh(printed("1", long), 100); w > 400 {
		t.Errorf("an output of which the model reads 100 bytes weighs %d", w)
	}
	image := `{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + strings.Repeat("A", 1<<20) + `"}]}`
	var i openai.Item
	if err := json.Unmarshal([]byte(image), &i); err != nil || Weigh(i, 0) > 6500 {
		t.Errorf("an image weighs its bytes: %d, %v", Weigh(i, 0), err)
	}
}

func TestRatioIsLearned(t *testing.T) {
	r := Learn(0, 1000, 400)
	if r != 0.4 {
		t.Errorf("first: %v", r)
	}
	if r = Learn(r, 1000, 200); r < 0.29 || r > 0.31 {
		t.Errorf("second: %v", r)
	}
	if r := Learn(0.3, 1000, 0); r != 0.3 {
		t.Errorf("nothing was counted: %v", r)
	}
	if low, high := Learn(0, 1000, 1), Learn(0, 1000, 1e9); low != leastRatio || high != mostRatio {
		t.Errorf("counts that cannot be: %v, %v", low, high)
	}
	if got := (Limits{Ratio: 0.4}).Tokens(Window{Items: []openai.Item{said("user", strings.Repeat("x", 1000-overhead))}}); got != 400 {
		t.Errorf("%d tokens", got)
	}
}

func TestFold(t *testing.T) {
	list := slices.Concat(history(4, 1000), []openai.Item{said("assistant", "Done."), said("user", "And now?")})
	l := Limits{Threshold: 900, Keep: 4, Ratio: 0.25}
	old, rest, ok := l.Fold(Window{Items: list, Summary: "It began.", Summed: 3, At: 1})
	if !ok || len(old) != 7 || shape(rest) != "system NOTE 3 3 assistant user" {
		t.Fatalf("%v, %d old, %s", ok, len(old), shape(rest))
	}
	text := Transcript("Be kind.", "It began.", old)
	for _, want := range []string{"which stay with the assistant: Be kind.", "before: It began.", "user: Do it.", "assistant runs: make", "exit code 0: ooo"} {
		if !strings.Contains(text, want) {
			t.Errorf("the transcript has no %q", want)
		}
	}
	w, ok := l.Folded(Window{Items: list}, rest, " Made four times. ", len(old))
	if note := w.Note(); !ok || w.Summed != 10 || !strings.Contains(note, "Made four times.\n") || !strings.Contains(note, "10 items") {
		t.Errorf("%v: %+v", ok, note)
	}
	said := w.Conversation()
	if len(said) != 6 || said[1].Role != "user" || !strings.Contains(string(said[1].Raw), "Made four times.") {
		t.Errorf("%d items, %s", len(said), said[1].Raw)
	}
	if w, _ := l.Folded(Window{Items: list}, rest, strings.Repeat("long ", 10_000), 7); len(w.Summary) > 4000 {
		t.Errorf("a summary of %d bytes", len(w.Summary))
	}
	if _, _, ok := l.Fold(Window{Items: list[len(list)-4:]}); ok {
		t.Error("nothing is old, and it is folded")
	}
	if huge := Transcript("", "", history(200, 10<<10)); len(huge) > maxTranscript+1000 {
		t.Errorf("a transcript of %d bytes", len(huge))
	}
}

// random is a conversation such as a client may send and a loop may make.
func random(r *rand.Rand) []openai.Item {
	list := []openai.Item{}
	if r.IntN(2) == 0 {
		list = append(list, said("system", "s"))
	}
	calls := 0
	for range r.IntN(30) {
		text := strings.Repeat("é", r.IntN(1500))
		switch r.IntN(6) {
		case 0:
			list = append(list, said("user", text))
		case 1:
			list = append(list, said("developer", "d"))
		case 2:
			list = append(list, thinks(text), said("assistant", text))
		default:
			if r.IntN(2) == 0 {
				list = append(list, thinks(text))
			}
			var outputs []openai.Item
			for range 1 + r.IntN(3) {
				calls++
				id := fmt.Sprint("c", calls)
				if r.IntN(4) == 0 {
					list, outputs = append(list, asked(id, "f")), append(outputs, answered(id, text))
				} else {
					list, outputs = append(list, ran(id, "make")), append(outputs, printed(id, text))
				}
			}
			r.Shuffle(len(outputs), func(a, b int) { outputs[a], outputs[b] = outputs[b], outputs[a] })
			list = append(list, outputs...)
		}
	}
	return list
}

// orphans names what of a conversation has a call without output, or an output without call.
func orphans(list []openai.Item) (names []string) {
	pairs := map[string]int{}
	for _, i := range list {
		if i.CallID != "" && strings.HasSuffix(i.Type, "_output") {
			pairs[i.CallID] += 10
		} else if i.CallID != "" {
			pairs[i.CallID]++
		}
	}
	for id, n := range pairs {
		if n != 11 {
			names = append(names, id)
		}
	}
	return names
}

// TestWhateverIsLeftIsWhole holds the law of the package over conversations of every form.
func TestWhateverIsLeftIsWhole(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for n := range 150 {
		list := random(r)
		l := Limits{Threshold: int64(1 + r.IntN(6000)), Keep: r.IntN(10), Ratio: 0.25, Force: r.IntN(8) == 0}
		w := Window{Items: list}
		next, ok := w, false
		if r.IntN(2) == 0 {
			next, ok = l.Shorten(w)
		} else if old, rest, can := l.Fold(w); can {
			next, ok = l.Folded(w, rest, "so it was", len(old))
		}
		fail := func(format string, args ...any) {
			t.Fatalf("seed %d, case %d, %+v: %s\nfrom %s\nto   %s", seed, n, l, fmt.Sprintf(format, args...), shape(w), shape(next))
		}
		if lost := orphans(next.Items); len(lost) > 0 {
			fail("orphans %v", lost)
		}
		count := func(list []openai.Item, role string) int {
			n := 0
			for _, i := range list {
				if i.Role == role {
					n++
				}
			}
			return n
		}
		if count(list, "system") != count(next.Items, "system") || count(list, "developer") != count(next.Items, "developer") {
			fail("a system's or developer's message is gone")
		}
		if at := slices.IndexFunc(list, func(i openai.Item) bool { return i.Role == "user" }); at >= 0 && count(next.Items, "user") == 0 {
			fail("nothing is left of what the user said")
		}
		if left := min(l.Keep, len(list)); ok && left > 0 {
			for _, i := range list[len(list)-left:] { // outputs may be shorter
				if !slices.ContainsFunc(next.Items, func(o openai.Item) bool {
					return o.Type == i.Type && o.CallID == i.CallID && o.ID == i.ID && (strings.HasSuffix(i.Type, "_output") || string(o.Raw) == string(i.Raw))
				}) {
					fail("%s is gone, which is one of the latest", i.Raw)
				}
			}
		}
		if ok && l.Weight(next) >= l.Weight(w) {
			fail("nothing was gained: %d, was %d", l.Weight(next), l.Weight(w))
		}
		if !ok && !slices.EqualFunc(next.Items, list, func(a, b openai.Item) bool { return string(a.Raw) == string(b.Raw) }) && next.Left == 0 && l.Weight(next) < l.Weight(w)*9/10 {
			fail("a gain was thrown away")
		}
	}
}
