package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/hardshell-dev/hardshell/fault"
	tools "github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// asker asks on a terminal. Every part of a command is there, whole, on a line of its own; what does not fit the screen
// is shown page by page, and nothing is answered before the last.
type asker struct {
	in    io.Reader
	out   io.Writer
	size  func() (rows, cols int)
	flush func() // forgets what was typed before the question stood there
}

// openAsker asks on the terminal that we were started from, whatever our streams are. There is none in a pipeline of a
// service; then nobody can be asked.
func openAsker() (*asker, func(), error) {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Invalid, err, "there is no terminal to ask on").WithTry("--approval never, and rules for what may run")
	}
	size := func() (int, int) {
		cols, rows, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 24, 80
		}
		return rows, cols
	}
	return &asker{f, f, size, func() { flushInput(int(f.Fd())) }}, func() { f.Close() }, nil
}

// Approve shows the question and reads the answer. The end of the input is a no.
func (a *asker) Approve(ctx context.Context, r tools.ApprovalRequest) (tools.Review, error) {
	choices := map[string]tools.ReviewDecision{"n": tools.Denied, "no": tools.Denied, "q": tools.Abort}
	menu := "[n]o  [q]uit the turn"
	for _, c := range []struct {
		decision tools.ReviewDecision
		key, say string
	}{{tools.ApprovedAlways, "a", "[a]lways, as above"}, {tools.ApprovedForSession, "s", "this [s]ession"}, {tools.Approved, "y", "[y]es, once"}} {
		if r.Offers(c.decision) {
			choices[c.key], menu = c.decision, c.say+"  "+menu
		}
	}
	answers := func(word string) bool { _, ok := choices[word]; return ok }
	word, reason, err := a.choose(ctx, func(cols int) []string { return a.layout(r, cols) }, menu, answers)
	if err != nil || word == "" {
		return tools.Review{Decision: tools.Denied}, err
	}
	return tools.Review{Decision: choices[word], By: "person at the terminal", Reason: reason}, nil
}

// choose shows a question, page by page, and reads one of the words that are answers, with what is said behind it. A no on
// the way, and the end of the input, is no word at all.
func (a *asker) choose(ctx context.Context, layout func(cols int) []string, menu string, answers func(word string) bool) (word, reason string, err error) {
	rows, cols := a.size()
	rows, cols = max(rows, 8), max(cols, 20)
	a.flush()
	in := bufio.NewReader(a.in)
	page := layout(cols)
	for len(page) > rows-2 {
		fmt.Fprintln(a.out, strings.Join(page[:rows-2], "\n"))
		page = page[rows-2:]
		fmt.Fprintf(a.out, "-- %d more lines: Enter shows them, n refuses --\n", len(page))
		if text, err := line(ctx, in); err != nil || strings.HasPrefix(strings.ToLower(text), "n") {
			return "", "", ignoreEOF(err)
		}
	}
	fmt.Fprintln(a.out, strings.Join(page, "\n"))
	for {
		fmt.Fprintf(a.out, "%s: ", menu)
		text, err := line(ctx, in)
		if err != nil {
			return "", "", ignoreEOF(err)
		}
		word, reason, _ := strings.Cut(strings.TrimSpace(text), " ")
		if word = strings.ToLower(word); answers(word) {
			return word, strings.TrimSpace(reason), nil
		}
	}
}

// layout is the question as lines that fit the screen's width.
func (a *asker) layout(r tools.ApprovalRequest, cols int) (page []string) {
	add := func(indent, text string) { page = append(page, fold(indent, visible(text), cols)...) }
	head := "It wants to run"
	if r.Retry != "" {
		head = "The sandbox denied this something"
	}
	if r.Outside {
		head += ", OUTSIDE the sandbox"
	}
	add("", head+", in "+r.Cwd+":")
	for _, line := range r.Lines {
		add("  $ ", line)
	}
	for _, why := range r.Reasons {
		add("  because ", why)
	}
	if r.Justification != "" {
		add("  it says: ", r.Justification)
	}
	for _, rule := range r.Proposed {
		add("  always would save: ", rule.String())
	}
	add("  ", r.Effect)
	return page
}

// fold breaks a text into lines of a width; the further ones are indented alike, without what stands in the first.
func fold(indent, text string, cols int) (lines []string) {
	room := max(cols-len(indent)-1, 8)
	for paragraph := range strings.SplitSeq(text, "\n") {
		used, from := 0, 0
		for at, r := range paragraph {
			width := 1
			if r >= 0x1100 {
				width = 2 // at most
			}
			if used+width > room {
				lines = append(lines, indent+paragraph[from:at])
				indent, used, from = strings.Repeat(" ", len(indent)), 0, at
			}
			used += width
		}
		lines = append(lines, indent+paragraph[from:])
		indent = strings.Repeat(" ", len(indent))
	}
	return lines
}

// line reads one, or returns when the context ends.
func line(ctx context.Context, in *bufio.Reader) (string, error) {
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		text, err := in.ReadString('\n')
		got <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case g := <-got:
		return g.text, g.err
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// approve decides about the command of `run`, and asks at the terminal where a person must be asked.
func (c runCommand) approve(ctx context.Context, p *program, argv []string) error {
	approver := tools.ApproverFunc(func(ctx context.Context, r tools.ApprovalRequest) (tools.Review, error) {
		a, done, err := openAsker()
		if err != nil {
			return tools.Review{}, err
		}
		defer done()
		r.Scopes = slices.DeleteFunc(slices.Clone(r.Scopes), func(s approval.Scope) bool { return s == approval.Session }) // there is one command
		return a.Approve(ctx, r)
	})
	flags := policyFlags{Approval: c.Approval, Rules: c.Rules, Sandbox: c.Sandbox, Cwd: c.Cwd}
	s, err := flags.open(p, approver)
	if err != nil {
		return err
	}
	defer s.Close()
	turn, err := s.Begin(ctx, s.TurnContext())
	if err != nil {
		return err
	}
	_, err = s.Clear(ctx, turn, "run", tools.Question{Argv: argv, TTY: c.TTY})
	var rejected *tools.RejectedError
	if errors.As(err, &rejected) {
		return fault.New(fault.Forbidden, "it may not run: %s", rejected.Reason).WithTry("hardshell policy explain -- COMMAND")
	}
	return err
}
