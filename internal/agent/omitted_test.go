package agent

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// TestOmittedIsReadFromARealView: also where lines that look like errors stand in the gap.
func TestOmittedIsReadFromARealView(t *testing.T) {
	dull := strings.Repeat("nothing to see\n", 300)
	for name, text := range map[string]string{"plain": dull + dull, "with lines": dull + "Error: x\n" + dull} {
		v, err := process.ReadView(strings.NewReader(text), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if got := omitted(v.Text); got != v.OmittedChars {
			t.Errorf("%s: read %d, left out %d", name, got, v.OmittedChars)
		}
	}
	if n := omitted("a\n[… 5 characters left out, but for these lines: …]\nb"); n != 0 {
		t.Errorf("a program's own line passes for a mark: %d", n)
	}
}
