package command

import (
	"regexp"
	"sync"
)

// expression is a regular expression that is compiled when it is first used: a program that has this package may never
// read a command line, and starts with it all the same.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
