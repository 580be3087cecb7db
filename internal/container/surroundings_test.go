package container

import (
	"slices"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

func TestWhatACommandStartsWith(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	start := func(cmd Command) {
		t.Helper()
		cmd.Script = "true"
		e, err := b.Exec(b.ctx, "org", c.ID, cmd)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Wait(b.ctx); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{"": "/mnt/data", "sub/x": "/mnt/data/sub/x", "../../etc": "/etc", "/tmp": "/tmp", "/": "/"} {
		start(Command{Dir: dir})
		if got := b.fake.last; got.Dir != want || !slices.Contains(got.Env, "PWD="+want) {
			t.Errorf("%q: starts in %s with %q", dir, got.Dir, got.Env)
		}
	}
	start(Command{Env: map[string]string{"PATH": "/mine", "A": "1 $(x)"}, Stdin: "in"})
	got := b.fake.last
	if n := slices.Index(got.Env, "PATH=/mine"); n < 0 || !slices.Contains(got.Env, "A=1 $(x)") || got.Stdin == nil {
		t.Errorf("started with %+v", got)
	}
	seen := map[string]bool{}
	for _, entry := range got.Env {
		name := entry[:slices.Index([]byte(entry), '=')]
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
	}
	for _, bad := range []Command{{Env: map[string]string{"1A": "x"}}, {Env: map[string]string{"A B": "x"}}, {Env: map[string]string{"": "x"}},
		{Env: map[string]string{"A=": "x"}}, {Env: map[string]string{"A": "x\x00"}}, {Dir: "a\x00b"}} {
		bad.Script = "true"
		_, err := b.Exec(b.ctx, "org", c.ID, bad)
		wantFault(t, err, fault.Invalid, "")
	}
}
