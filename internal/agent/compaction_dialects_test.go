package agent

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/agent/compact"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/anthropic"
	"github.com/hardshell-dev/hardshell/internal/llm/bedrock"
	"github.com/hardshell-dev/hardshell/internal/llm/chat"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	"github.com/hardshell-dev/hardshell/internal/llm/gemini"
	responsesapi "github.com/hardshell-dev/hardshell/internal/llm/openai"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// bodies write a request in each dialect.
var bodies = map[string]struct {
	model string
	body  func(llm.Request) ([]byte, error)
}{
	"anthropic":               {"claude-opus-5", anthropic.Dialect{Provider: "p", Version: "2023-06-01"}.Body},
	"bedrock":                 {"anthropic.claude-opus-5", bedrock.Dialect{Provider: "p"}.Body},
	"chat":                    {"m", chat.Dialect{Provider: "p"}.Body},
	"gemini":                  {"gemini-3-pro", gemini.Dialect{Provider: "p"}.Body},
	"responses":               {"m", responsesapi.Dialect{Provider: "p"}.Body},
	"responses, native shell": {"m", responsesapi.Dialect{Provider: "p", NativeShell: "on"}.Body},
}

// shellHistory is a long conversation about commands: turns with parallel calls, some of a client's function, thinking,
// calls that were broken off, what the user says between.
func shellHistory(r *rand.Rand) []openai.Item {
	message := func(role, kind, text string) openai.Item {
		return openai.NewItem(openai.Message{Type: openai.TypeMessage, Role: role, Content: openai.Content{{Type: kind, Text: text}}})
	}
	list := []openai.Item{message("developer", "input_text", "No jokes."), message("user", "input_text", "Do it.")}
	calls := 0
	for range 10 + r.IntN(30) {
		switch r.IntN(8) {
		case 0:
			list = append(list, message("assistant", "output_text", "So far."), message("user", "input_text", "Go on."))
		case 1:
			list = append(list, openai.NewItem(openai.Reasoning{Type: openai.TypeReasoning, ID: "rs_1", Summary: []openai.Part{},
				Content: []openai.Part{{Type: "reasoning_text", Text: strings.Repeat("hm ", r.IntN(100))}}}))
		}
		var outputs []openai.Item
		for range 1 + r.IntN(3) {
			calls++
			id, text := fmt.Sprintf("call_%d", calls), strings.Repeat("out\n", r.IntN(1500))
			if r.IntN(5) == 0 {
				list = append(list, openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, ID: "fc_" + id, CallID: id, Name: "weather", Arguments: "{}"}))
				outputs = append(outputs, functionOutput(id, text))
				continue
			}
			call := openai.ShellCall{Type: openai.TypeShellCall, ID: "sh_" + id, CallID: id, Status: openai.Completed, Action: openai.ShellAction{Commands: []string{"make " + id}}}
			if list = append(list, openai.NewItem(call)); r.IntN(10) > 0 { // else it was broken off
				outputs = append(outputs, openai.NewItem(openai.ShellCallOutput{Type: openai.TypeShellCallOutput, ID: "sho_" + id, CallID: id,
					Status: openai.Completed, Output: []openai.ShellOutput{{Stdout: text, Outcome: openai.Exit(r.IntN(3))}}}))
			}
		}
		r.Shuffle(len(outputs), func(a, b int) { outputs[a], outputs[b] = outputs[b], outputs[a] })
		list = append(list, outputs...)
	}
	return list
}

// TestALongShellHistoryLeavesNoOrphanOnAnyProvider compacts long histories in every way, and writes what is left in every
// dialect: each takes it, no call is without its output, and the model reads that something was left out.
func TestALongShellHistoryLeavesNoOrphanOnAnyProvider(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	a := newAgent(w, w, w, w.options)
	t.Cleanup(func() { a.Close(context.Background()) })
	told := 0
	for n := range 60 {
		list := shellHistory(r)
		p := &plan{principal: principal, request: &openai.CreateRequest{}, names: map[string]bool{"weather": true}, maxOutput: 8000, compaction: compaction{sealer: a.options.Compaction.Sealer}}
		p.functions = []openai.Tool{{Type: "function", Name: "weather", Parameters: dialect.AnyObject}}
		p.choice, _ = readChoice(nil, nil)
		shell := shellFunction("shell", surroundings{workdir: "/mnt/data"})
		p.shell = &shell
		limits := compact.Limits{Threshold: int64(200 + r.IntN(8000)), Keep: 1 + r.IntN(9), MaxOutput: 8000, Omitted: omitted}
		window := compact.Window{Items: list}
		var next compact.Window
		var ok bool
		if old, rest, can := limits.Fold(window); can && r.IntN(2) == 0 {
			next, ok = limits.Folded(window, rest, "SUMMED UP", len(old))
		} else {
			next, ok = limits.Shorten(window)
		}
		if !ok {
			continue
		}
		content, err := p.compaction.sealer.Seal(principal.Org, principal.KeyID, next)
		if err != nil {
			t.Fatal(err)
		}
		// Where it was made, and with what came after it.
		p.history = append(slices.Clone(list), openai.NewItem(openai.Compaction{Type: openai.TypeCompaction, ID: "cmp_1", EncryptedContent: content}))
		p.input = []openai.Item{openai.UserText("The next thing.")}
		req, err := p.ask(true, false, nil)
		if err != nil {
			t.Fatalf("seed %d, case %d: %v", seed, n, err)
		}
		if lost := unpaired(req); len(lost) > 0 {
			t.Fatalf("seed %d, case %d: unpaired %v in\n%s", seed, n, lost, shown(req))
		}
		for name, d := range bodies {
			req.Model = d.model
			body, err := d.body(req)
			if err != nil {
				t.Fatalf("seed %d, case %d, %s: %v", seed, n, name, err)
			}
			if bytes.Contains(body, []byte(dialect.NoOutput)) {
				t.Fatalf("seed %d, case %d, %s: a call has lost its output: %s", seed, n, name, body)
			}
			for _, want := range []string{"No jokes.", "The next thing."} {
				if !bytes.Contains(body, []byte(want)) {
					t.Fatalf("seed %d, case %d, %s: no %q in %s", seed, n, name, want, body)
				}
			}
			if next.Summary != "" && !bytes.Contains(body, []byte("SUMMED UP")) || next.Left > 0 && !bytes.Contains(body, []byte("left out to make room")) {
				t.Fatalf("seed %d, case %d, %s: the model is not told: %s", seed, n, name, body)
			}
		}
		if next.Note() != "" {
			told++
		}
	}
	if told < 10 {
		t.Errorf("seed %d: only %d of 60 histories were cut", seed, told)
	}
}
