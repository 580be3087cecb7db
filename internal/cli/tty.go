package cli

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// tty is the person's own terminal while a command in a terminal of its own uses it: what is typed goes to the
// command as it is, Ctrl-C too, and the command's terminal has the size of this one.
type tty struct {
	files []*os.File // our streams that are terminals; stdin, if it is one, first
	typed *os.File   // stdin, if it is a terminal
}

func openTTY(s Streams) *tty {
	var found tty
	for i, stream := range []any{s.In, s.Out, s.Err} {
		f, ok := stream.(*os.File)
		if !ok || !term.IsTerminal(int(f.Fd())) {
			continue
		}
		found.files = append(found.files, f)
		if i == 0 {
			found.typed = f
		}
	}
	return &found
}

// size is the terminal's, and the usual one where there is none.
func (t *tty) size() process.Size {
	for _, f := range t.files {
		if cols, rows, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 && rows > 0 {
			return process.Size{Rows: uint16(min(rows, 1<<16-1)), Cols: uint16(min(cols, 1<<16-1))}
		}
	}
	return process.Size{}
}

// raw makes the terminal hand over every key, until back is called; back may be called more than once.
func (t *tty) raw() (back func(), err error) {
	if t.typed == nil {
		return func() {}, nil
	}
	fd := int(t.typed.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { term.Restore(fd, before) }, nil
}

// follow keeps the job's terminal at the size of ours until the context ends.
func (t *tty) follow(ctx context.Context, job *process.Job) {
	changes, stop := resized()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-job.Done():
			return
		case <-changes:
			job.Resize(ctx, t.size()) // refused only when the job has ended
		}
	}
}

// keys are what is typed, or read from a pipe in its place.
func (t *tty) keys(in io.Reader) io.Reader {
	if t.typed == nil {
		return in
	}
	return endless{in}
}

// endless turns the end of a terminal's input into silence: in raw mode Ctrl-D is a key like any other, so an end
// means that the terminal is gone, and of that SIGHUP tells.
type endless struct{ io.Reader }

func (e endless) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		err = os.ErrClosed
	}
	return n, err
}
