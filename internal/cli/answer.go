package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/term"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// answersFolder is where the doors of running agents' sessions stand, in the data folder, which no box shows.
const answersFolder = "answers"

type answerCommand struct {
	globals
	Session int `arg:"" optional:"" help:"The session that asks; may be left out while only one does."`
}

func (answerCommand) Help() string {
	return `A command of an agent that asks for a password waits for a person. The password is typed here, unseen, and goes to
that command alone: neither the model nor a log is told. From a pipe, one line is read.
`
}

// Run gives a password to the session that asks for one.
func (c answerCommand) Run(ctx context.Context, p *program) error {
	loaded, err := p.load(c.globals)
	if err != nil {
		return err
	}
	all, err := session.AllWaiting(ctx, filepath.Join(loaded.Config.Storage.Data, answersFolder))
	if err != nil {
		return err
	}
	which, err := c.choose(all)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Err, "session %d asks, for %s\n%s ", which.Session, visible(which.Command), visible(which.Prompt))
	password, err := readSecret(p.In)
	fmt.Fprintln(p.Err)
	if err != nil {
		return err
	}
	if err := session.Give(ctx, which, password); err != nil {
		return err
	}
	fmt.Fprintln(p.Err, "answered")
	return nil
}

func (c answerCommand) choose(all []session.Waiting) (session.Waiting, error) {
	var found []session.Waiting
	for _, w := range all {
		if c.Session == 0 || w.Session == c.Session {
			found = append(found, w)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1 && c.Session == 0:
		return session.Waiting{}, usageError{fault.New(fault.Invalid, "%d sessions ask for a password", len(found)).WithTry("hardshell answer %d", found[0].Session)}
	case len(found) > 1:
		return session.Waiting{}, fault.New(fault.Conflict, "%d agents have a session %d that asks", len(found), c.Session)
	case c.Session != 0:
		return session.Waiting{}, fault.New(fault.NotFound, "session %d does not ask for a password", c.Session)
	}
	return session.Waiting{}, fault.New(fault.NotFound, "no session asks for a password")
}

// readSecret reads one line: unseen from a terminal, as it is from elsewhere.
func readSecret(in io.Reader) ([]byte, error) {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		password, err := term.ReadPassword(int(f.Fd()))
		if err != nil {
			return nil, fmt.Errorf("read the password: %w", err)
		}
		return password, nil
	}
	line, err := bufio.NewReader(io.LimitReader(in, 64<<10)).ReadBytes('\n')
	if err != nil && (err != io.EOF || len(line) == 0) {
		return nil, fault.Wrap(fault.Invalid, err, "there is no password on stdin")
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
