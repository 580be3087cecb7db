package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// The vendor's guide to the shell tool, as raw requests: its tool has no environment, its call no id.
func TestTheGuidesTurns(t *testing.T) {
	const first = `{"model":"m","instructions":"The local bash shell environment is on Mac.","input":"find me the largest pdf file in ~/Documents","tools":[{"type":"shell"}]}`
	long := strings.Repeat("x", 20_000)
	output := `"max_output_length":4096,"output":[{"stdout":"` + long + `","stderr":"","outcome":{"type":"exit","exit_code":0}},{"stdout":"","stderr":"slow","outcome":{"type":"timeout"}}]}`
	guide := func(rounds ...round) *world {
		w := newWorld(t, rounds...)
		w.options.DefaultEnvironment = envLocal
		return w
	}
	call := calls("shell", `{"commands":["ls -l","du"],"timeout_ms":120000,"max_output_length":4096}`)
	cut := func(t *testing.T, w *world) {
		t.Helper()
		if view := shown(w.asked[len(w.asked)-1]); len(view) > 6_000 || !strings.Contains(view, "timed_out") || !strings.Contains(view, "stdout_omitted_chars") {
			t.Errorf("the model reads %d bytes: %.300s…", len(view), view)
		}
		untouched(t, w)
	}
	t.Run("a chain", func(t *testing.T) {
		w := guide(call, says("cv.pdf"))
		r, o := w.run(first)
		var c openai.ShellCall
		if types(o) != "shell_call" || o.Output[0].Decode(&c) != nil || *c.Action.TimeoutMS != 120000 || *c.Action.MaxOutputLength != 4096 {
			t.Fatalf("output %s", types(o))
		}
		w.chains[r.id] = response.Chain{Items: slices.Concat(w.begun[0].Input, o.Output)}
		_, o = w.run(`{"model":"m","previous_response_id":"` + r.id + `","tools":[{"type":"shell"}],"input":[{"type":"shell_call_output","call_id":"` + c.CallID + `",` + output + `]}`)
		if types(o) != "message" {
			t.Errorf("output %s", types(o))
		}
		cut(t, w)
	})
	for name, answer := range map[string]string{
		"the history":                           output,
		"the history, and the length forgotten": strings.TrimPrefix(output, `"max_output_length":4096,`),
	} {
		t.Run(name, func(t *testing.T) {
			w := guide(says("cv.pdf"))
			_, o := w.run(`{"model":"m","tools":[{"type":"shell"}],"input":[{"role":"user","content":"find me the largest pdf file"},` +
				`{"type":"shell_call","call_id":"call_x","action":{"commands":["ls -l","du"],"timeout_ms":120000,"max_output_length":4096},"status":"in_progress"},` +
				`{"type":"shell_call_output","call_id":"call_x",` + answer + `]}`)
			if types(o) != "message" || !strings.Contains(string(w.begun[0].Input[2].Raw), long) {
				t.Errorf("output %s", types(o))
			}
			cut(t, w)
		})
	}
}
