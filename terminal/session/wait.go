package session

import (
	"regexp"
	"time"
)

// The longest waits. What is asked beyond is shortened, and the snapshot says so.
const (
	DefaultCeiling = 10 * time.Minute // of a wait for something, when none is given
	MaxCeiling     = time.Hour
)

// Wait says how long a [Session.Collect] takes.
type Wait struct {
	// Yield is how long to gather output, measured from the session's start or the last write, whichever this call
	// answers; for a call that answers neither, from now. It ends early when the command ends, or when it stands at a
	// prompt that was not there before. It counts only without Until.
	Yield time.Duration
	// Until is what to wait for instead; the first that happens ends the wait. The end of the command, and somebody
	// having to type, always do.
	Until Until
	// Ceiling bounds a wait for something; 0 is DefaultCeiling.
	Ceiling time.Duration
	// Longest is the door's own bound, such as a client's patience; 0 is none. Beyond it Yield and Ceiling are
	// shortened, and the snapshot says so.
	Longest time.Duration
}

// Until names what a wait ends with. Fields that are zero are not waited for.
type Until struct {
	Exit    bool           // the command's end; in an interactive shell, its prompt
	Pattern *regexp.Regexp // somewhere in a line of the text, as it is shown
	Port    uint16         // of the session's own network: somebody listens on it
	Quiet   time.Duration  // no output for so long
}

func (u Until) something() bool { return u.Exit || u.Pattern != nil || u.Port != 0 || u.Quiet > 0 }
