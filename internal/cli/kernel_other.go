//go:build !linux

package cli

// kernel is asked for on Linux only.
func kernel() string { return "not Linux" }
