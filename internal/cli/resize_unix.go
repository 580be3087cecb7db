//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// resized tells when the terminal may have another size.
func resized() (changes <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}

// keepRunning lets a command that runs in the background and reads nothing end there: without it the first read of
// our stdin, a terminal that is not ours at that time, would stop us.
func keepRunning() { signal.Ignore(syscall.SIGTTIN) }
