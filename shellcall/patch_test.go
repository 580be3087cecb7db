package shellcall

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// patch applies an operation and returns its output.
func (r *rig) patch(kind, path, diff string) PatchOutput {
	r.t.Helper()
	out, err := r.e.Patch(r.t.Context(), PatchCall{CallID: "p", Operation: Operation{kind, path, diff}})
	if err != nil {
		r.t.Fatalf("%s %s: %v", kind, path, err)
	}
	if out.Type != TypePatchOutput || out.CallID != "p" {
		r.t.Errorf("%+v", out)
	}
	return out
}

func TestPatch(t *testing.T) {
	r := newRig(t, nil)
	for _, step := range []struct{ kind, path, diff, want string }{
		{CreateFile, "a/b/c.txt", "+one\n+two", "Created a/b/c.txt (2 lines)."},
		{UpdateFile, "a/b/c.txt", " one\n-two\n+2\n+3", "Updated a/b/c.txt (+2 -1)."},
		{UpdateFile, filepath.Join(r.work, "a/b/c.txt"), "-one\n+1", "Updated a/b/c.txt (+1 -1)."},
		{CreateFile, "./x", "", "Created x (0 lines)."},
		{DeleteFile, "x", "", "Deleted x."},
	} {
		if got := r.patch(step.kind, step.path, step.diff); got.Status != PatchCompleted || got.Output != step.want {
			t.Errorf("%s %s: %+v", step.kind, step.path, got)
		}
	}
	if got := r.read("a/b/c.txt"); got != "1\n2\n3\n" {
		t.Errorf("%q", got)
	}
	if r.exists("x") {
		t.Error("x is still there")
	}
	// A mode stays, and nothing else is left behind.
	r.write("run.sh", "echo a\n")
	if err := os.Chmod(filepath.Join(r.work, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.patch(UpdateFile, "run.sh", "-echo a\n+echo b")
	if info, err := os.Stat(filepath.Join(r.work, "run.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if got := r.one("./run.sh; ls -A"); got.Stdout != "b\na\nrun.sh\n" {
		t.Errorf("what a command sees: %s", say(got))
	}
	if told := eventsOf[Patched](r.seen); len(told) != 6 || told[1].Added != 2 || told[1].Removed != 1 || told[1].Operation.Path != "a/b/c.txt" {
		t.Errorf("%+v", told)
	}
}

// Whatever cannot be done changes nothing, and says what and why.
func TestAPatchThatFails(t *testing.T) {
	r := newRig(t, nil)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.write("f", "one\n")
	r.write("data", "\x00\x01")
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(r.work, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(secret, "link")
	link(outside, "dirlink")
	link("f", "inner")
	link("/etc", "etc")
	for _, dir := range []string{"sub", ".git/hooks", "nested/.git", "other.git/objects", "other.git/refs", "other.git/hooks"} {
		if err := os.MkdirAll(filepath.Join(r.work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.write("other.git/HEAD", "ref: refs/heads/main\n")
	r.write("other.git/config", "one\n")
	link(".git", "gitlink")
	up := strings.Repeat("../", 40) + secret[1:]
	for _, test := range []struct{ kind, path, diff, why string }{
		{CreateFile, "f", "+x", "it is there already"},
		{CreateFile, "link", "+x", "it is there already"},
		{CreateFile, "sub", "+x", "it is there already"},
		{CreateFile, "f/g", "+x", ""},
		{CreateFile, "new", "x", "every line begins with +"},
		{UpdateFile, "absent", "+x", "no such file"},
		{UpdateFile, "absent/f", "-one\n+x", "no such file"},
		{DeleteFile, "absent/f", "", "no such file"},
		{UpdateFile, "f", "-two\n+x", "its lines are not in the file"},
		{UpdateFile, "f", "", "empty"},
		{UpdateFile, "sub", "+x", "a folder"},
		{UpdateFile, "data", "+x", "no text"},
		{DeleteFile, "absent", "", "no such file"},
		{DeleteFile, "sub", "", "a folder"},
		{"rename_file", "f", "", "no operation"},
		// out of the workspace
		{UpdateFile, secret, "-one\n+x", "outside of the workspace"},
		{UpdateFile, up, "-one\n+x", "outside of the workspace"},
		{UpdateFile, "sub/../../" + filepath.Base(r.work) + "/f", "-one\n+x", "outside of the workspace"},
		{UpdateFile, "link", "-one\n+x", "a symbolic link"},
		{DeleteFile, "link", "", "a symbolic link"},
		{UpdateFile, "inner", "-one\n+x", "a symbolic link"},
		{UpdateFile, "dirlink/secret", "-one\n+x", ""},
		{DeleteFile, "dirlink/secret", "", ""},
		{CreateFile, "dirlink/new", "+x", ""},
		{CreateFile, "etc/new/deep", "+x", ""},
		{CreateFile, "", "+x", "no path"},
		{CreateFile, ".", "+x", "a folder"},
		{CreateFile, "sub/", "+x", "a folder"},
		{CreateFile, "a\x00b", "+x", "no path"},
		// what the user's own tools obey
		{CreateFile, ".git/hooks/pre-commit", "+x", ".git is not an agent's"},
		{CreateFile, "sub/.git/config", "+x", ".git is not an agent's"},
		{CreateFile, ".GIT/config", "+x", ".git is not an agent's"},
		{CreateFile, "gitlink/hooks/pre-commit", "+x", ".git is not an agent's"},
		{CreateFile, "gitlink/new/deep/er", "+x", ".git is not an agent's"},
		{CreateFile, ".hardshell/rules.toml", "+x", "not an agent's"},
		{CreateFile, "hardshell.toml", "+x", "not an agent's"},
		{UpdateFile, "other.git/config", "-one\n+x", "the sandbox protects it"},
		{CreateFile, "other.git/hooks/pre-commit", "+x", "the sandbox protects it"},
	} {
		got := r.patch(test.kind, test.path, test.diff)
		if got.Status != PatchFailed || !strings.Contains(got.Output, test.why) || !strings.Contains(got.Output, " was not changed: ") {
			t.Errorf("%s %q: %+v, want %s", test.kind, test.path, got, test.why)
		}
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "one\n" {
		t.Errorf("the file outside: %q, %v", text, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if got := r.read("f"); got != "one\n" {
		t.Errorf("%q", got)
	}
	if got := r.one("ls -A; ls -A sub .git/hooks"); strings.Contains(got.Stdout, "hardshell-") || strings.Contains(got.Stdout, "pre-commit") {
		t.Error(say(got))
	}
}

func TestWhoMayPatch(t *testing.T) {
	untrusted := terminal.AskFor(approval.Policy{Ask: approval.UnlessTrusted})
	yes, no := &person{review: terminal.Review{Decision: terminal.Approved}}, &person{review: terminal.Review{Decision: terminal.Denied}}
	for _, test := range []struct {
		name, why string
		change    func(*Options)
	}{
		{"a person", "", func(o *Options) { o.Terminal.ApprovalPolicy, o.Terminal.Approver = untrusted, yes }},
		{"a person says no", "the person said no", func(o *Options) { o.Terminal.ApprovalPolicy, o.Terminal.Approver = untrusted, no }},
		{"nobody to ask", "nobody to ask", func(o *Options) { o.Terminal.ApprovalPolicy = untrusted }},
		{"read-only", "read-only", func(o *Options) { o.Terminal.SandboxPolicy.Mode = sandbox.ReadOnly }},
		{"an allow list", "not on the allow list", func(o *Options) { o.Allow = []string{"ls"} }},
		{"an allow list with it", "", func(o *Options) { o.Allow = []string{"ls", "apply_patch"} }},
		{"the deny list", "on the deny list", func(o *Options) { o.Deny = []string{"apply_patch"} }},
		{"what is hidden", "hidden", func(o *Options) { o.Terminal.SandboxPolicy.Hidden = []string{filepath.Join(o.Terminal.Cwd, "f")} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, test.change)
			got := r.patch(CreateFile, "f", "+x")
			if (got.Status == PatchCompleted) != (test.why == "") || !strings.Contains(got.Output, test.why) || r.exists("f") != (test.why == "") {
				t.Errorf("%+v", got)
			}
		})
	}
	if len(yes.asked) != 1 || yes.asked[0].Tool != patchTool || strings.Join(yes.asked[0].Lines, "\n") != "create_file f\n+x" {
		t.Errorf("%+v", yes.asked)
	}
}

// A file that somebody changes between the reading and the writing is not overwritten.
func TestAFileThatChangesMeanwhile(t *testing.T) {
	r := newRig(t, nil)
	r.write("f", "one\n")
	c, err := r.e.prepare(t.Context(), Operation{UpdateFile, "f", "-one\n+1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	r.write("f", "one and more\n")
	if err := c.commit(); err == nil || !strings.Contains(err.Error(), "meanwhile") {
		t.Error(err)
	}
	if c, err = r.e.prepare(t.Context(), Operation{CreateFile, "g", "+x"}); err != nil {
		t.Fatal(err)
	}
	defer c.close()
	r.write("g", "theirs\n")
	if err := c.commit(); err == nil || r.read("g") != "theirs\n" {
		t.Errorf("%v, %q", err, r.read("g"))
	}
	if got := r.one("ls -A"); got.Stdout != "f\ng\n" {
		t.Error(say(got))
	}
}

// A folder that becomes a link between the reading and the writing takes no patch to where none may go.
func TestAFolderThatBecomesALink(t *testing.T) {
	r := newRig(t, nil)
	for _, dir := range []string{"a", "b", ".git"} {
		if err := os.Mkdir(filepath.Join(r.work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.write("a/f", "one\n")
	r.write(".git/f", "one\n")
	for _, test := range []struct{ dir, moved string }{{"a", "was-a"}, {"b", "was-b"}} {
		o := Operation{CreateFile, test.dir + "/new/g", "+x"}
		if test.dir == "a" {
			o = Operation{UpdateFile, "a/f", "-one\n+1"}
		}
		c, err := r.e.prepare(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		at := filepath.Join(r.work, test.dir)
		if err := errors.Join(os.Rename(at, filepath.Join(r.work, test.moved)), os.Symlink(".git", at)); err != nil {
			t.Fatal(err)
		}
		if err := c.commit(); err != nil {
			t.Errorf("%s: %v", test.dir, err)
		}
	}
	if r.read(".git/f") != "one\n" || r.exists(".git/new") {
		t.Error("the patch went by the link")
	}
	if r.read("was-a/f") != "1\n" || r.read("was-b/new/g") != "x\n" {
		t.Error("the patch is not where its folder is")
	}
	// A folder to be made that is a link by then is refused.
	c, err := r.e.prepare(t.Context(), Operation{CreateFile, "c/g", "+x"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := os.Symlink(".git", filepath.Join(r.work, "c")); err != nil {
		t.Fatal(err)
	}
	if err := c.commit(); err == nil || r.exists(".git/g") {
		t.Errorf("%v", err)
	}
}
