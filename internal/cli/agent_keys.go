package cli

import (
	"context"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/hardshell-dev/hardshell/fault"
)

// keyboard is the terminal that an agent's questions are answered at. It is opened once and read by one goroutine: a
// question that was withdrawn must not keep a reader there, who would take the next one's answer.
type keyboard struct {
	once  sync.Once
	file  *os.File
	err   error
	typed chan []byte
}

// asker asks one question, until its context ends.
func (k *keyboard) asker(ctx context.Context) (*asker, error) {
	k.once.Do(k.open)
	if k.err != nil {
		return nil, k.err
	}
	size := func() (int, int) {
		cols, rows, err := term.GetSize(int(k.file.Fd()))
		if err != nil {
			return 24, 80
		}
		return rows, cols
	}
	flush := func() {
		flushInput(int(k.file.Fd()))
		for {
			select {
			case _, ok := <-k.typed:
				if !ok {
					return
				}
			default:
				return
			}
		}
	}
	return &asker{&question{k: k, ctx: ctx}, k.file, size, flush}, nil
}

func (k *keyboard) open() {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		k.err = fault.Wrap(fault.Invalid, err, "there is no terminal to ask on").WithTry("--approval never, and rules for what may run")
		return
	}
	k.file, k.typed = f, make(chan []byte)
	go func() {
		defer close(k.typed)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			if n > 0 {
				k.typed <- append([]byte(nil), buf[:n]...)
			}
			if err != nil {
				return
			}
		}
	}()
}

// question is what is typed while one question stands.
type question struct {
	k    *keyboard
	ctx  context.Context
	rest []byte
}

// Read waits for the person, or for the end of the question.
func (q *question) Read(p []byte) (int, error) {
	if len(q.rest) == 0 {
		select {
		case typed, ok := <-q.k.typed:
			if !ok {
				return 0, io.EOF
			}
			q.rest = typed
		case <-q.ctx.Done():
			return 0, errNoLine
		}
	}
	n := copy(p, q.rest)
	q.rest = q.rest[n:]
	return n, nil
}
