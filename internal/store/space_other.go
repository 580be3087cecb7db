//go:build !(linux || darwin || freebsd)

package store

func full(string) bool { return false }

func noSpace(error) bool { return false }
