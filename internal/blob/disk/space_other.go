//go:build !unix

package disk

func noSpace(error) bool { return false }
