package cli

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	tools "github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

type policyCommand struct {
	Explain policyExplainCommand `cmd:"" help:"Say what would become of a command: run, be asked about, be refused, and by what."`
	Check   policyCheckCommand   `cmd:"" help:"Check a file of rules, and each rule against its own examples."`
	Grants  policyGrantsCommand  `cmd:"" help:"List what was approved for always."`
	Revoke  policyRevokeCommand  `cmd:"" help:"Take an approval back."`
}

// policyFlags are what decides about a command.
type policyFlags struct {
	Approval string   `enum:"on-request,on-failure,untrusted,never" default:"on-request" placeholder:"POLICY" help:"Whom to ask when: on-request, on-failure, untrusted or never. Default: on-request."`
	Rules    []string `placeholder:"FILE" sep:"none" help:"A further file of rules, beside rules.toml in the user's configuration folder. May be given more than once."`
	Sandbox  string   `enum:"read-only,workspace-write,danger-full-access,external-sandbox" default:"workspace-write" placeholder:"MODE" help:"The sandbox that it would run in. Default: workspace-write."`
	Cwd      string   `placeholder:"DIR" help:"The folder that it would run in (default: the current one)."`
}

// open opens a session that decides as these flags say.
func (c policyFlags) open(p *program, approver tools.Approver) (*tools.Session, error) {
	config, err := c.config(p)
	if err != nil {
		return nil, err
	}
	config.Approver, config.DisableLogin = approver, true
	return tools.Open(config)
}

// config is a session's that decides as these flags say.
func (c policyFlags) config(p *program) (none tools.SessionConfig, err error) {
	cwd, err := folder("--cwd", c.Cwd)
	if err != nil {
		return none, err
	}
	ask, err := approval.ParseAsk(c.Approval)
	if err != nil {
		return none, err
	}
	mode, err := sandbox.ParseMode(c.Sandbox)
	if err != nil {
		return none, err
	}
	rules, err := p.rules(cwd, c.Rules)
	if err != nil {
		return none, err
	}
	grants, err := p.grants()
	if err != nil {
		return none, err
	}
	return tools.SessionConfig{Cwd: cwd, SandboxPolicy: sandbox.Policy{Mode: mode, Least: sandbox.RungRestricted},
		ApprovalPolicy: tools.AskFor(approval.Policy{Ask: ask}), Rules: rules, Grants: grants, Environ: p.environ}, nil
}

type policyExplainCommand struct {
	policyFlags
	Escalate bool     `help:"As if it asked to leave the sandbox."`
	JSON     bool     `help:"Print a JSON object."`
	Command  []string `arg:"" passthrough:"partial" name:"command" help:"The command, after --. One word is a script for your shell, several are a program and its arguments."`
}

func (policyExplainCommand) Help() string {
	return `Runs nothing. Each part of the command is told with its decision, the rule and its file and line.

Example:

  hardshell policy explain --approval untrusted -- 'cd sub && npm test | tail'
`
}

// Run explains by the code that decides.
func (c policyExplainCommand) Run(ctx context.Context, p *program) error {
	argv := c.Command
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return usageError{fault.New(fault.Invalid, "policy explain needs a command").WithTry("hardshell policy explain -- 'git status'")}
	}
	s, err := c.open(p, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	turn, err := s.Begin(ctx, s.TurnContext())
	if err != nil {
		return err
	}
	q := tools.Question{Argv: argv, Escalate: c.Escalate}
	if len(argv) == 1 {
		q.Argv, q.Script = nil, argv[0]
	}
	e, err := s.Explain(ctx, turn, q)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(p.Out, e)
	}
	_, err = fmt.Fprint(p.Out, e)
	return err
}

type policyCheckCommand struct {
	File string `arg:"" placeholder:"FILE" help:"The file of rules."`
}

func (policyCheckCommand) Help() string {
	return `A wrong key, value or example is told with file and line, and the exit code is 1.

Example:

  hardshell policy check ~/.config/hardshell/rules.toml
`
}

// Run reads the rules as every other command does.
func (c policyCheckCommand) Run(p *program) error {
	rules, err := readRules(c.File)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if _, err := fmt.Fprintf(p.Out, "%s:%d: %s\n", c.File, r.Line, r); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(p.Out, "ok: %s, %d rules\n", c.File, len(rules))
	return err
}

type policyGrantsCommand struct {
	JSON bool `help:"Print a JSON list."`
}

func (policyGrantsCommand) Help() string {
	return `What was approved for always holds for 30 days, or until it is revoked.

Example:

  hardshell policy grants
`
}

// Run lists the book.
func (c policyGrantsCommand) Run(p *program) error {
	book, err := p.grants()
	if err != nil {
		return err
	}
	grants, err := book.Grants()
	if err != nil {
		return err
	}
	type entry struct {
		ID      string    `json:"id"`
		State   string    `json:"state"`
		By      string    `json:"by"`
		Expires time.Time `json:"expires"`
		Rules   []string  `json:"rules"`
	}
	list, now := []entry{}, time.Now()
	for _, g := range grants {
		e := entry{ID: g.ID, State: "holds", By: g.By, Expires: g.Expires}
		switch {
		case !g.Ended.IsZero():
			e.State = "revoked"
		case !g.Holds(now):
			e.State = "expired"
		}
		for _, r := range g.Rules {
			e.Rules = append(e.Rules, r.String())
		}
		list = append(list, e)
	}
	if c.JSON {
		return writeJSON(p.Out, list)
	}
	w := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	for _, e := range list {
		for _, rule := range e.Rules {
			fmt.Fprintf(w, "%s\t%s\tuntil %s\t%s\n", e.ID, e.State, e.Expires.Local().Format("2006-01-02 15:04"), visible(rule))
		}
	}
	return w.Flush()
}

type policyRevokeCommand struct {
	ID string `arg:"" placeholder:"GRANT" help:"The grant, as policy grants names it."`
}

func (policyRevokeCommand) Help() string {
	return `From now on the commands that it covered are decided as before. Sessions that run see it at their next command.

Example:

  hardshell policy revoke grant_d1x2k3_1
`
}

// Run revokes.
func (c policyRevokeCommand) Run(p *program) error {
	book, err := p.grants()
	if err != nil {
		return err
	}
	return book.Revoke(c.ID, time.Now())
}
