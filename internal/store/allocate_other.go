//go:build !linux

package store

import "os"

// allocate gives a file real blocks.
func allocate(f *os.File, size int64) error { return writeZeros(f, size) }
