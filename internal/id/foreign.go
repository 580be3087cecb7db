package id

import (
	"regexp"
	"strings"
	"sync"
)

// foreign is what a vendor's ids look like: a word, a dash of either kind, and many letters and digits.
var foreign = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:cntr|cfile|file|resp|msg|rs|fc|sh|sho|apc|apco|call|req|org|proj|skill)[_-][0-9A-Za-z_-]{5,}`)
})

// Foreign rewrites the ids in a text that somebody else wrote: each that ours knows becomes ours, any other is left out. An
// id has a digit in it, as a field's name has not.
func Foreign(text string, ours map[string]string) string {
	return foreign().ReplaceAllStringFunc(text, func(theirs string) string {
		if own, ok := ours[theirs]; ok {
			return own
		}
		if !strings.ContainsAny(theirs, "0123456789") {
			return theirs
		}
		return "[id]"
	})
}
