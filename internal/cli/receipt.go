package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// receipt is the account of one command that ran on this machine.
type receipt struct {
	ExitCode    int      `json:"exit_code"`
	Signal      string   `json:"signal,omitempty"`
	TimedOut    bool     `json:"timed_out,omitempty"`
	Cancelled   bool     `json:"cancelled,omitempty"`
	OutOfMemory bool     `json:"out_of_memory,omitempty"`
	Limit       string   `json:"limit,omitempty"` // "memory" | "processes" | "disk": the limit of the box that ended it
	Error       string   `json:"error,omitempty"`
	DurationMS  int64    `json:"duration_ms"`
	OpenMS      float64  `json:"open_ms"`
	Sandbox     string   `json:"sandbox"`
	Network     string   `json:"network"`
	TTY         bool     `json:"tty,omitempty"`
	Asked       string   `json:"asked"`
	Rung        string   `json:"rung"`
	Missing     []string `json:"missing,omitempty"`
	StdoutBytes int64    `json:"stdout_bytes"`
	StderrBytes int64    `json:"stderr_bytes"`
	StdoutLost  int64    `json:"stdout_lost,omitempty"` // bytes that a full disk did not take, and nobody saw
	StderrLost  int64    `json:"stderr_lost,omitempty"`
	Remedies    []string `json:"remedies,omitempty"` // what would make the sandbox stronger
	// Denial is what the sandbox kept the command from, and what would allow it.
	Denial *sandbox.Denial `json:"denial,omitempty"`
	// Blocked is what the proxy let nobody reach, a line each, with what would allow it.
	Blocked []string `json:"blocked,omitempty"`
	// Removed are files that the command made where only the user's own git may have them, and that were taken away.
	Removed  []string `json:"removed,omitempty"`
	duration time.Duration
}

// account makes the receipt of a command that has ended.
func (c runCommand) account(exit process.Exit, report sandbox.Report, opened time.Duration) receipt {
	took := exit.Ended.Sub(exit.Started)
	return receipt{ExitCode: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut, OutOfMemory: exit.OutOfMemory, Limit: exit.Limit, Error: exit.Error,
		DurationMS: took.Milliseconds(), OpenMS: float64(opened.Microseconds()) / 1000, Sandbox: c.Sandbox, Network: cmp.Or(report.Network, c.Network), TTY: c.TTY,
		Asked: string(report.Asked), Rung: string(report.Got), Missing: report.Missing, Remedies: report.Remedies,
		StdoutBytes: exit.Stdout, StderrBytes: exit.Stderr, StdoutLost: exit.StdoutLost, StderrLost: exit.StderrLost, duration: took}
}

// write says the receipt on stderr.
func (r receipt) write(p *program, asJSON bool) {
	if asJSON {
		raw, err := json.Marshal(r)
		if err != nil {
			p.tell(fmt.Errorf("write the receipt: %w", err))
			return
		}
		fmt.Fprintf(p.Err, "%s\n", raw)
		return
	}
	if r.Denial != nil {
		fmt.Fprintf(p.Err, "hardshell: %s\n", r.Denial)
	}
	for _, line := range r.Blocked {
		fmt.Fprintf(p.Err, "hardshell: blocked by policy: %s\n", line)
	}
	for _, path := range r.Removed {
		fmt.Fprintf(p.Err, "hardshell: removed %s, which the command made and git would obey\n", visible(path))
	}
	fmt.Fprintf(p.Err, "hardshell: %s\n", r)
}

// String is the receipt in one line, for people.
func (r receipt) String() string {
	how := fmt.Sprintf("exit %d", r.ExitCode)
	switch {
	case r.TimedOut:
		how += " (time ran out)"
	case r.Cancelled:
		how += " (cancelled)"
	case r.Limit != "":
		how += " (limit of " + r.Limit + ")"
	case r.OutOfMemory:
		how += " (out of memory)"
	case r.Signal != "":
		how += " (" + r.Signal + ")"
	case r.Error != "":
		how += " (" + r.Error + ")"
	}
	rung := r.Rung
	if r.Asked != r.Rung {
		rung = "asked " + r.Asked + ", got " + r.Rung
	}
	parts := []string{how, duration(r.duration), rung, "network " + r.Network, bytesText(r.StdoutBytes + r.StderrBytes)}
	if lost := r.StdoutLost + r.StderrLost; lost > 0 {
		parts = append(parts, bytesText(lost)+" lost, the disk is full")
	}
	if len(r.Missing) > 0 {
		parts = append(parts, "missing "+strings.Join(r.Missing, ", "))
	}
	return strings.Join(parts, " · ")
}
