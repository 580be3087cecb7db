package resident

import "golang.org/x/sys/unix"

// chance is how likely this process is to be ended when memory is short, beside its size. Commands inherit a greater one:
// in a box whose memory is full, the resident must not be the largest of many small processes, since all end with it.
// A command can take its own back to ours, and no further; then its box may end, and nothing else.
type chance struct {
	fd    int // of the file that says it; -1 is none
	usual int
}

// chances is this process's own.
var chances = chance{fd: -1}

// moreLikely is by how much, in thousandths of the memory there is.
const moreLikely = 500

// open must come before we are undumpable, which who becomes another uid is too: then the file is no longer ours.
func (c *chance) open() {
	fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	var b [16]byte
	n, err := unix.Read(fd, b[:])
	if err != nil || n < 2 || b[0] == '-' { // below 0 it was protected by somebody else, and commands are too
		unix.Close(fd)
		return
	}
	c.fd, c.usual = fd, number(append(b[:n-1:n-1], 0))
}

func (c *chance) set(more int) {
	if c.fd >= 0 {
		unix.Pwrite(c.fd, []byte(decimal(int64(min(c.usual+more, 1000)))), 0)
	}
}
