package ahead

import (
	"strings"
	"testing"
)

func TestWhatIsLikely(t *testing.T) {
	for line, want := range map[string]bool{
		"hardshell":                                  false,
		"hardshell run":                              false,
		"hardshell doctor --json":                    false,
		"hardshell ask run":                          false,
		"hardshell run ls":                           true,
		"hardshell run -- make full":                 true,
		"hardshell run --sandbox read-only -- ls":    true,
		"hardshell run --network allow:a.com -- ls":  true,
		"hardshell run --network full -- ls":         false,
		"hardshell run --network=full -- ls":         false,
		"hardshell run --sandbox danger-full-access": false,
		"hardshell run --help":                       false,
	} {
		if got := likely(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
