// Package ahead begins the sandbox of a `hardshell run` before the rest of the program is initialised, which takes as
// long as a sandbox's first half.
//
// It decides nothing: a sandbox that was begun and does not fit what the command line turns out to ask is thrown away.
package ahead
