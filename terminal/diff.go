package terminal

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// The bounds of what a tracker keeps of a workspace. Beyond them a change is told without its lines.
const (
	trackFiles = 20_000
	trackBytes = 64 << 20 // of all files
	trackFile  = 1 << 20  // of one
)

// TurnDiffTracker knows which files of a workspace a turn created, changed or deleted. It looks twice: before the first
// command that may change something, and when it is asked. It never follows a link, and what lies in .git is git's.
type TurnDiffTracker struct {
	root string
	most int // files; fewer in tests

	mu       sync.Mutex
	taken    bool
	baseline map[string]tracked
	partial  bool // there were more files than are tracked
	missed   bool // and so there were when it was asked
}

// tracked is one file as it was.
type tracked struct {
	mode    fs.FileMode
	size    int64
	changed time.Time
	link    string // of a symbolic link
	text    []byte
	kept    bool // text is all of it
}

// FileChange is what a turn did to one file.
type FileChange struct {
	Path string // with slashes, from the workspace
	Kind ChangeKind
	Diff string // unified; a sentence where the contents are no text, or were too large to keep
}

// ChangeKind is what happened to a file.
type ChangeKind string

// The kinds.
const (
	Created ChangeKind = "created"
	Changed ChangeKind = "changed"
	Deleted ChangeKind = "deleted"
)

// NewTurnDiffTracker tracks a workspace, for [Turn.Tracker] or [ToolInvocation.Tracker].
func NewTurnDiffTracker(root string) *TurnDiffTracker {
	return &TurnDiffTracker{root: root, most: trackFiles}
}

// Baseline looks at the workspace as it is before a change. Only the first call of a turn does.
func (t *TurnDiffTracker) Baseline() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		return nil
	}
	files, partial, err := look(t.root, t.most)
	if err != nil {
		return err
	}
	t.baseline, t.partial, t.taken = files, partial, true
	return nil
}

// Changes are the files that differ from the baseline, by path. Without a baseline nothing was changed by the turn.
func (t *TurnDiffTracker) Changes() ([]FileChange, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		return nil, nil
	}
	now, partial, err := look(t.root, t.most)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(t.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	t.missed = partial
	names := map[string]bool{}
	for name := range now {
		names[name] = true
	}
	for name := range t.baseline {
		names[name] = true
	}
	var out []FileChange
	for name := range names {
		before, had := t.baseline[name]
		after, has := now[name]
		if had && has && before.same(after) || !had && t.partial {
			continue // of a workspace that is too large, what was not seen before is not told as new
		}
		if had && !has && !gone(root, name) {
			continue // nor what is not seen now as deleted
		}
		c := FileChange{Path: name, Kind: Changed}
		if !had {
			c.Kind = Created
		} else if !has {
			c.Kind = Deleted
		}
		c.Diff = fileDiff(name, before, after, had, has)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// Partial says whether there are more files than are tracked. What happened to those is not told.
func (t *TurnDiffTracker) Partial() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.partial || t.missed
}

// gone says whether a file is surely not where it was, on a path that no link leads away from.
func gone(root *os.Root, name string) bool {
	for at := 0; at < len(name); at++ {
		if name[at] != '/' {
			continue
		}
		dir, err := root.Lstat(name[:at])
		if err != nil {
			return errors.Is(err, fs.ErrNotExist)
		}
		if !dir.IsDir() {
			return true
		}
	}
	_, err := root.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// UnifiedDiff is the turn as one patch; empty when it changed nothing.
func (t *TurnDiffTracker) UnifiedDiff() (string, error) {
	changes, err := t.Changes()
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.Diff)
	}
	return b.String(), err
}

// same says whether nothing that is kept differs.
func (a tracked) same(b tracked) bool {
	if a.mode != b.mode || a.size != b.size || a.link != b.link {
		return false
	}
	if a.kept && b.kept {
		return bytes.Equal(a.text, b.text)
	}
	return a.changed.Equal(b.changed)
}

// look walks the workspace.
func look(dir string, most int) (files map[string]tracked, partial bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	files = map[string]tracked{}
	var kept int64
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone again, or not for us to read
		}
		if d.IsDir() {
			if path.Base(name) == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if len(files) == most {
			partial = true
			return fs.SkipAll
		}
		f := tracked{mode: info.Mode(), size: info.Size(), changed: info.ModTime()}
		switch {
		case f.mode&fs.ModeSymlink != 0:
			f.link, _ = root.Readlink(name)
		case f.mode.IsRegular() && f.size <= trackFile && kept+f.size <= trackBytes:
			if f.text, f.kept = contents(root, name); f.kept {
				kept += int64(len(f.text))
			}
		}
		files[name] = f
		return nil
	})
	return files, partial, err
}

// contents reads a regular file, and nothing that was put in its place.
func contents(root *os.Root, name string) ([]byte, bool) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	text, err := io.ReadAll(io.LimitReader(f, trackFile+1))
	if err != nil || len(text) > trackFile {
		return nil, false
	}
	return text, true
}

// fileDiff is one file's part of the patch.
func fileDiff(name string, before, after tracked, had, has bool) string {
	var b strings.Builder
	b.WriteString("diff --git a/" + name + " b/" + name + "\n")
	from, to := "a/"+name, "b/"+name
	switch {
	case !had:
		b.WriteString("new file mode " + gitMode(after.mode) + "\n")
		from = "/dev/null"
	case !has:
		b.WriteString("deleted file mode " + gitMode(before.mode) + "\n")
		to = "/dev/null"
	case gitMode(before.mode) != gitMode(after.mode):
		b.WriteString("old mode " + gitMode(before.mode) + "\nnew mode " + gitMode(after.mode) + "\n")
	}
	old, oldOK := before.lines(had)
	new, newOK := after.lines(has)
	if !oldOK || !newOK {
		b.WriteString("Binary or large files " + from + " and " + to + " differ\n")
		return b.String()
	}
	hunks := unified(old, new)
	if hunks != "" {
		b.WriteString("--- " + from + "\n+++ " + to + "\n" + hunks)
	}
	return b.String()
}

// lines are a file's, each with its end; false for what is no text or was not kept.
func (a tracked) lines(there bool) ([]string, bool) {
	switch {
	case !there:
		return nil, true
	case a.mode&fs.ModeSymlink != 0:
		return []string{a.link}, true
	case !a.kept || bytes.IndexByte(a.text, 0) >= 0 || !utf8.Valid(a.text):
		return nil, false
	}
	return slices.DeleteFunc(strings.SplitAfter(string(a.text), "\n"), func(s string) bool { return s == "" }), true
}

func gitMode(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "120000"
	case m&0o111 != 0:
		return "100755"
	}
	return "100644"
}
