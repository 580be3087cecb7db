//go:build !unix

package shellcall

import (
	"io/fs"
	"os"
)

const nonblock = 0

// give does nothing: files here belong to who makes them.
func give(*os.File, fs.FileInfo) error { return nil }
