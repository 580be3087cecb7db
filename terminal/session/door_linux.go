package session

import (
	"fmt"
	"os"
)

// inFolder calls do with a short name for a folder: a socket's address holds a hundred bytes.
func inFolder(dir string, do func(at string) error) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
