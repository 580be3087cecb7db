//go:build !unix

package session

import "os"

// belongsToUs cannot be told here, so it is not so: nobody answers.
func belongsToUs(os.FileInfo) bool { return false }
