//go:build !linux

package container

import (
	"io/fs"
	"path/filepath"
)

// diskRoom: only the limit of each container is held here.
func diskRoom(string) (free, total int64, ok bool) { return 1 << 62, 0, true }

// diskUsed is the sum of a tree's file sizes.
func diskUsed(dir string) (int64, error) {
	var bytes int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile
		}
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes, err
}
