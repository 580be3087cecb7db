// Package cli is the program as a person meets it: the commands, what they print, and their exit codes.
//
// It decides nothing about shells, models or storage: assemble.go alone puts the rooms together, the commands use what
// it made, and `ask` uses the same HTTP API as everybody else. What holds: stdout carries what was asked for and
// nothing more, stderr everything that is said about it; an error is one line that says what and why, and a "try:" line
// where one helps; exit code 0 done, 1 not done, 2 wrong usage, 130 and 143 ended by SIGINT and SIGTERM.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/config"
)

// Streams are the program's standard streams.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// The exit codes with a meaning of their own.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitRun    = 125 // `run` itself failed, not its command
)

// exitCode is an error that has already been told: it only sets the code.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// program is what every command is given.
type program struct {
	Streams
	environ []string
	root    *commands
	model   *kong.Application
	local   bool // commands run here: what a server of ours could run does not matter
}

// getenv returns a variable of the environment that Main was given; the last one wins, as in a shell.
func (p *program) getenv(name string) string {
	for i := len(p.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(p.environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// globals are the flags that more than one command has.
type globals struct {
	Config string `placeholder:"FILE" help:"Configuration file (default: $HARDSHELL_CONFIG, else hardshell.toml in the user's configuration folder or in /etc/hardshell, if there is one)."`
	Data   string `placeholder:"DIR" help:"Data folder (default: $HARDSHELL_DATA, else $XDG_DATA_HOME/hardshell, else /var/lib/hardshell for root and ~/.local/share/hardshell for others)."`
}

// load reads the configuration that the flags point at.
func (p *program) load(g globals) (*config.Loaded, error) {
	loaded, err := config.Load(config.Source{Path: g.Config, Environ: p.environ, UID: os.Getuid()})
	if err != nil {
		return nil, err
	}
	if g.Data != "" {
		loaded.Config.Storage.Data = g.Data
	}
	return loaded, nil
}

type commands struct {
	Serve serveCommand `cmd:"" help:"Serve the API: any model, with a shell."`
	Ask   askCommand   `cmd:"" help:"Ask a model that has a shell, once."`
	Agent agentCommand `cmd:"" help:"Let a model work in this folder: its commands run here, in a sandbox, under your eyes."`
	runTable
	Policy     policyCommand     `cmd:"" help:"Explain what would become of a command, check rules, list and revoke approvals."`
	Approvals  approvalsCommand  `cmd:"" help:"List the questions of hosted commands that wait for a person, and answer them."`
	Record     recordCommand     `cmd:"" help:"Record what a provider answers, scrubbed, as a cassette."`
	Replay     replayCommand     `cmd:"" help:"Play a cassette as a provider, for tests without a key."`
	MCP        mcpCommand        `cmd:"" name:"mcp" help:"Serve an agent's hands to an MCP client, on stdin and stdout."`
	Doctor     doctorCommand     `cmd:"" help:"Say what this machine can isolate, and what would make it stronger."`
	Audit      auditCommand      `cmd:"" help:"Show what agents ran, and check that nobody changed the record."`
	Answer     answerCommand     `cmd:"" help:"Give a password to a session that asks for one, unseen."`
	Key        keyCommand        `cmd:"" help:"Create, list and revoke API keys."`
	ConfigCmd  configCommand     `cmd:"" name:"config" help:"Check the configuration, and list every key."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
	Completion completionCommand `cmd:"" help:"Print a completion script."`
}

// runTable is the part of the command table that `run` needs. Reading the whole takes longer than starting a sandbox may.
type runTable struct {
	Run runCommand `cmd:"" help:"Run a command in a sandbox on this machine."`
}

const description = `Any model, a real shell, and you decide what it may touch.

Start with:  hardshell ask --model scripted '$ ls -la'`

// halt carries an exit code out of kong, which calls its Exit in the middle of parsing (for --help).
type halt int

// Main runs one command line and returns the exit code.
func Main(ctx context.Context, args []string, streams Streams, environ []string) (code int) {
	p := &program{Streams: streams, environ: environ, root: &commands{}}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case halt:
			code = int(r)
		default:
			panic(r)
		}
	}()
	var table any = p.root
	if len(args) > 0 && args[0] == "run" {
		table = &p.root.runTable
	}
	parser, err := kong.New(table,
		kong.Name("hardshell"), kong.Description(description),
		kong.Writers(streams.Out, streams.Err),
		kong.Exit(func(code int) { panic(halt(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(p))
	if err != nil {
		return p.fail(ctx, fmt.Errorf("read the command table: %w", err))
	}
	p.model = parser.Model
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return p.usage(err)
	}
	if err := parsed.Run(); err != nil {
		return p.fail(ctx, err)
	}
	return exitDone
}

// usage tells what is wrong with a command line.
func (p *program) usage(err error) int {
	at := "hardshell"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			at = node.FullPath()
		}
	}
	try := at + " --help"
	if f, ok := fault.As(err); ok && f.Try != "" {
		try = f.Try
	}
	said := err.Error()
	if flag, got, ok := strings.Cut(said, "expected a valid 64 bit int but got "); ok { // kong's words are a programmer's
		said = flag + got + " is not a number"
	}
	fmt.Fprintf(p.Err, "hardshell: %s\ntry: %s\n", said, try)
	return exitUsage
}

// usageError is a command line that kong cannot see is wrong.
type usageError struct{ error }

// Unwrap shows what is wrong with it.
func (u usageError) Unwrap() error { return u.error }

// fail tells an error and returns its exit code.
func (p *program) fail(ctx context.Context, err error) int {
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	var signal Signal
	var unclean stopError
	if errors.As(context.Cause(ctx), &signal) && !errors.As(err, &unclean) {
		fmt.Fprintf(p.Err, "hardshell: %v\n", signal)
		return 128 + int(signal.Number)
	}
	p.tell(err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// tell writes an error and its try line. The operator reads it, so the cause is shown.
func (p *program) tell(err error) {
	fmt.Fprintf(p.Err, "hardshell: %s\n", strings.TrimRight(err.Error(), "\n"))
	if f, ok := fault.As(err); ok && f.Try != "" {
		fmt.Fprintf(p.Err, "try: %s\n", f.Try)
	}
}
