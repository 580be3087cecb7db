//go:build !unix

package store

import (
	"os"

	"github.com/hardshell-dev/hardshell/fault"
)

func lockFile(string) (*os.File, error) {
	return nil, fault.New(fault.Unsupported, "A data folder cannot be locked on this system yet.")
}
