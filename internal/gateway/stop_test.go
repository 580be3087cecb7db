package gateway_test

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/gateway"
)

// However a text is cut into pieces, it is told up to the first stop sequence, and whole where there is none.
func TestStops(t *testing.T) {
	for _, c := range []struct {
		stops []string
		text  string
		told  string
		found string
	}{
		{nil, "all of it", "all of it", ""},
		{[]string{"END"}, "it ENDs", "it ", "END"},
		{[]string{"END"}, "it ENENDs", "it EN", "END"},
		{[]string{"END"}, "it EN", "it EN", ""},
		{[]string{"\n\n", "stop"}, "a\nb stop\n\n", "a\nb ", "stop"},
		{[]string{"aab"}, "aaab", "a", "aab"},
		{[]string{"ü"}, "über", "", "ü"},
	} {
		for size := 1; size <= len(c.text); size++ {
			s := gateway.Stops{Sequences: c.stops}
			var told strings.Builder
			over := false
			for at := 0; at < len(c.text) && !over; at += size {
				var piece string
				piece, over = s.Feed(c.text[at:min(at+size, len(c.text))])
				told.WriteString(piece)
			}
			if !over {
				told.WriteString(s.Rest())
			}
			if told.String() != c.told || s.Found != c.found || over != (c.found != "") {
				t.Errorf("%q in pieces of %d: told %q, found %q", c.text, size, told.String(), s.Found)
			}
		}
	}
}
