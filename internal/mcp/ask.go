package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/terminal"
)

// question is one that a call has put to its client's person.
type question struct {
	state  string // by which the answer is known to be this one's
	params *mcp.ElicitParams
	offers []terminal.ReviewDecision
	answer chan *mcp.ElicitResult
}

const (
	questionName = "approval" // among a result's input requests
	resumable    = "2026-07-28"
	who          = "person at the MCP client"
)

// resumes says whether a client gets questions as results. Such a client refuses requests of ours.
func resumes(s *mcp.ServerSession) bool {
	p := s.InitializeParams()
	return p != nil && p.ProtocolVersion >= resumable
}

// elicits says whether a client can ask its person by a form.
func elicits(s *mcp.ServerSession) bool {
	p := s.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	e := p.Capabilities.Elicitation
	return e.Form != nil || e.URL == nil // neither is a form, as it was at first
}

// Approve asks the person at the client whose call it is.
func (d *door) Approve(ctx context.Context, r terminal.ApprovalRequest) (terminal.Review, error) {
	c := d.byID(r.CallID)
	if c == nil {
		return terminal.Review{}, errors.New("nobody waits for this call")
	}
	if !elicits(c.client) {
		return terminal.Review{Decision: terminal.Denied, By: "policy",
			Reason: "It needs a person's approval, and this MCP client has no way to ask one (elicitation)."}, nil
	}
	c.git.release() // a person who thinks keeps nobody else from the repository
	q := ask(r)
	c.put(q)
	defer c.put(nil)
	var result *mcp.ElicitResult
	if resumes(c.client) {
		late, stop := d.config.Clock.Timer(patient)
		defer stop()
		select {
		case result = <-q.answer:
		case <-late:
			return terminal.Review{Decision: terminal.Denied, By: "nobody", Reason: "Nobody answered within an hour."}, nil
		case <-ctx.Done():
			return terminal.Review{}, context.Cause(ctx)
		}
	} else {
		asking, cancel := d.within(ctx)
		defer cancel()
		var err error
		if result, err = c.client.Elicit(asking, q.params); err != nil {
			return terminal.Review{}, err
		}
	}
	review := q.review(result)
	if review.Decision != terminal.Denied {
		c.git.take(ctx)
	}
	return review, nil
}

// within is a context that also ends when a person has taken too long.
func (d *door) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	late, stop := d.config.Clock.Timer(patient)
	go func() {
		select {
		case <-late:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { stop(); cancel() }
}

// answered gives a client's answer to its question, and returns the call. It is nil when there is no such question.
func (d *door) answered(state string, answers mcp.InputResponseMap) *call {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		q := c.question()
		if q == nil || q.state != state {
			continue
		}
		result, _ := answers[questionName].(*mcp.ElicitResult)
		if result == nil {
			result = &mcp.ElicitResult{Action: "cancel"}
		}
		c.put(nil) // a question has one answer
		q.answer <- result
		return c
	}
	return nil
}

func (c *call) question() *question {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

func (c *call) put(q *question) {
	c.mu.Lock()
	c.open = q
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

var answers = []struct {
	decision terminal.ReviewDecision
	word     string
	title    string
}{
	{terminal.Approved, "once", "Yes, once"},
	{terminal.ApprovedForSession, "session", "Yes, exactly this, for this session"},
	{terminal.ApprovedAlways, "always", "Yes, always, as the rules shown"},
	{terminal.Denied, "no", "No"},
}

// ask writes a question for a form. Every part of the command stands on a line of its own, whole.
func ask(r terminal.ApprovalRequest) *question {
	var b strings.Builder
	switch {
	case r.Retry != "":
		b.WriteString("The sandbox denied a command something. Run it again, OUTSIDE the sandbox")
	case r.Outside:
		b.WriteString("Run this OUTSIDE the sandbox")
	default:
		b.WriteString("Run this")
	}
	fmt.Fprintf(&b, ", in %s?\n", plain(r.Cwd))
	for _, line := range r.Lines {
		fmt.Fprintf(&b, "  $ %s\n", plain(line))
	}
	for _, why := range r.Reasons {
		fmt.Fprintf(&b, "because %s\n", plain(why))
	}
	if r.Justification != "" {
		fmt.Fprintf(&b, "the model says: %s\n", plain(r.Justification))
	}
	q := &question{state: rand.Text(), answer: make(chan *mcp.ElicitResult, 1)}
	var words, titles []any
	for _, a := range answers {
		if r.Offers(a.decision) {
			q.offers = append(q.offers, a.decision)
			words, titles = append(words, a.word), append(titles, a.title)
		}
	}
	for _, rule := range r.Proposed {
		fmt.Fprintf(&b, "always would save: %s\n", plain(rule.String()))
	}
	b.WriteString(plain(r.Effect))
	properties := map[string]any{}
	if len(words) > 2 || !r.Offers(terminal.Approved) { // else accepting says it all
		properties["decision"] = map[string]any{"type": "string", "title": "Decision", "enum": words, "enumNames": titles}
	}
	q.params = &mcp.ElicitParams{Mode: "form", Message: b.String(), RequestedSchema: map[string]any{"type": "object", "properties": properties}}
	return q
}

// review reads an answer. What is not clearly a yes is a no; a yes without more is for once.
func (q *question) review(result *mcp.ElicitResult) terminal.Review {
	if result == nil || result.Action != "accept" {
		return terminal.Review{Decision: terminal.Denied, By: who}
	}
	word, given := result.Content["decision"]
	if !given {
		word = "once"
	}
	for _, a := range answers {
		if a.word == word && slices.Contains(q.offers, a.decision) {
			return terminal.Review{Decision: a.decision, By: who}
		}
	}
	return terminal.Review{Decision: terminal.Denied, By: who}
}

// plain is text that shows what it holds, on one line: a model's words cannot draw a question of their own.
func plain(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

var _ terminal.Approver = (*door)(nil)
