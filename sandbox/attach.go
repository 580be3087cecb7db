package sandbox

// Found is what became of a command.
type Found int

// What can have become of a command.
const (
	Never       Found = iota // it was never started
	Running                  // its call goes on
	Ended                    // its end is known
	Interrupted              // it was started, and its end will never be known
)
