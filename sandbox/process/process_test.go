package process

import (
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

func TestValidate(t *testing.T) {
	good := Command{Key: "call_1.2-x", Argv: []string{"/bin/true"}, Env: []string{"PATH=/bin", "EMPTY="}}
	tests := []struct {
		name   string
		change func(*Command)
		want   fault.Kind // Internal stands for "accepted"
	}{
		{"good", func(c *Command) {}, fault.Internal},
		{"no key", func(c *Command) { c.Key = "" }, fault.Invalid},
		{"a path as key", func(c *Command) { c.Key = "a/b" }, fault.Invalid},
		{"dot dot", func(c *Command) { c.Key = ".." }, fault.Invalid},
		{"a long key", func(c *Command) { c.Key = strings.Repeat("k", 101) }, fault.Invalid},
		{"the longest key", func(c *Command) { c.Key = strings.Repeat("k", 100) }, fault.Internal},
		{"a NUL key", func(c *Command) { c.Key = "a\x00" }, fault.Invalid},
		{"negative index", func(c *Command) { c.Index = -1 }, fault.Invalid},
		{"no argv", func(c *Command) { c.Argv = nil }, fault.Invalid},
		{"empty program", func(c *Command) { c.Argv = []string{""} }, fault.Invalid},
		{"empty argument", func(c *Command) { c.Argv = append(c.Argv, "") }, fault.Internal},
		{"NUL argument", func(c *Command) { c.Argv = append(c.Argv, "a\x00b") }, fault.Invalid},
		{"the longest argument", func(c *Command) { c.Argv = append(c.Argv, strings.Repeat("a", maxArgument-1)) }, fault.Internal},
		{"a longer one", func(c *Command) { c.Argv = append(c.Argv, strings.Repeat("a", maxArgument)) }, fault.TooLarge},
		{"variable without value", func(c *Command) { c.Env = []string{"PATH"} }, fault.Invalid},
		{"variable without name", func(c *Command) { c.Env = []string{"=x"} }, fault.Invalid},
		{"NUL variable", func(c *Command) { c.Env = []string{"A=\x00"} }, fault.Invalid},
		{"a long variable", func(c *Command) { c.Env = []string{"A=" + strings.Repeat("a", maxArgument)} }, fault.TooLarge},
		{"NUL folder", func(c *Command) { c.Dir = "/a\x00" }, fault.Invalid},
		{"negative time-out", func(c *Command) { c.Timeout = -time.Second }, fault.Invalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := good
			tt.change(&c)
			err := c.Validate()
			if (err == nil) != (tt.want == fault.Internal) || fault.KindOf(err) != tt.want {
				t.Errorf("Validate() = %v, want %v", err, tt.want)
			}
		})
	}
}
