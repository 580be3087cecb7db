package command

import (
	"strings"
	"testing"
	"time"
)

// TestHostileTextIsQuick holds the cost of text that is made to be costly: nothing within the limits may take more than
// seconds (the slack is for a busy machine).
func TestHostileTextIsQuick(t *testing.T) {
	nest := func(open string, n int, middle, shut string) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(shut, n)
	}
	for name, script := range map[string]string{
		"evals":         strings.Repeat("eval eval eval eval eval eval eval x;\n", 250),
		"evals bash":    strings.Repeat("eval eval eval eval eval eval eval 'x <<< y';\n", 250),
		"evals wide":    "eval eval eval eval eval eval eval '" + strings.Repeat("x <<< y;", 4000) + "'",
		"defaults":      nest("${x:-", 2000, "", "}"),
		"substitutions": nest("$(", 1900, "a", ")"),
		"subscripts":    nest("a[$(", 1000, "a", ")]=x"),
		"arithmetic":    nest("echo $(( 1+", 800, "a", "))"),
		"arrays":        nest("a=(", 1000, "a", ")"),
		"words":         strings.Repeat("a ", 60000),
		"git options":   "git " + strings.Repeat("-a ", 40000),
		"rm options":    "sudo rm " + strings.Repeat("-a ", 40000),
		"env -S":        strings.Repeat("env -S '", 3000) + "a",
		"sed":           "sed '" + strings.Repeat("1p;", 40000) + "'",
		"sed escapes":   "sed 's/" + strings.Repeat(`a\`, 60000) + "'",
		"assignments":   strings.Repeat("a=1 ", 30000) + "x",
		"ifs":           nest("if a; then ", 600, "b", "; fi"),
		"find":          "find " + strings.Repeat("-exec a ';' ", 1900),
	} {
		for dialect := Bash; dialect <= Korn; dialect++ {
			begun := time.Now()
			s, err := Parse(script, dialect)
			if err == nil {
				s.Class()
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("%s in dialect %d: %v", name, dialect, took)
			} else if took > 500*time.Millisecond {
				t.Logf("%s in dialect %d: %v", name, dialect, took)
			}
		}
	}
}
