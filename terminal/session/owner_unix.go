//go:build unix

package session

import (
	"os"
	"syscall"
)

// belongsToUs says whether a file is the user's own.
func belongsToUs(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
