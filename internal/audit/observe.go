package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/hardshell-dev/hardshell/terminal"
)

var _ terminal.Observer = (*Log)(nil)

// Observe writes what a terminal's tools do. What cannot be written is told to Options.Failed.
func (l *Log) Observe(event terminal.Event) { l.observe(event, Whose{}) }

// Of observes what is done for somebody.
func (l *Log) Of(w Whose) terminal.Observer { return somebody{l, w} }

type somebody struct {
	log *Log
	who Whose
}

// Observe is the log's.
func (s somebody) Observe(event terminal.Event) { s.log.observe(event, s.who) }

func (l *Log) observe(event terminal.Event, who Whose) {
	e, ok := entryOf(event)
	if !ok {
		return
	}
	e.Whose = who
	if err := l.Append(e); err != nil && l.o.Failed != nil {
		l.o.Failed(err)
	}
}

// entryOf is an event as the audit keeps it; output as it comes is not kept.
func entryOf(event terminal.Event) (Entry, bool) {
	switch v := event.(type) {
	case terminal.ExecCommandBegin:
		return Entry{Time: v.At, Kind: KindBegin, Call: v.CallID, Tool: v.Tool, Source: string(v.Source), Command: v.Command, Parts: v.Lines,
			CommandDigest: digest(v.Command), Cwd: v.Cwd, Decision: decisionOf(v.Decision),
			Limits: &Limits{Sandbox: v.Sandbox, Asked: string(v.Report.Asked), Got: string(v.Report.Got), Missing: v.Report.Missing,
				Profile: v.Profile, Timeout: v.Timeout, Attempt: v.Attempt}}, true
	case terminal.ExecCommandEnd:
		e := Entry{Time: v.At, Kind: KindEnd, Call: v.CallID, Tool: v.Tool, Session: v.Session, Cwd: v.Cwd, Decision: decisionOf(v.Decision),
			Outcome: &Outcome{ExitCode: v.ExitCode, Signal: v.Signal, TimedOut: v.TimedOut, Error: v.Error, Message: v.Message,
				Stdout: v.Stdout, Stderr: v.Stderr, Duration: v.Duration, Output: v.Preview, OutputDigest: v.Digest}}
		if v.Denial != nil {
			e.Outcome.Denial = v.Denial.String()
		}
		if v.Error == "rejected" {
			e.Kind = KindRefused
		}
		return e, true
	case terminal.ApprovalRequested:
		return Entry{Time: v.At, Kind: KindApproval, Call: v.CallID, Tool: v.Tool,
			Decision: &Decision{By: v.By, Answer: v.Approved, Why: v.Reason, Rules: v.Rules, Outside: v.Outside, Digest: fmt.Sprint(v.Digest)}}, true
	case terminal.SessionPruned:
		return Entry{Kind: KindPruned, Session: v.Session, Note: v.Why}, true
	}
	return Entry{}, false
}

func decisionOf(d terminal.Decided) *Decision {
	return &Decision{Outcome: fmt.Sprint(d.Outcome), By: d.By, Answer: d.Answer, Why: d.Why, Rules: d.Rules, Grant: d.Grant, Outside: d.Outside,
		Digest: fmt.Sprint(d.Digest)}
}

// digest is of the exact words of a command: each with its end.
func digest(argv []string) string {
	h := sha256.New()
	for _, arg := range argv {
		h.Write([]byte(arg))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}
