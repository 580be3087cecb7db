package sandbox

import (
	"io"
	"os"

	"github.com/hardshell-dev/hardshell/fault"
	"golang.org/x/sys/unix"
)

// input is a command's standard input on its way: always a pipe of its own, so that no descriptor of ours, and no
// terminal, gets into a box.
type input struct {
	child int // what the command reads; -1 is none
	ours  *os.File
}

func openInput(r io.Reader, uid int) (*input, error) {
	if r == nil {
		return &input{child: -1}, nil
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "no pipe for the command's input")
	}
	if os.Geteuid() == 0 {
		unix.Fchown(p[0], uid, uid) // so that it can open /dev/stdin
	}
	unix.SetNonblock(p[1], true)
	return &input{child: p[0], ours: os.NewFile(uintptr(p[1]), "stdin")}, nil
}

func (in *input) rights() []byte {
	if in.child < 0 {
		return nil
	}
	return unix.UnixRights(in.child)
}

// feed copies to the command until either side ends. A reader that never ends keeps its goroutine.
func (in *input) feed(r io.Reader) {
	w := in.ours
	if w == nil {
		return
	}
	in.ours = nil
	go func() {
		defer w.Close()
		io.Copy(w, r) // a command that reads no more ends it; that is no error of anybody's
	}()
}

func (in *input) close() {
	if in.child >= 0 {
		unix.Close(in.child)
	}
	if in.ours != nil {
		in.ours.Close()
	}
}
