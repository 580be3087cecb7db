package resident

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// direntName is where the name begins in a directory entry.
const direntName = 19

// eachProcess calls do with the number of each process in sight, until it says false.
func eachProcess(do func(pid int) bool) { eachNumber("/proc", do) }

// eachNumber calls do with each name of a folder that is a number, until it says false.
func eachNumber(path string, do func(n int) bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	eachName(fd, func(name []byte) bool {
		n := number(name)
		return n == 0 || do(n)
	})
}

// eachName calls do with each name of an open folder, a NUL behind it, until it says false.
func eachName(fd int, do func(name []byte) bool) {
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return
		}
		for b := buf[:n]; len(b) > direntName; {
			length := int(binary.NativeEndian.Uint16(b[16:]))
			if !do(b[direntName:length]) {
				return
			}
			b = b[length:]
		}
	}
}

// number reads a decimal name up to its NUL; 0 if it is none.
func number(b []byte) (n int) {
	for _, c := range b {
		if c == 0 {
			return n
		}
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}
