// Package ambient is what lies around a gateway that holds credentials: its variables, its clock, the services beside
// its machine and the token services behind it; and it keeps what was found there.
//
// It knows no vendor. What holds: nobody waits for a search longer than he wants to, many who ask at once cause one
// search, and no answer of a service gets into an error.
package ambient

import (
	"os"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// Env is the environment of a process. The zero value is the real one.
type Env struct {
	Getenv func(string) string // nil: os.Getenv
	Now    func() time.Time    // nil: time.Now
}

// Get is a variable's value.
func (e Env) Get(name string) string {
	if e.Getenv != nil {
		return e.Getenv(name)
	}
	return os.Getenv(name)
}

// Time is what the clock says.
func (e Env) Time() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now()
}

// None is the fault for credentials that are not there, or no good.
func None(format string, args ...any) *fault.Error {
	return fault.New(fault.Upstream, format, args...).WithCode("server_error")
}

// Unread is None for a file that cannot be read.
func Unread(cause error, format string, args ...any) *fault.Error {
	return fault.Wrap(fault.Upstream, cause, format, args...).WithCode("server_error")
}
