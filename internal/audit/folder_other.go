//go:build !unix

package audit

import (
	"os"

	"github.com/hardshell-dev/hardshell/fault"
)

const noFollow = 0

// flock refuses: without a lock nothing says that a file has one writer.
func flock(*os.File, bool) error {
	return fault.New(fault.Unsupported, "there is no audit on this operating system yet")
}

func somebodyElses(os.FileInfo) bool { return false }
