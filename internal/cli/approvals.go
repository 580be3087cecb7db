package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/agent/approvals"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

type approvalsCommand struct {
	List   approvalsListCommand   `cmd:"" default:"withargs" help:"List the questions that wait, or those of another status."`
	Review approvalsReviewCommand `cmd:"" help:"Show every question that waits, whole, and ask for the answer at the terminal."`
	Answer approvalsAnswerCommand `cmd:"" help:"Answer one question."`
}

// approvalFlags say whose questions.
type approvalFlags struct {
	globals
	URL string `name:"url" placeholder:"URL" help:"The server (default: the one that runs on the data folder)."`
}

// Help tells what key is needed.
func (approvalsCommand) Help() string {
	return `Hosted commands of responses wait for a person where features.shell.approval says so. The key that runs a response
cannot approve what it asks, so this needs one of its own:

  export HARDSHELL_API_KEY=$(hardshell key create --scope approve --name me)
`
}

// open finds the server.
func (c approvalFlags) open(ctx context.Context, p *program) (*client, error) {
	loaded, err := p.load(c.globals)
	if err != nil {
		return nil, err
	}
	data := loaded.Config.Storage.Data
	if c.URL != "" {
		key, err := p.apiKey(c.URL, data)
		if err != nil {
			return nil, err
		}
		return newClient(c.URL, key, ""), nil
	}
	api, ok, err := p.connect(ctx, data)
	if err == nil && !ok {
		err = fault.New(fault.Unavailable, "no server runs on %s", p.tilde(data)).WithTry("hardshell serve, or --url URL")
	}
	return api, err
}

// answer says what a person decided.
func (c *client) answer(ctx context.Context, id string, d approvals.Decision, reason string) (a openai.Approval, err error) {
	answer, err := c.post(ctx, "/v1/approvals/"+url.PathEscape(id), map[string]string{"decision": string(d), "reason": reason})
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&a); err != nil {
		return a, fault.Wrap(fault.Upstream, err, "the server at %s answers what is not JSON", c.base)
	}
	return a, nil
}

// approvals lists all questions of a status, the oldest first.
func (c *client) approvals(ctx context.Context, status string) (all []openai.Approval, err error) {
	q := url.Values{"order": {"asc"}, "limit": {"100"}}
	if status != "all" {
		q.Set("status", status)
	}
	for {
		var page struct {
			Data   []openai.Approval `json:"data"`
			More   bool              `json:"has_more"`
			LastID *string           `json:"last_id"`
		}
		if err := c.get(ctx, "/v1/approvals?"+q.Encode(), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if !page.More || page.LastID == nil || *page.LastID == q.Get("after") {
			return all, nil
		}
		q.Set("after", *page.LastID)
	}
}

type approvalsListCommand struct {
	approvalFlags
	Status string `enum:"pending,approved,denied,expired,cancelled,all" default:"pending" placeholder:"STATUS" help:"pending, approved, denied, expired, cancelled or all. Default: pending."`
	JSON   bool   `help:"Print a JSON object per line."`
}

// Run lists questions.
func (c approvalsListCommand) Run(ctx context.Context, p *program) error {
	api, err := c.open(ctx, p)
	if err != nil {
		return err
	}
	list, err := api.approvals(ctx, c.Status)
	if err != nil {
		return err
	}
	for _, a := range list {
		if c.JSON {
			text, err := openai.Marshal(a)
			if err != nil {
				return fmt.Errorf("list approvals: %w", err)
			}
			fmt.Fprintf(p.Out, "%s\n", text)
			continue
		}
		fmt.Fprintln(p.Out, strings.Join(questionLines(a, time.Now(), 1<<20), "\n"))
	}
	if len(list) == 0 && !c.JSON {
		fmt.Fprintln(p.Err, map[bool]string{true: "no question waits", false: "there is none"}[c.Status == "pending"])
	}
	return nil
}

// questionLines is a question as lines of a width. What runs is there whole, and nothing in it moves the cursor.
func questionLines(a openai.Approval, now time.Time, cols int) (lines []string) {
	add := func(indent, text string) {
		if text != "" {
			lines = append(lines, fold(indent, visible(text), cols)...)
		}
	}
	head := fmt.Sprintf("%s · %s", a.ID, a.Status)
	if a.Scope != nil && *a.Scope == "container" {
		head += " for the container"
	}
	if a.DecidedBy != nil {
		head += " by " + *a.DecidedBy
	}
	if a.Status == "pending" {
		head += fmt.Sprintf(" · %s left", time.Unix(a.ExpiresAt, 0).Sub(now).Round(time.Second))
	}
	add("", head)
	add("  in       ", fmt.Sprintf("%s · %s", a.ContainerID, a.WorkingDirectory))
	for _, c := range a.Commands {
		add("  $ ", c.Command)
		for _, why := range c.Reasons {
			add("  because ", why) // further left than any line of a command
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		add("  with     ", name+"="+a.Env[name])
	}
	add("  stdin    ", a.Stdin)
	if a.Reason != nil {
		add("  reason   ", *a.Reason)
	}
	return lines
}

type approvalsReviewCommand struct {
	approvalFlags
}

// Run asks about every question that waits.
func (c approvalsReviewCommand) Run(ctx context.Context, p *program) error {
	api, err := c.open(ctx, p)
	if err != nil {
		return err
	}
	list, err := api.approvals(ctx, "pending")
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(p.Err, "no question waits")
		return nil
	}
	a, done, err := openAsker()
	if err != nil {
		return err
	}
	defer done()
	return a.review(ctx, api, list, p.Out)
}

// review asks about questions, one after the other. What is left open waits on.
func (a *asker) review(ctx context.Context, api *client, list []openai.Approval, out io.Writer) error {
	decisions := map[string]approvals.Decision{"y": approvals.Approve, "c": approvals.ApproveForContainer, "n": approvals.Deny, "no": approvals.Deny, "l": "", "q": ""}
	for _, q := range list {
		word, reason, err := a.choose(ctx, func(cols int) []string { return questionLines(q, time.Now(), cols) },
			"[y]es, once  this [c]ontainer, whenever it is exactly this  [n]o (a reason may follow)  [l]ater  [q]uit",
			func(word string) bool { _, ok := decisions[word]; return ok })
		if err != nil || word == "" || word == "q" {
			return err
		}
		if word == "l" {
			continue
		}
		answered, err := api.answer(ctx, q.ID, decisions[word], reason)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %s\n", answered.ID, answered.Status)
	}
	return nil
}

type approvalsAnswerCommand struct {
	approvalFlags
	ID       string `arg:"" help:"The question's id."`
	Decision string `arg:"" enum:"approve,approve_for_container,deny" help:"approve (this once), approve_for_container (exactly this, as long as its container lives) or deny."`
	Reason   string `help:"Why; the model reads the reason of a denial."`
	JSON     bool   `help:"Print the question as a JSON object."`
}

// Run answers one question.
func (c approvalsAnswerCommand) Run(ctx context.Context, p *program) error {
	api, err := c.open(ctx, p)
	if err != nil {
		return err
	}
	a, err := api.answer(ctx, c.ID, approvals.Decision(c.Decision), c.Reason)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(p.Out, a)
	}
	fmt.Fprintf(p.Out, "%s %s\n", a.ID, a.Status)
	return nil
}

// asks says that a command waits for a person.
func (v *view) asks(e openai.Lifecycle) {
	for _, i := range e.Response.Output {
		var c openai.ShellCall
		if i.Type == openai.TypeShellCall && i.Decode(&c) == nil && c.Approval != nil && c.Approval.Status == string(approvals.Pending) {
			v.say(fmt.Sprintf("waiting  %s needs an approval\n         try: hardshell approvals review (with a key of the scope approve)\n", visible(c.Approval.ID)))
		}
	}
}
