package jail

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/container"
)

// TestCommandSurroundings runs commands with a folder, variables and an input of their own.
func TestCommandSurroundings(t *testing.T) {
	s, ctx := limited(t, t.TempDir(), container.Limits{})
	id := create(t, s, ctx)
	do := func(c container.Command) container.Result {
		t.Helper()
		e, err := s.Exec(ctx, org, id, c)
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := do(container.Command{Script: "mkdir -p sub/x; cat; echo $GREETING", Env: map[string]string{"GREETING": "hi; $(id)"}, Stdin: "typed\n"}); r.Stdout.Text != "typed\nhi; $(id)\n" {
		t.Errorf("stdin and a variable: %+v", r)
	}
	if r := do(container.Command{Script: "pwd", Dir: "sub/x"}); r.Stdout.Text != "/mnt/data/sub/x\n" {
		t.Errorf("a folder: %+v", r)
	}
	if r := do(container.Command{Script: "pwd", Dir: "nowhere"}); r.ExitCode == 0 || r.Error == "" {
		t.Errorf("a folder that is not there: %+v", r)
	}
	if r := do(container.Command{Script: "cat; echo end"}); r.Stdout.Text != "end\n" {
		t.Errorf("no input: %+v", r)
	}
}

// TestWholeOutputIsReadableInside: what a view cuts, a later command finds, and cannot change.
func TestWholeOutputIsReadableInside(t *testing.T) {
	s, ctx := limited(t, t.TempDir(), container.Limits{})
	id := create(t, s, ctx)
	r := run(t, s, ctx, id, "seq 100000; echo to-err >&2")
	if r.Stdout.OmittedChars == 0 || !strings.HasPrefix(r.Output, "/mnt/output/") {
		t.Fatalf("cut %d, to be found in %q", r.Stdout.OmittedChars, r.Output)
	}
	at := r.Output
	if r := run(t, s, ctx, id, "sed -n 54321p "+at+"/stdout; wc -l <"+at+"/stdout; cat "+at+"/stderr"); r.Stdout.Text != "54321\n100000\nto-err\n" {
		t.Errorf("read inside: %+v", r)
	}
	for _, attempt := range []string{"echo x >>" + at + "/stdout", "rm -f " + at + "/stdout", "mv " + at + " /mnt/output/other", "touch /mnt/output/new",
		"chmod 777 " + at + "/stdout", "ln " + at + "/stdout /mnt/data/link", "truncate -s 0 " + at + "/exit"} {
		if r := run(t, s, ctx, id, attempt); r.ExitCode == 0 {
			t.Errorf("%s was possible: %+v", attempt, r)
		}
	}
	other := create(t, s, ctx)
	if r := run(t, s, ctx, other, "ls /mnt/output"); strings.Contains(r.Stdout.Text, strings.Split(at, "/")[3]) {
		t.Errorf("another container sees it: %+v", r)
	}
}
