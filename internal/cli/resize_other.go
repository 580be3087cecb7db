//go:build !unix

package cli

import "os"

// resized never tells: this system has no signal for it.
func resized() (changes <-chan os.Signal, stop func()) { return nil, func() {} }

func keepRunning() {}
