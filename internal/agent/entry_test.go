package agent

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// TestTroubleIsTold holds what a client and the model read of an end that the exit code does not explain.
func TestTroubleIsTold(t *testing.T) {
	for _, c := range []struct {
		name    string
		result  container.Result
		reason  string
		stderr  string
		note    string
		outcome string
	}{
		{"all of it is there", container.Result{ExitCode: 3}, "", "", "", "exit"},
		{"lost output", container.Result{ExitCode: 3, StdoutLost: 96_000_000, StderrLost: 7}, "output_lost",
			"shell: the disk is full or takes no more; lost: the last 96000000 bytes of stdout and the last 7 bytes of stderr",
			"The disk is full or takes no more, so that output was lost: the last 96000000 bytes of stdout and the last 7 bytes of stderr. " +
				"Free space, then run it again if the output matters.", "exit"},
		{"lost after what was kept", container.Result{StderrLost: 1, Stderr: process.View{Text: "warn", Bytes: 4}}, "output_lost",
			"warn\nshell: the disk is full or takes no more; lost: the last byte of stderr",
			"The disk is full or takes no more, so that output was lost: the last byte of stderr. " +
				"Free space, then run it again if the output matters.", "exit"},
		{"killed for memory", container.Result{ExitCode: 137, Signal: "SIGKILL", OutOfMemory: true}, "memory_limit", "",
			"Killed: the memory limit was reached.", "exit"},
		{"a part was killed for memory", container.Result{OutOfMemory: true}, "memory_limit", "",
			"While it ran, a process of the container was killed because the memory limit was reached, so that the result may be incomplete.", "exit"},
		{"a time-out after a kill for memory", container.Result{ExitCode: 124, TimedOut: true, OutOfMemory: true}, "memory_limit", "",
			"Stopped at its time limit with all its processes. While it ran, a process of the container was killed because the memory " +
				"limit was reached, so that the result may be incomplete.", "timeout"},
		{"the limit on the disk", container.Result{ExitCode: 137, Cancelled: true, Breach: container.BreachDisk, BreachText: "Too much."}, "disk_limit",
			"shell: stopped: Too much.", "Stopped: the container's limit on disk space was reached. Delete files that are not needed first.", "exit"},
		{"the limit on processes", container.Result{ExitCode: 137, Signal: "SIGKILL", Breach: container.BreachProcesses, BreachText: "Too many."}, "process_limit",
			"shell: stopped: Too many.", "Stopped: the container's limit on processes was reached. Start fewer at once.", "exit"},
		{"a container that was restarted", container.Result{Restarted: true}, "", "",
			"The container was restarted before this command: its files are there, the processes of earlier commands are gone.", "exit"},
		{"cancelled", container.Result{ExitCode: 137, Cancelled: true, OutOfMemory: true}, "cancelled", "",
			"Cancelled before it ended.", "exit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.result.Stdout.Replaced, c.result.Stderr.Replaced = 2, 3
			e := entryOf(c.result)
			if e.Receipt.StdoutReplaced != 2 || e.Receipt.StderrReplaced != 3 {
				t.Errorf("what was no UTF-8 is not counted: %+v", e.Receipt)
			}
			if e.Receipt.Reason != c.reason || e.Stderr != c.stderr || e.Outcome.Type != c.outcome {
				t.Errorf("reason %q, stderr %q, outcome %q", e.Receipt.Reason, e.Stderr, e.Outcome.Type)
			}
			if c.outcome == "exit" && *e.Outcome.ExitCode != c.result.ExitCode {
				t.Errorf("exit code %d, want %d", *e.Outcome.ExitCode, c.result.ExitCode)
			}
			if want := c.result.Stdout.Bytes + c.result.StdoutLost; e.Receipt.StdoutBytes != want || e.Receipt.StdoutLost != c.result.StdoutLost {
				t.Errorf("receipt %+v, want %d bytes", e.Receipt, want)
			}
			if want := c.result.Stderr.Bytes + c.result.StderrLost; e.Receipt.StderrBytes != want || e.Receipt.StderrLost != c.result.StderrLost {
				t.Errorf("receipt %+v, want %d bytes", e.Receipt, want)
			}
			if got := note(e); got != c.note {
				t.Errorf("note %q,\nwant %q", got, c.note)
			}
		})
	}
}

// The line about lost output stands after the view; the view's own count is still found.
func TestLostOutputKeepsTheViewsCount(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", 200), strings.Repeat("é", 199) + "\n", strings.Repeat("x\n", 100) + "y"} {
		for chars := 20; chars < 24; chars++ {
			view, err := process.ReadView(strings.NewReader(text), chars)
			if err != nil {
				t.Fatal(err)
			}
			e := entryOf(container.Result{Stderr: view, StderrLost: 12})
			if got := omittedOfStderr(e); got != view.OmittedChars || got == 0 {
				t.Errorf("%d characters of %.5q…: %d left out, want %d", chars, text, got, view.OmittedChars)
			}
			if !strings.Contains(resultText([]string{"c"}, shellOutput{ShellCallOutput: openai.ShellCallOutput{Output: []openai.ShellOutput{e}}}, 0),
				`"note":"The disk is full`) {
				t.Error("the model is not told")
			}
		}
	}
}

// A call whose output was lost is not told as whole: its item is incomplete, its exit code the command's.
func TestLostOutputLeavesTheItemIncomplete(t *testing.T) {
	lost := printed("", "", 0)
	lost.result.StdoutLost = 42
	for _, c := range []struct {
		command command
		status  string
	}{{printed("x", "", 0), openai.Completed}, {lost, openai.Incomplete}} {
		w := newWorld(t, runs("c"), says("Done."))
		w.commands = map[string]command{"c": c.command}
		_, answer := w.run(plainShell)
		var found bool
		for _, i := range answer.Output {
			var o openai.ShellCallOutput
			if i.Type != openai.TypeShellCallOutput {
				continue
			}
			if err := i.Decode(&o); err != nil {
				t.Fatal(err)
			}
			if found = true; o.Status != c.status || *o.Output[0].Outcome.ExitCode != 0 {
				t.Errorf("got %+v, want status %s", o, c.status)
			}
		}
		if !found {
			t.Error("no output item")
		}
	}
}
