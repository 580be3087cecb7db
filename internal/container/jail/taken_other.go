//go:build !unix

package jail

import "io/fs"

// taken is what a file takes on the disk.
func taken(info fs.FileInfo) int64 { return info.Size() }
