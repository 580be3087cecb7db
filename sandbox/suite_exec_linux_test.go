package sandbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// A box runs what an ExecEnv asks for, and gives the seed's result.
func TestExecEnv(t *testing.T) {
	box := newPlace(t).open(t)
	env := map[string]string{"PATH": "/usr/bin:/bin", "GREETING": "hä"}
	cases := []struct {
		name string
		e    process.ExecEnv
		want process.ExecToolCallOutput
	}{
		{"both streams", process.ExecEnv{Command: []string{"bash", "-c", "echo $GREETING; pwd; exit 5"}, Cwd: "/tmp"},
			process.ExecToolCallOutput{ExitCode: 5, Timeout: process.DefaultExecTimeout, Stdout: process.StreamOutput{Text: "hä\n/tmp\n", Bytes: 9}}},
		{"a name of its own", process.ExecEnv{Command: []string{"bash", "-c", `echo "$0"; tr '\0' ' ' </proc/$$/cmdline`}, Arg0: "-ä"},
			process.ExecToolCallOutput{Timeout: process.DefaultExecTimeout, Stdout: process.StreamOutput{Text: "-ä\n-ä -c echo \"$0\"; tr '\\0' ' ' </proc/$$/cmdline ", Bytes: 52}}},
		{"a program's own 124", process.ExecEnv{Command: []string{"bash", "-c", "exit 124"}, Expiration: process.Timeout(time.Minute)},
			process.ExecToolCallOutput{ExitCode: 124, Timeout: time.Minute}},
		{"a time-out", process.ExecEnv{Command: []string{"bash", "-c", "echo first; sleep 1000"}, Expiration: process.Timeout(300 * time.Millisecond)},
			process.ExecToolCallOutput{ExitCode: 124, TimedOut: true, Timeout: 300 * time.Millisecond, Stdout: process.StreamOutput{Text: "first\n", Bytes: 6}}},
		{"a signal", process.ExecEnv{Command: []string{"bash", "-c", "kill -TERM $$"}, Expiration: process.Cancellation(t.Context())},
			process.ExecToolCallOutput{ExitCode: 143, Signal: "SIGTERM"}},
		{"no such program", process.ExecEnv{Command: []string{"no-such-program"}, Expiration: process.Timeout(time.Minute)},
			process.ExecToolCallOutput{ExitCode: 127, Timeout: time.Minute, Error: "no-such-program: command not found",
				Stderr: process.StreamOutput{Text: "no-such-program: command not found\n", Bytes: 35}}},
		{"a cut stream", process.ExecEnv{Command: []string{"bash", "-c", "yes | head -c 3000000"}, Expiration: process.Timeout(time.Minute)},
			process.ExecToolCallOutput{Timeout: time.Minute, Stdout: process.StreamOutput{Bytes: 3_000_000, Truncated: true,
				TruncatedAfterLines: process.HeadTailMax / 4, OmittedBytes: 3_000_000 - process.HeadTailMax,
				Text: strings.Repeat("y\n", process.HeadTailMax/4) + "\n[… 1,951,424 bytes left out …]\n" + strings.Repeat("y\n", process.HeadTailMax/4)}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.e.Env = env
			got, err := c.e.Run(t.Context(), box, newKey(), 0)
			if got.Duration < 0 || got.Duration > patience {
				t.Errorf("it took %v", got.Duration)
			}
			got.Duration = 0
			if got.AggregatedOutput.Bytes != got.Stdout.Bytes+got.Stderr.Bytes {
				t.Errorf("%d bytes together", got.AggregatedOutput.Bytes)
			}
			got.AggregatedOutput = process.StreamOutput{}
			if err != nil || got != c.want {
				t.Errorf("got %.1000s, %v\nwant %.1000s", fmt.Sprintf("%+v", got), err, fmt.Sprintf("%+v", c.want))
			}
		})
	}
}

func TestATokenEndsACommand(t *testing.T) {
	box := newPlace(t).open(t)
	token, cancel := context.WithCancel(t.Context())
	e := process.ExecEnv{Command: []string{"bash", "-c", "echo first; echo second >&2; sleep 1000"}, Expiration: process.Cancellation(token),
		Env: map[string]string{"PATH": "/usr/bin:/bin"}}
	c, err := e.At(newKey(), 0)
	must(t, err)
	go func() {
		defer cancel()
		job := start(t, box, c) // the same command: it runs once
		eventually(t, "output", func() bool { return job.Reader(process.Stderr).Size() == 7 })
	}()
	got, err := e.Run(t.Context(), box, c.Key, 0)
	if err != nil || got.ExitCode != 137 || !got.Cancelled || got.TimedOut || got.AggregatedOutput.Text != "first\nsecond\n" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// R1: a call ends with its shell, whoever still holds its streams; what those write later is in the job.
func TestACallEndsWithItsShell(t *testing.T) {
	box := newPlace(t).open(t)
	const late = "while [ ! -e go ]; do sleep 0.02; done; echo late; sleep 600"
	cases := map[string]string{
		"background":      "(" + late + ") & echo early",
		"a session":       "setsid bash -c '" + late + "' & echo early",
		"nohup":           "nohup bash -c '" + late + "' & echo early",
		"disowned":        "(" + late + ") & disown; echo early",
		"a daemon":        "perl -e 'use POSIX; if (!fork) { POSIX::setsid(); if (!fork) { exec \"bash\", \"-c\", q{" + late + "} } exit } wait; ' ; echo early",
		"behind a tee":    "exec > >(tee file; " + late + "); echo early",
		"a pipe that has": "sleep 600 | (" + late + ") & echo early",
	}
	var jobs []*process.Job
	for name, script := range cases {
		c := bash("cd /tmp && " + script)
		c.Timeout = 10 * time.Minute
		job := start(t, box, c)
		jobs = append(jobs, job)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		exit, err := job.Wait(ctx)
		cancel()
		if err != nil || exit.Code != 0 || exit.TimedOut {
			t.Fatalf("%s: %+v, %v", name, exit, err)
		}
	}
	run(t, box, bash("touch /tmp/go"))
	for _, job := range jobs {
		eventually(t, "what is written later", func() bool {
			out, err := readAll(job, process.Stdout)
			return err == nil && strings.Contains(string(out), "early\n") && strings.Contains(string(out), "late\n")
		})
	}
}
