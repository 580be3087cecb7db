package sandbox

import (
	"context"
	"io"
	"path/filepath"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// call is the owner's half of a job: the way from [process.Job] to the resident.
type call struct {
	box     *Box
	job     *process.Job
	number  uint32        // the resident's; 0 until it has answered. Box.mu guards it.
	room    chan struct{} // filled when the resident takes input again
	writing chan struct{} // filled while somebody writes
}

var _ process.Control = (*call)(nil)

func (b *Box) newCall(at string) *call {
	c := &call{box: b, room: make(chan struct{}, 1), writing: make(chan struct{}, 1)}
	c.job = process.Controlled(b.folder(at), c)
	return c
}

// folder is that of a job.
func (b *Box) folder(at string) string {
	if b.once {
		return b.dir
	}
	return filepath.Join(b.dir, jobsName, at)
}

// told is the number under which the resident knows the call; 0 is none.
func (c *call) told() uint32 {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	return c.number
}

// Kill cancels the call.
func (c *call) Kill() {
	if number := c.told(); number != 0 {
		c.box.send(resident.AppendKill(nil, number), nil) // a resident that is gone has killed it
	}
}

// Write gives bytes to the command. What the resident does not take now waits here, with the caller.
func (c *call) Write(ctx context.Context, p []byte) (n int, err error) {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-c.job.Done():
		return 0, ended()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	for {
		part := p[n:min(n+resident.MaxInput, len(p))]
		took, err := c.box.tell(func(request uint32) []byte {
			return resident.Input{Request: request, Job: c.number, Data: part}.Append(nil)
		})
		n += int(took.Bytes)
		if err != nil {
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
		if int(took.Bytes) == len(part) {
			if ctx.Err() != nil {
				return n, context.Cause(ctx)
			}
			continue
		}
		select {
		case <-c.room:
		case <-c.job.Done():
			return n, ended()
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
	}
}

// CloseInput ends the command's stdin.
func (c *call) CloseInput(context.Context) error {
	_, err := c.box.tell(func(request uint32) []byte {
		return resident.CloseInput{Request: request, Job: c.number}.Append(nil)
	})
	return err
}

// Resize gives the command's terminal another size.
func (c *call) Resize(_ context.Context, size process.Size) error {
	_, err := c.box.tell(func(request uint32) []byte {
		return resident.Resize{Request: request, Job: c.number, Rows: uint32(size.Rows), Cols: uint32(size.Cols)}.Append(nil)
	})
	return err
}

// tell sends what message makes, under the box's lock, and waits for the answer. No context cuts that short: the
// resident waits for nobody, and what it took must be counted.
func (b *Box) tell(message func(request uint32) []byte) (resident.Took, error) {
	b.mu.Lock()
	if b.gone != nil {
		defer b.mu.Unlock()
		return resident.Took{}, b.gone
	}
	b.request++
	number, answer := b.request, make(chan resident.Took, 1)
	b.told[number] = answer
	text := message(number)
	b.mu.Unlock()
	if err := b.send(text, nil); err != nil {
		b.mu.Lock()
		delete(b.told, number)
		b.mu.Unlock()
		return resident.Took{}, err
	}
	took, ok := <-answer
	if !ok {
		return took, fault.New(fault.Unavailable, "the sandbox ended")
	}
	return took, refused(took.Refusal)
}

func (b *Box) took(m resident.Took) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer, ok := b.told[m.Request]; ok {
		delete(b.told, m.Request)
		answer <- m
	}
}

func (b *Box) hasRoom(number uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.calls[number]; c != nil {
		select {
		case c.room <- struct{}{}:
		default:
		}
	}
}

func ended() error { return fault.New(fault.Conflict, "the command has ended") }

// refused turns a resident's refusal into an error.
func refused(r resident.Refusal) error {
	switch r {
	case resident.RefusedNot:
		return nil
	case resident.RefusedEnded:
		return ended()
	case resident.RefusedNever:
		return fault.New(fault.Unsupported, "the command was started without an open stdin").WithTry("start it with OpenStdin or a TTY")
	case resident.RefusedClosed:
		return fault.New(fault.Conflict, "the command's stdin is closed")
	case resident.RefusedPipe:
		return fault.New(fault.Unsupported, "the command has no terminal")
	case resident.RefusedTTY:
		return fault.New(fault.Unsupported, "a terminal cannot be closed").WithTry(`type "\x04" (Ctrl-D)`)
	}
	return fault.New(fault.Internal, "the sandbox refused for reason %d", r)
}

// endOfInput is what a person types at the end of a terminal's input.
var endOfInput = []byte{4}

// typeIn copies a command's Stdin into its terminal, and the end of it.
func (c *call) typeIn(r io.Reader) {
	ctx := context.Background() // the call's end ends the writes
	if _, err := io.Copy(c.job.Input(ctx), r); err == nil {
		c.job.Write(ctx, endOfInput)
	}
}
