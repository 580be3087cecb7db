package shell

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*KEY*", "API_KEY", true}, {"*KEY*", "api_key_id", true}, {"*KEY*", "KEY", true}, {"*KEY*", "KE", false},
		{"*PATH", "PATH", true}, {"*PATH", "GOPATH", true}, {"*PATH", "PATHEXT", false}, {"PATH", "path", true},
		{"AWS_*", "aws_region", true}, {"AWS_*", "XAWS_REGION", false}, {"", "", true}, {"", "A", false}, {"*", "", true},
		{"?", "", false}, {"?", "A", true}, {"?", "é", true}, {"??", "é", false}, {"A?C", "ABC", true}, {"A?C", "AC", false},
		{"*_?", "A_B", true}, {"a*b*c", "aXbXbXc", true}, {"a*b*c", "aXbXc_", false}, {"**", "x", true}, {"É", "é", true},
		{"[A]", "A", false}, {"[A]", "[a]", true}, {"A.C", "ABC", false}, {"\xff", "\xff", true}, {"\xff", "\xfe", false},
		{"*TOKEN*", "TO\u212aEN", true}, // the Kelvin sign is a k to whoever reads it
	} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

func TestMatchDoesNotExplode(t *testing.T) {
	began := time.Now()
	if Match(strings.Repeat("*a", 200)+"b", strings.Repeat("a", 5000)) {
		t.Error("matched")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("*KEY*", "API_KEY")
	f.Add("a*?b**", "aXYb")
	f.Add("\xff*é", "\xfeÉ")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		got := Match(pattern, name)
		if compile([]string{pattern}).match(name) != got {
			t.Fatalf("compiled, %q says something else of %q", pattern, name)
		}
		if !Match(name, name) || !Match("*", name) || !Match("*"+name+"*", name) {
			t.Fatalf("%q does not match itself", name)
		}
		if got != Match(strings.ReplaceAll(pattern, "*", "**"), name) {
			t.Fatalf("two stars are not one in %q", pattern)
		}
		if strings.IndexFunc(pattern+name, func(r rune) bool { return r > 127 }) >= 0 {
			return
		}
		if got != Match(strings.ToLower(pattern), strings.ToUpper(name)) {
			t.Fatalf("case matters in %q, %q", pattern, name)
		}
		expr := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
		if want := regexp.MustCompile(`(?is)\A` + expr + `\z`).MatchString(name); got != want {
			t.Fatalf("Match(%q, %q) = %v", pattern, name, got)
		}
	})
}
