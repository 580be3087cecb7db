package cli

import "golang.org/x/sys/unix"

// flushInput forgets what was typed into a terminal and not read.
func flushInput(fd int) { unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) } // of what is no terminal there is nothing to forget
