package terminal

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Form is how a model reads a result.
type Form int

// The forms.
const (
	// Labelled is text with a few labelled lines above the output. It is the default.
	Labelled Form = iota
	// Bare is the output alone; of a command that lives on, JSON with output, process_id and exit_code.
	Bare
	// Structured is JSON with everything that is known.
	Structured
)

// DefaultMaxTokens bounds the text of a result when a call asks for no other bound. Four bytes count as a token.
const DefaultMaxTokens = 10_000

// Format is the result in a form.
func (r ExecResult) Format(f Form) string {
	switch f {
	case Bare:
		return r.bare()
	case Structured:
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Sprintf(`{"failure":"io","message":%q}`, err.Error())
		}
		return string(text)
	}
	if r.SessionID != 0 {
		return r.labelledLive()
	}
	return r.labelled()
}

// labelled is the text of the one-shot tools.
func (r ExecResult) labelled() string {
	if r.ranNothing() {
		return r.nothing()
	}
	var b strings.Builder
	if r.ExitCode != nil {
		fmt.Fprintf(&b, "Exit code: %d\n", *r.ExitCode)
	}
	fmt.Fprintf(&b, "Wall time: %s seconds\n", strconv.FormatFloat(round(r.WallTime, 10), 'f', -1, 64))
	body, missing := r.body()
	if missing > 0 {
		b.WriteString(r.size(missing))
	}
	if r.CwdBefore != "" {
		fmt.Fprintf(&b, "Cwd: %s\n", r.CwdBefore)
	}
	r.remarks(&b)
	b.WriteString("Output:\n")
	if r.TimedOut {
		b.WriteString(r.timeoutLine())
	}
	b.WriteString(body)
	return b.String()
}

// labelledLive is the text of exec_command and write_stdin.
func (r ExecResult) labelledLive() string {
	var chunk [3]byte
	rand.Read(chunk[:]) // it never fails
	var b strings.Builder
	fmt.Fprintf(&b, "Chunk ID: %s\nWall time: %.4f seconds\n", hex.EncodeToString(chunk[:]), r.WallTime.Seconds())
	if r.ExitCode != nil {
		fmt.Fprintf(&b, "Process exited with code %d\n", *r.ExitCode)
	} else if r.Failure == "" {
		fmt.Fprintf(&b, "Process running with session ID %d\n", r.SessionID)
	}
	fmt.Fprintf(&b, "Original token count: %d\n", r.TokenCount())
	if r.ProcessID != strconv.Itoa(r.SessionID) {
		fmt.Fprintf(&b, "Process ID: %s\n", r.ProcessID)
	}
	if r.CwdBefore != "" {
		b.WriteString("Cwd: " + r.CwdBefore)
		if r.CwdAfter != "" && r.CwdAfter != r.CwdBefore {
			b.WriteString(" -> " + r.CwdAfter)
		}
		b.WriteByte('\n')
	}
	if r.State != "" && r.ExitCode == nil && r.Failure == "" {
		b.WriteString("State: " + r.State)
		if r.Ready != "" {
			b.WriteString(", job " + r.Ready)
		}
		if r.Command != nil {
			fmt.Fprintf(&b, ", last command exited with code %d", *r.Command)
		}
		b.WriteByte('\n')
	}
	if r.Password {
		b.WriteString("Note: A password is asked for. A person has to answer it; it is never yours to give.\n")
	}
	r.remarks(&b)
	b.WriteString("Output:\n")
	if r.TimedOut {
		b.WriteString(r.timeoutLine())
	}
	body, missing := r.body()
	if missing > 0 {
		fmt.Fprintf(&b, "Warning: truncated output (original token count: %d)\n%s\n", r.TokenCount(), r.size(missing))
	}
	b.WriteString(body)
	return b.String()
}

// ranNothing says whether there is nothing to tell but why.
func (r ExecResult) ranNothing() bool {
	return (r.Failure == "rejected" || r.Failure == "io") && r.ExitCode == nil && r.SessionID == 0 && r.Head == "" && r.Tail == ""
}

// nothing is the text of a call of which nothing ran.
func (r ExecResult) nothing() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s failed: %s", r.Tool, r.Message)
	for _, n := range r.Notices {
		b.WriteString("\nNote: " + n)
	}
	return b.String()
}

func (r ExecResult) timeoutLine() string {
	return fmt.Sprintf("command timed out after %d milliseconds\n", r.Timeout.Milliseconds())
}

// remarks are the lines that say what the output does not.
func (r ExecResult) remarks(b *strings.Builder) {
	if r.Signal != "" && !r.TimedOut {
		fmt.Fprintf(b, "Note: The command was ended by %s.\n", r.Signal)
	}
	switch {
	case r.Denial != nil:
		fmt.Fprintf(b, "Note: Denied: %s.\n", strings.TrimRight(r.Denial.String(), "."))
	case r.Failure == "io", r.Failure == "rejected":
		fmt.Fprintf(b, "Note: %s\n", r.Message)
	}
	if r.Retried {
		b.WriteString("Note: The sandbox denied it something, and it ran again outside, as a person approved.\n")
	} else if r.Outside {
		b.WriteString("Note: It ran outside the sandbox, as a person approved.\n")
	}
	if r.Replaced > 0 && r.Data.Type == "" {
		fmt.Fprintf(b, "Note: %d bytes of the output are no UTF-8; U+FFFD stands for them.\n", r.Replaced)
	}
	if r.Restarted != nil {
		fmt.Fprintf(b, "Note: %s\n", r.Restarted)
	}
	for _, n := range r.Notices {
		fmt.Fprintf(b, "Note: %s\n", n)
	}
}

// bare is the seed's form.
func (r ExecResult) bare() string {
	if r.ranNothing() {
		return r.nothing()
	}
	body, _ := r.body()
	switch {
	case r.TimedOut:
		body = r.timeoutLine() + body
	case r.Failure == "rejected", r.Failure == "io": // of what ran before
		body = r.nothing() + "\n" + body
	}
	if r.SessionID == 0 {
		return body
	}
	view := struct {
		Output    string  `json:"output"`
		ProcessID *string `json:"process_id"`
		ExitCode  *int    `json:"exit_code"`
	}{Output: body, ExitCode: r.ExitCode}
	if r.ExitCode == nil {
		view.ProcessID = &r.ProcessID
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(view) // plain values: it cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// size is the line that says how long a truncated output was: in lines, unless some of them are not there to be counted.
func (r ExecResult) size(missing int64) string {
	if r.Omitted > 0 {
		return fmt.Sprintf("... %d bytes omitted ...\n", missing)
	}
	n := strings.Count(r.Head+r.Tail, "\n")
	if text := r.Head + r.Tail; text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return fmt.Sprintf("Total output lines: %d\n", n)
}

// body is the output within the budget: head and tail, half each, cut between characters, and between them how many
// tokens of the one count are missing. missing is that in bytes.
func (r ExecResult) body() (text string, missing int64) {
	budget := int64(r.MaxTokens) * 4
	head, tail := r.Head, r.Tail
	if r.Omitted == 0 {
		head, tail = r.Head+r.Tail, ""
	}
	if r.Omitted == 0 && int64(len(head)) <= budget {
		return head, 0
	}
	all := int64(len(head)+len(tail)) + r.Omitted
	half := budget / 2
	if r.Omitted == 0 {
		tail = head
	}
	head = head[:cutDown(head, half)]
	tail = tail[cutUp(tail, int64(len(tail))-half):]
	kept := int64(len(head) + len(tail))
	return head + "…" + strconv.FormatInt(r.TokenCount()-kept/4, 10) + " tokens truncated…" + tail, all - kept
}

// cutDown is the last place between characters at or before n.
func cutDown(s string, n int64) int {
	at := int(min(n, int64(len(s))))
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return at
}

// cutUp is the first place between characters at or after n.
func cutUp(s string, n int64) int {
	at := int(max(n, 0))
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return at
}
