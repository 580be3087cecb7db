package main

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// tick is what the kernel counts processor time in, on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// busy is the processor time that a process has taken, or 0 where the kernel does not say.
func busy(pid int) time.Duration {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(raw, []byte(") ")) // a name may hold blanks
	fields := bytes.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(string(fields[11]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tick
}
