package agent

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestStreamCheckerFinds breaks a good stream once for every row of the table and expects the checker to say so.
func TestStreamCheckerFinds(t *testing.T) {
	w := newWorld(t, runs("ls", "two"), says("There is out.csv here."))
	two := printed("", "b\n", 0)
	two.after = `"command_index":0,"output":[`
	w.commands = map[string]command{"ls": printed("out.csv\n", "", 0, file("out.csv", 3)), "two": two}
	r, _ := w.run(plainShell)
	good := r.frames

	// find returns the first frame that holds all the texts.
	find := func(texts ...string) int {
		for i, f := range good {
			all := true
			for _, s := range texts {
				all = all && bytes.Contains(f, []byte(s))
			}
			if all {
				return i
			}
		}
		t.Fatalf("no frame with %q", texts)
		return 0
	}
	const delta, done, added, ended = "shell_call_output_content.delta", "shell_call_output_content.done", "output_item.added", "output_item.done"
	without := func(i int) [][]byte {
		out := append([][]byte{}, good[:i]...)
		return append(out, good[i+1:]...)
	}
	moved := func(from, to int) [][]byte {
		out := without(from)
		return append(out[:to], append([][]byte{good[from]}, out[to:]...)...)
	}
	replaced := func(i int, from, to string) [][]byte {
		out := append([][]byte{}, good...)
		out[i] = bytes.ReplaceAll(out[i], []byte(from), []byte(to))
		if bytes.Equal(out[i], good[i]) {
			t.Fatalf("frame %d does not hold %q: %s", i, from, good[i])
		}
		return out
	}
	for name, c := range map[string]struct {
		frames [][]byte
		want   string
	}{
		"first is not created":        {without(0), "first event is"},
		"unknown type":                {replaced(1, "response.in_progress", "response.thinking"), "unknown event type"},
		"gap in the numbers":          {without(1), "sequence number"},
		"output without its command":  {renumbered(without(find("shell_call_command.added", `"command_index":1`))), "missing command at index"},
		"command delta before added":  {renumbered(moved(find("shell_call_command.delta"), find("shell_call_command.added"))), "missing command at index"},
		"output without item_id":      {replaced(find(delta), `"item_id"`, `"item"`), "without item_id"},
		"item without id":             {replaced(find(added, `"type":"message"`), `"id":"msg_`, `"id":"","x":"`), "item without id"},
		"shell item without call_id":  {replaced(find(added, `"type":"shell_call"`), `"call_id"`, `"call"`), "without call_id"},
		"one id for call and output":  {replaced(find(added, `"type":"shell_call_output"`), str(outputItem(r, 1), "id"), str(outputItem(r, 0), "id")), "duplicate output item identity"},
		"unfinished item":             {renumbered(without(find(ended, `"type":"message"`))), "unfinished at the end"},
		"item changes its type":       {replaced(find(ended, `"type":"shell_call"`), `"shell_call"`, `"shell"`), "changed its identity"},
		"response id changes":         {replaced(1, r.id, "resp_other"), "response id"},
		"several entries in one done": {replaced(find(done), `"output":[{`, `"output":[{},{`), "done with 2 entries"},
		"delta as a string":           {replaced(find(delta), `"delta":{"stdout":"out.csv\n"}`, `"delta":"out.csv"`), "that clients lose"},
		"output before the call ends": {renumbered(moved(find(delta), find(ended, `"type":"shell_call"`))), "before the shell_call was done"},
		"deltas don't add up":         {replaced(find("output_text.delta"), "There", "Where"), "another text than its deltas"},
		"citation after the text":     {renumbered(moved(find("annotation.added"), find("output_text.done"))), "annotation out of place"},
		"citation only in the event":  {replaced(find("content_part.done"), `"annotations":[{`, `"annotations":[{"x":1,`), "annotations"},
		"after the end":               {append(append([][]byte{}, good...), fmt.Appendf(nil, `{"type":"keepalive","sequence_number":%d}`, len(good))), "after the terminal event"},
		"no end":                      {good[:len(good)-1], "no terminal event"},
		"key left out":                {replaced(find(ended, `"type":"shell_call"`), `"timeout_ms"`, `"timeout"`), "without timeout_ms"},
		"call moves":                  {replaced(find(ended, `"type":"shell_call"`), "cntr_", "cntr_x"), "moved from"},
		"output differs at the end":   {replaced(len(good)-1, "There is", "Where is"), "not what the item's done event said"},
		"entry differs at its end":    {replaced(find(ended, `"type":"shell_call_output"`), `"exit_code":0`, `"exit_code":1`), "entry 0 is not"},
	} {
		t.Run(name, func(t *testing.T) {
			faults := strings.Join(checkStream(c.frames), "\n")
			if !strings.Contains(faults, c.want) {
				t.Errorf("the checker says %q, want %q", faults, c.want)
			}
		})
	}
}

func outputItem(r *fakeRun, i int) map[string]any {
	return map[string]any{"id": r.output[i].ID}
}

// renumbered gives frames that were moved the numbers of their new places.
func renumbered(frames [][]byte) [][]byte {
	out := make([][]byte, len(frames))
	for i, f := range frames {
		head, rest, _ := bytes.Cut(f, []byte(`"sequence_number":`))
		digits := len(rest) - len(bytes.TrimLeft(rest, "0123456789"))
		out[i] = fmt.Appendf(nil, `%s"sequence_number":%d%s`, head, i, rest[digits:])
	}
	return out
}
