package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// desk is a terminal with a person at it, who runs hardshell.
type desk struct {
	*testing.T
	keys    *os.File // what the person types into and reads from
	line    *os.File // what the program has
	program *exec.Cmd
	mu      sync.Mutex
	seen    bytes.Buffer
	drained chan struct{}
}

func sitDown(t *testing.T, rows, cols uint16) *desk {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.Feature(t, "pty", err)
	d := &desk{T: t, keys: keys, drained: make(chan struct{})}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	d.must(err)
	d.must(unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	d.line, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	d.must(err)
	d.resize(rows, cols)
	go func() {
		defer close(d.drained)
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			d.mu.Lock()
			d.seen.Write(buf[:n])
			d.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		d.line.Close()
		<-d.drained
		keys.Close()
	})
	return d
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *desk) resize(rows, cols uint16) {
	d.Helper()
	d.must(unix.IoctlSetWinsize(int(d.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}))
}

// run starts hardshell as a shell would, in the foreground of the terminal.
func (d *desk) run(args ...string) {
	d.Helper()
	d.program = exec.Command("hardshell", args...)
	d.program.Dir = d.TempDir()
	d.program.Stdin, d.program.Stdout, d.program.Stderr = d.line, d.line, d.line
	d.program.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	d.must(d.program.Start())
	d.Cleanup(func() { d.program.Process.Kill() })
}

func (d *desk) types(text string) {
	d.Helper()
	_, err := d.keys.WriteString(text)
	d.must(err)
}

// sees waits until the screen has shown a text.
func (d *desk) sees(text string) {
	d.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		d.mu.Lock()
		seen := d.seen.String()
		d.mu.Unlock()
		if strings.Contains(seen, text) {
			return
		}
		if time.Now().After(deadline) {
			d.Fatalf("no %q on the screen, but %q", text, seen)
		}
	}
}

// ends waits for the program's exit code.
func (d *desk) ends(code int) {
	d.Helper()
	err := d.program.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.Fatal(err)
	}
	if got := d.program.ProcessState.ExitCode(); got != code {
		d.Errorf("exit %d, want %d", got, code)
	}
}

// modes are the terminal's, as far as raw mode changes them.
func (d *desk) modes() [4]uint32 {
	d.Helper()
	t, err := unix.IoctlGetTermios(int(d.line.Fd()), unix.TCGETS)
	d.must(err)
	return [4]uint32{t.Iflag, t.Oflag, t.Cflag, t.Lflag}
}

func TestRunInATerminal(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	d := sitDown(t, 31, 97)
	before := d.modes()
	d.run("run", "--tty", "--", "bash", "-c", `trap 'echo "<interrupted>"' INT
		trap 'echo "<now $(stty size)>"' WINCH
		echo "<up $(stty size)>"; until read -r -t 1 line; do :; done; echo "<read $line>"; exit 7`)
	d.sees("<up 31 97>")
	if d.modes() == before {
		t.Error("the terminal is not raw: keys do not reach the command")
	}
	d.resize(40, 120)
	d.sees("<now 40 120>")
	d.types("\x03") // the command's, not ours
	d.sees("<interrupted>")
	d.types("hello\r")
	d.sees("<read hello>")
	d.ends(7)
	d.sees("hardshell: exit 7 · ")
	if after := d.modes(); after != before {
		t.Errorf("the terminal's modes were %x and are %x", before, after)
	}
}

// A terminal must be usable after any end that the program lives to see.
func TestRunGivesTheTerminalBack(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	for _, test := range []struct {
		name string
		end  func(d *desk)
		code int
	}{
		{"SIGTERM", func(d *desk) { d.must(d.program.Process.Signal(syscall.SIGTERM)) }, 143},
		{"SIGHUP", func(d *desk) { d.must(d.program.Process.Signal(syscall.SIGHUP)) }, 129},
		{"two signals", func(d *desk) {
			d.must(d.program.Process.Signal(syscall.SIGTERM))
			d.program.Process.Signal(syscall.SIGTERM) // it may be over already
		}, 143},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := sitDown(t, 24, 80)
			before := d.modes()
			d.run("run", "--tty", "--", "bash", "-c", "echo up; exec sleep 1000")
			d.sees("up")
			test.end(d)
			d.ends(test.code)
			if after := d.modes(); after != before {
				t.Errorf("the terminal's modes were %x and are %x", before, after)
			}
		})
	}
}

// Without --tty the command has pipes, and Ctrl-C is ours: the command is ended.
func TestCtrlCEndsACommandWithoutATerminal(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	d := sitDown(t, 24, 80)
	d.run("run", "--", "bash", "-c", "[ -t 0 ] || echo no terminal; exec sleep 1000")
	d.sees("no terminal")
	d.types("\x03")
	d.ends(130)
	d.sees("hardshell: exit 130 (cancelled) · ")
}
