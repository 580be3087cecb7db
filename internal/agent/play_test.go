package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// The model's turns.

func usage(in, out int64) *openai.Usage {
	return &openai.Usage{InputTokens: in, OutputTokens: out, TotalTokens: in + out}
}

// says answers with words, one delta each.
func says(text string) round {
	return func(t *llm.Turn) {
		words := strings.SplitAfter(text, " ")
		for _, w := range words {
			t.Text([]byte(w))
		}
		t.Complete(usage(10, int64(len(words))))
	}
}

// calls calls functions: pairs of a name and arguments.
func calls(pairs ...string) round {
	return func(t *llm.Turn) {
		for i := 0; i < len(pairs); i += 2 {
			c := t.Call(pairs[i])
			half := len(pairs[i+1]) / 2
			c.Write(pairs[i+1][:half])
			c.Write(pairs[i+1][half:])
		}
		t.Complete(usage(10, 5))
	}
}

func runs(commands ...string) round { return calls("shell", argumentsOf(commands...)) }

func argumentsOf(commands ...string) string {
	return argumentsText(openai.ShellAction{Commands: commands})
}

var ids = regexp.MustCompile(`\b(resp|msg|rs|fc|fco|sh|sho|apc|apo|call|cntr)_[0-9a-z]{26}\b`)

// golden compares text with a file of testdata, or writes it with -update. Ids are numbered as they come.
func golden(t testing.TB, name, text string) {
	t.Helper()
	seen := map[string]string{}
	counts := map[string]int{}
	text = ids.ReplaceAllStringFunc(text, func(s string) string {
		if seen[s] == "" {
			prefix, _, _ := strings.Cut(s, "_")
			counts[prefix]++
			seen[s] = fmt.Sprintf("%s_%d", prefix, counts[prefix])
		}
		return seen[s]
	})
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("%s differs; see git diff after go test -update\ngot:\n%s", path, text)
	}
}

// transcript is a run's stream as a golden file holds it: what each event says, without the response objects, whose
// echo has a test of its own.
func (r *fakeRun) transcript() string {
	var b strings.Builder
	for _, f := range r.frames {
		var ev map[string]any
		if err := json.Unmarshal(f, &ev); err != nil {
			return err.Error()
		}
		if o, ok := ev["response"].(map[string]any); ok {
			ev["response"] = map[string]any{"id": o["id"], "status": o["status"], "error": o["error"],
				"incomplete_details": o["incomplete_details"], "container_id": o["container_id"],
				"output": len(o["output"].([]any)), "usage": o["usage"]}
		}
		delete(ev, "sequence_number")
		typ := ev["type"]
		delete(ev, "type")
		raw, err := openai.Marshal(ev)
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "%s\n  %s\n", typ, raw)
	}
	return b.String()
}
