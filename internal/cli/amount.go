package cli

import (
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
)

// span is a time on the command line: 30s, 5m, 1h30m.
type span time.Duration

// UnmarshalText reads it. A bare number could be anything, so it is asked for its unit.
func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	switch _, bare := strconv.ParseFloat(string(text), 64); {
	case bare == nil:
		return fault.New(fault.Invalid, "%q has no unit", text).WithTry("%ss, if seconds are meant", text)
	case err != nil:
		return fault.New(fault.Invalid, "%q is not a time", text).WithTry("30s, 5m or 1h30m")
	case d <= 0:
		return fault.New(fault.Invalid, "%q is no time in which anything could be done", text).WithTry("30s; without the flag there is no limit")
	}
	*s = span(d)
	return nil
}

// capacity is a size on the command line: 512mb, 4gb.
type capacity int64

// UnmarshalText reads it.
func (c *capacity) UnmarshalText(text []byte) error {
	n, err := container.ParseMemory(string(text))
	if err != nil {
		return fault.New(fault.Invalid, "%q is not a size", text).WithTry("512mb or 4gb; the least is 16mb")
	}
	*c = capacity(n)
	return nil
}
