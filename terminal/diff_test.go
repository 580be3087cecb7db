package terminal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestATurnsChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "kept", "same\n")
	write(t, dir, "changed", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	write(t, dir, "deleted", "gone\n")
	write(t, dir, "binary", "a\x00b")
	write(t, dir, "mode", "#!/bin/sh\n")
	write(t, dir, ".git/HEAD", "ref\n")
	tracker := NewTurnDiffTracker(dir)
	if changes, err := tracker.Changes(); len(changes) != 0 || err != nil {
		t.Errorf("without a baseline: %v %v", changes, err)
	}
	if err := tracker.Baseline(); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "changed", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n")
	write(t, dir, "sub/new", "a\nb")
	write(t, dir, "binary", "a\x00c")
	write(t, dir, ".git/HEAD", "other\n")
	for _, err := range []error{os.Remove(filepath.Join(dir, "deleted")), os.Chmod(filepath.Join(dir, "mode"), 0o755), os.Symlink("/etc/passwd", filepath.Join(dir, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tracker.Baseline(); err != nil { // the second look of a turn changes nothing
		t.Fatal(err)
	}
	got, err := tracker.UnifiedDiff()
	if err != nil {
		t.Fatal(err)
	}
	want := `diff --git a/binary b/binary
Binary or large files a/binary and b/binary differ
diff --git a/changed b/changed
--- a/changed
+++ b/changed
@@ -2,7 +2,7 @@
 2
 3
 4
-5
+five
 6
 7
 8
diff --git a/deleted b/deleted
deleted file mode 100644
--- a/deleted
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/link b/link
new file mode 120000
--- /dev/null
+++ b/link
@@ -0,0 +1 @@
+/etc/passwd
\ No newline at end of file
diff --git a/mode b/mode
old mode 100644
new mode 100755
diff --git a/sub/new b/sub/new
new file mode 100644
--- /dev/null
+++ b/sub/new
@@ -0,0 +1,2 @@
+a
+b
\ No newline at end of file
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPatchesApply makes random files of few different lines and has git turn each into the other by our patch.
func TestPatchesApply(t *testing.T) {
	git, err := exec.LookPath("git")
	require.Feature(t, "git", err)
	random := rand.New(rand.NewPCG(1, 2))
	file := func() string {
		var b strings.Builder
		for range random.IntN(40) {
			fmt.Fprintf(&b, "%d\n", random.IntN(6))
		}
		if random.IntN(4) == 0 {
			b.WriteString("no end")
		}
		return b.String()
	}
	dir := t.TempDir()
	var patch strings.Builder
	want := map[string]string{}
	for n := range 300 {
		name := fmt.Sprintf("f%d", n)
		before, after := file(), file()
		write(t, dir, name, before)
		want[name] = after
		if before == after {
			continue
		}
		patch.WriteString(fileDiff(name, tracked{text: []byte(before), kept: true}, tracked{text: []byte(after), kept: true}, true, true))
	}
	cmd := exec.CommandContext(t.Context(), git, "apply", "--unidiff-zero", "-")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch.String())
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s: %q, want %q (%v)", name, got, text, err)
		}
	}
}

func TestALongDifferenceIsAReplacement(t *testing.T) {
	var old, new []string
	for n := range 3 * maxEdits {
		old, new = append(old, fmt.Sprintf("old %d\n", n)), append(new, fmt.Sprintf("new %d\n", n))
	}
	edits := compare(append(old, "end\n"), append(new, "end\n"))
	if len(edits) != 6*maxEdits+1 || edits[0].op != '-' || edits[len(edits)-1].op != ' ' {
		t.Errorf("%d edits", len(edits))
	}
}

// TestATurnTracksWhatItsCallsDo: the baseline is taken before the first command that may change something, and not for
// one that only reads.
func TestATurnTracksWhatItsCallsDo(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	write(t, r.work, "x", "before\n")
	r.turn.Tracker = NewTurnDiffTracker(r.work)
	r.call(ToolShell, `{"command":"cat x"}`)
	if r.turn.Tracker.taken {
		t.Error("a command that only reads was tracked")
	}
	r.call(ToolShell, `{"command":"echo after >x; echo new >y"}`)
	changes, err := r.turn.Tracker.Changes()
	if err != nil || len(changes) != 2 || changes[0].Kind != Changed || !strings.Contains(changes[0].Diff, "-before\n+after\n") || changes[1].Kind != Created {
		t.Errorf("%+v %v", changes, err)
	}
}

// A workspace with more files than are tracked: what is only not seen any more was not deleted.
func TestWhatIsNotSeenIsNotDeleted(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"m/1", "m/2", "m/3", "z/1", "z/2", "z/3"} {
		write(t, dir, name, "x\n")
	}
	tracker := NewTurnDiffTracker(dir)
	tracker.most = 8
	if err := tracker.Baseline(); err != nil || tracker.Partial() {
		t.Fatal(err)
	}
	for _, name := range []string{"a/1", "a/2", "a/3", "a/4"} { // they come first, and those of z are too many now
		write(t, dir, name, "new\n")
	}
	elsewhere := t.TempDir()
	write(t, elsewhere, "1", "not ours\n")
	for _, err := range []error{os.Remove(filepath.Join(dir, "z/2")), os.RemoveAll(filepath.Join(dir, "m")), os.Symlink(elsewhere, filepath.Join(dir, "m"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	changes, err := tracker.Changes()
	var got []string
	for _, c := range changes {
		got = append(got, string(c.Kind)+" "+c.Path)
	}
	want := "created a/1, created a/2, created a/3, created a/4, created m, deleted m/1, deleted m/2, deleted m/3, deleted z/2"
	if err != nil || strings.Join(got, ", ") != want || tracker.Partial() {
		t.Errorf("%v\n%v", err, got)
	}
	for _, name := range []string{"a/5", "a/6", "a/7", "a/8"} {
		write(t, dir, name, "new\n")
	}
	if changes, err = tracker.Changes(); err != nil || !tracker.Partial() {
		t.Errorf("%v, partial %v", err, tracker.Partial())
	}
	for _, c := range changes {
		if c.Kind == Deleted && c.Path != "z/2" && !strings.HasPrefix(c.Path, "m/") {
			t.Errorf("%s is there, and is told as deleted", c.Path)
		}
	}
}
