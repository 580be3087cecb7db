// Package resident is the other side of a box's control socket: our own binary, re-executed, that confines itself, forks
// the commands, moves their bytes into spool files, enforces their time limits and reaps what they leave behind.
//
// It is not an API for confining anything: package sandbox is. It decides no policy: it is handed a finished plan.
// What holds: a command's key runs at most once, because its folder is made first; bytes go from pipe to spool by
// splice, from a terminal by read and write, and are never lost with the owner; nothing waits for a command that does not
// read; a lower fence than the highest one seen is refused; whatever belongs to a
// call dies with its time-out or cancel, and nothing else does; with its owner gone for longer than the grace time
// the resident kills everything and exits.
//
// The package is dispatched by an init function before the rest of the binary initialises, so it imports little.
package resident
