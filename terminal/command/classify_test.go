package command

import (
	"os"
	"strings"
	"testing"
)

// cases reads a table of "word, two spaces, command".
func cases(tb testing.TB, file string) (out [][2]string) {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, ok := strings.Cut(line, "  ")
		if !ok {
			tb.Fatalf("no two spaces in %q", line)
		}
		out = append(out, [2]string{word, strings.ReplaceAll(rest, `\n`, "\n")})
	}
	return out
}

func TestOrdinaryCommands(t *testing.T) {
	table := cases(t, "testdata/ordinary.txt")
	if len(table) < 150 {
		t.Fatalf("%d cases; 150 are asked", len(table))
	}
	for _, c := range table {
		s, err := Parse(c[1], Bash)
		if err != nil {
			t.Errorf("%s: %v", c[1], err)
			continue
		}
		if class, why := s.Classify(); class.String() != c[0] {
			t.Errorf("%q is %v, want %s\n  %s", c[1], class, c[0], strings.Join(why, "\n  "))
		}
		posix, err := Parse(c[1], POSIX)
		if err != nil || posix.Class() < s.Class() {
			t.Errorf("%q is milder for sh: %v, %v", c[1], posix.Class(), err)
		}
	}
}
