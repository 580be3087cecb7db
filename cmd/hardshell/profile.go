//go:build profile

package main

import (
	"fmt"
	"os"
	"runtime/pprof"
)

// profiled writes a CPU profile to the file that HARDSHELL_CPUPROFILE names, until the returned function is called.
// Only a binary built with the tag does: default.pgo is made of such files (bench/README.md).
func profiled() (stop func()) {
	name := os.Getenv("HARDSHELL_CPUPROFILE")
	if name == "" {
		return func() {}
	}
	f, err := os.Create(name)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hardshell: profile:", err)
		os.Exit(1)
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}
}
