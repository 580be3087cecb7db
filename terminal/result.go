package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/screen"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// ExecResult is what became of one call of a command tool, complete. Forms of it are what a model reads.
type ExecResult struct {
	Tool string

	// What a terminal would finally show. When that is more than is kept, Omitted bytes are missing between Head and Tail.
	Head, Tail string
	Omitted    int64
	MaxTokens  int // of the text that the model asked for

	ExitCode  *int // nil while the command lives, or when nothing ran
	Signal    string
	TimedOut  bool
	Timeout   time.Duration // the one that was applied; 0 is none
	WallTime  time.Duration
	Stdout    int64 // bytes as they came
	Stderr    int64
	Replaced  int64       // of them, those that are no UTF-8: U+FFFD stands for each run of them
	Data      screen.Data // of output that is mostly no text, in whose place Head is one line; its Type is empty for text
	SessionID int         // of a command that lives on, or did; 0 for one-shot tools
	ProcessID string      // the same, as the caller named it, else in digits

	State    string // of a live command: see [session.State]
	Fired    string // why the call returned
	Match    string
	Ready    string // of a background job
	Prompt   string // what is waited at
	Password bool   // a person has to answer
	Command  *int   // of a shell at its prompt: how its last command ended

	CwdBefore string
	CwdAfter  string // empty for one-shot tools, which keep nothing

	Sandbox sandbox.Report
	Outside bool // it ran outside of the turn's sandbox, as a person approved
	Retried bool // after the sandbox had denied it something
	Denial  *sandbox.Denial
	Profile string // digest of all that confined it

	Failure   string // "timeout", "denied", "signal", "io", "rejected" or empty
	Message   string // of the failure, in one sentence
	Stage     string // of an "io" failure
	Aborted   bool   // the person ended the turn
	Notices   []string
	Restarted *Reset // before this call, and not by request

	output process.ExecToolCallOutput
}

// Text is all that is kept of the output, with one line for what is not.
func (r ExecResult) Text() string {
	if r.Omitted == 0 {
		return r.Head + r.Tail
	}
	return r.Head + "\n" + process.LeftOut(r.Omitted) + "\n" + r.Tail
}

// TokenCount is the output's size before anything was left out, at four bytes a token.
func (r ExecResult) TokenCount() int64 {
	return tokens(int64(len(r.Head)) + r.Omitted + int64(len(r.Tail)))
}

func tokens(bytes int64) int64 { return (bytes + 3) / 4 }

// MarshalJSON is the structured form.
func (r ExecResult) MarshalJSON() ([]byte, error) {
	type count struct {
		Stdout int64 `json:"stdout"`
		Stderr int64 `json:"stderr"`
	}
	type metadata struct {
		ExitCode        *int    `json:"exit_code"`
		DurationSeconds float64 `json:"duration_seconds"`
	}
	body, _ := r.body()
	view := struct {
		Output     string          `json:"output"`
		ExitCode   *int            `json:"exit_code"`
		Metadata   metadata        `json:"metadata"`
		WallTime   float64         `json:"wall_time_seconds"`
		Tokens     int64           `json:"original_token_count"`
		SessionID  int             `json:"session_id,omitempty"`
		ProcessID  string          `json:"process_id,omitempty"`
		State      string          `json:"state,omitempty"`
		Fired      string          `json:"fired,omitempty"`
		Match      string          `json:"match,omitempty"`
		Ready      string          `json:"ready,omitempty"`
		Prompt     string          `json:"prompt,omitempty"`
		Password   bool            `json:"password,omitempty"`
		Command    *int            `json:"command_exit_code,omitempty"`
		Signal     string          `json:"signal,omitempty"`
		TimedOut   bool            `json:"timed_out,omitempty"`
		TimeoutMS  int64           `json:"timeout_ms,omitempty"`
		Bytes      count           `json:"bytes"`
		Replaced   int64           `json:"replaced_bytes,omitempty"`
		Data       *screen.Data    `json:"binary,omitempty"`
		CwdBefore  string          `json:"cwd_before,omitempty"`
		CwdAfter   string          `json:"cwd_after,omitempty"`
		Isolation  string          `json:"isolation,omitempty"`
		Outside    bool            `json:"outside_sandbox,omitempty"`
		Denial     *sandbox.Denial `json:"denial,omitempty"`
		Profile    string          `json:"profile,omitempty"`
		Failure    string          `json:"failure,omitempty"`
		FailedAt   string          `json:"stage,omitempty"`
		Message    string          `json:"message,omitempty"`
		Notices    []string        `json:"notices,omitempty"`
		TurnEnded  bool            `json:"turn_ended,omitempty"`
		SessionRun bool            `json:"running,omitempty"`
		Restarted  *Reset          `json:"session_restarted,omitempty"`
	}{body, r.ExitCode, metadata{r.ExitCode, round(r.WallTime, 10)}, round(r.WallTime, 10_000), r.TokenCount(), r.SessionID, r.ProcessID, r.State, r.Fired, r.Match, r.Ready,
		r.Prompt, r.Password, r.Command, r.Signal, r.TimedOut, r.Timeout.Milliseconds(), count{r.Stdout, r.Stderr}, r.Replaced, r.data(), r.CwdBefore, r.CwdAfter, r.isolation(),
		r.Outside, r.Denial, r.Profile, r.Failure, r.Stage, r.Message, r.Notices, r.Aborted, r.living(), r.Restarted}
	return json.Marshal(view)
}

func round(d time.Duration, parts float64) float64 { return math.Round(d.Seconds()*parts) / parts }

func (r ExecResult) living() bool { return r.SessionID != 0 && r.ExitCode == nil && r.Failure == "" }

func (r ExecResult) data() *screen.Data {
	if r.Data.Type == "" {
		return nil
	}
	return &r.Data
}

func (r ExecResult) isolation() string {
	if r.Sandbox.Got == "" {
		return ""
	}
	return r.Sandbox.String()
}

// Success is a command that ended with exit code 0, or lives.
func (r ExecResult) Success() bool {
	return r.Failure == "" && (r.ExitCode == nil || *r.ExitCode == 0)
}

// fail takes the failure of a call into its result. What is no failure of the command is returned.
func (r *ExecResult) fail(err error) error {
	var timeout *TimeoutError
	var denied *DeniedError
	var signal *SignalError
	var io *IoError
	var rejected *RejectedError
	switch {
	case errors.As(err, &rejected): // before the denial that may be joined to it
		r.Failure, r.Message, r.Aborted = "rejected", rejected.Reason, rejected.Abort
	case errors.As(err, &io):
		r.Failure, r.Message, r.Stage = "io", io.Error(), io.Stage
	case errors.As(err, &timeout):
		r.Failure, r.Message = "timeout", timeout.Error()
	case errors.As(err, &denied):
		r.Failure, r.Message, r.Denial = "denied", denied.Error(), &denied.Denial
	case errors.As(err, &signal):
		r.Failure, r.Message = "signal", signal.Error()
	default:
		return err
	}
	return nil
}

// take fills in what a live command's snapshot says.
func (r *ExecResult) take(s session.Snapshot) {
	r.Head, r.Tail, r.Omitted = s.Head, s.Tail, s.Omitted
	r.SessionID, r.ProcessID = s.ID, s.Name
	if r.ProcessID == "" {
		r.ProcessID = strconv.Itoa(s.ID)
	}
	r.Stdout, r.Stderr = s.Raw.StdoutTo-s.Raw.StdoutFrom, s.Raw.StderrTo-s.Raw.StderrFrom
	r.WallTime, r.State, r.Fired, r.Match, r.Ready = s.Wall, s.State.String(), string(s.Fired), s.Match, string(s.Ready)
	r.Prompt, r.Password, r.Command = s.Prompt, s.Password, s.Command
	r.CwdBefore, r.CwdAfter, r.Replaced, r.Data = s.CwdBefore, s.CwdAfter, s.Replaced, s.Data
	r.Notices = append(r.Notices, s.Notices...)
	if s.Capped > 0 {
		r.Notices = append(r.Notices, "The wait was shortened to "+s.Capped.String()+", the longest that one call may take.")
	}
	if code, ok := s.ExitCode(); ok {
		r.ExitCode, r.Signal, r.TimedOut = &code, s.Exit.Signal, s.Exit.TimedOut
		r.endedBy(s.Exit)
	}
}

// endedBy notes what an end says beside its code.
func (r *ExecResult) endedBy(e process.Exit) {
	if e.Error != "" {
		r.Notices = append(r.Notices, "The command could not be started: "+e.Error)
	}
	if e.OutOfMemory {
		r.Notices = append(r.Notices, "A process was killed because memory ran out.")
	}
	if e.Limit != "" {
		r.Notices = append(r.Notices, "The sandbox's limit was reached: "+e.Limit+".")
	}
	if lost := e.StdoutLost + e.StderrLost; lost > 0 {
		r.Notices = append(r.Notices, fmt.Sprintf("%d more bytes of output were lost: the disk is full.", lost))
	}
}
