package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

func TestArgumentsWithSurroundings(t *testing.T) {
	a, err := readArguments(`{"commands":["cat"],"working_directory":"sub","env":{"A":"x","N":7,"T":true},"stdin":"in"}`)
	if err != nil || a.WorkingDirectory != "sub" || a.Stdin != "in" || a.Env["A"] != "x" || a.Env["N"] != "7" || a.Env["T"] != "true" {
		t.Errorf("%+v, %v", a, err)
	}
	again, err := readArguments(argumentsText(a))
	if err != nil || again.Env["N"] != "7" || again.Stdin != "in" || again.WorkingDirectory != "sub" {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
	for raw, part := range map[string]string{
		`{"commands":["x"],"env":{"1":"x"}}`:               `"1" is not the name of a variable`,
		`{"commands":["x"],"env":{"A":{"b":1}}}`:           `"A"`,
		`{"commands":["x"],"env":[]}`:                      "env",
		`{"commands":["x"],"env":{"A":"a\u0000b"}}`:        "NUL",
		`{"commands":["x"],"working_directory":"a\u0000"}`: "NUL",
		`{"commands":["x"],"stdin":5}`:                     "stdin",
	} {
		if _, err := readArguments(raw); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want a word about %s", raw, err, part)
		}
	}
}

// TestACutOutputSaysWhereAllOfItIs to the model and in the receipt.
func TestACutOutputSaysWhereAllOfItIs(t *testing.T) {
	v, err := process.ReadView(strings.NewReader(strings.Repeat("line\n", 1000)), 1000)
	if err != nil {
		t.Fatal(err)
	}
	e := entryOf(container.Result{Stdout: v, Output: "/mnt/output/k/0"})
	if e.Receipt.OutputPath != "/mnt/output/k/0" || !strings.Contains(note(e), "/mnt/output/k/0/stdout") {
		t.Errorf("receipt %+v, note %q", e.Receipt, note(e))
	}
	if e := entryOf(container.Result{Stdout: process.View{Text: "all", Bytes: 3}, Output: "/mnt/output/k/0"}); e.Receipt.OutputPath != "" || note(e) != "" {
		t.Errorf("of a whole one: %+v, %q", e.Receipt, note(e))
	}
}

// TestCommandsInOrder runs the commands of a call one after the other, also behind one that cannot be started.
func TestCommandsInOrder(t *testing.T) {
	const letters = "abcdefghijklmnopqrst"
	w := newWorld(t, calls("shell", `{"commands":["`+strings.Join(strings.Split(letters, ""), `","`)+`"]}`), says("done"))
	w.options.InOrder = true
	for _, l := range letters {
		w.commands[string(l)] = printed(string(l), "", 0)
	}
	w.commands["c"] = command{start: errors.New("not this one")}
	w.run(`{"model":"m","input":"go","tools":[{"type":"shell"}]}`)
	var scripts strings.Builder
	for _, c := range w.started {
		scripts.WriteString(c.Script)
	}
	if scripts.String() != letters {
		t.Errorf("started in the order %s", scripts.String())
	}
}
