//go:build !linux

package cli

// flushInput does nothing: no command is run here, and so none is asked about.
func flushInput(int) {}
