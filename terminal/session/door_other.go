//go:build !linux

package session

// inFolder calls do with the folder's name.
func inFolder(dir string, do func(at string) error) error { return do(dir) }
