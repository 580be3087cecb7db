package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writer(t testing.TB, dir string) *Log {
	t.Helper()
	l, err := Open(dir, Options{Writer: "test"})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func says(t testing.TB, l *Log, notes ...string) {
	t.Helper()
	for _, note := range notes {
		must(t, l.Append(Entry{Kind: KindEnd, Note: note}))
	}
}

func verified(t testing.TB, dir string) Report {
	t.Helper()
	r, err := Verify(dir, nil)
	must(t, err)
	return r
}

// folder is a finished audit of two writers.
func folder(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "audit")
	for w := range 2 {
		l := writer(t, dir)
		for i := range 3 {
			says(t, l, fmt.Sprintf("writer %d, record %d", w, i))
		}
		must(t, l.Close())
	}
	return dir
}

func TestWhatIsWrittenIsIntact(t *testing.T) {
	dir := folder(t)
	r := verified(t, dir)
	if !r.Intact() || r.Records != 6 || len(r.Files) != 2 || r.Writers.Records != 2 || !r.Files[0].Closed || len(r.Key) != 32 {
		t.Errorf("%+v", r)
	}
	all, _, err := Read(dir)
	if err != nil || len(all) != 6 || all[0].Note != "writer 0, record 0" || all[5].Note != "writer 1, record 2" {
		t.Errorf("%+v, %v", all, err)
	}
	info, err := os.Stat(filepath.Join(dir, keyName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Every byte of every file is changed in turn, and each time it shows (R37).
func TestAnyByteShows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := writer(t, dir)
	says(t, l, "one", "two")
	must(t, l.Close())
	for _, entry := range list(t, dir) {
		if entry == keyName { // who holds it can write anything
			continue
		}
		path := filepath.Join(dir, entry)
		text, err := os.ReadFile(path)
		must(t, err)
		for i := range text {
			flip := []byte{1, 0x20, 0x80}[i%3]
			text[i] ^= flip
			must(t, os.WriteFile(path, text, 0o600))
			if r, err := Verify(dir, nil); err == nil && r.Intact() && !(entry == publicName && i == len(text)-1) {
				t.Fatalf("%s, byte %d: %q is taken for what was written", entry, i, text[i])
			}
			text[i] ^= flip
		}
		must(t, os.WriteFile(path, text, 0o600))
	}
	if r := verified(t, dir); !r.Intact() {
		t.Errorf("%+v", r)
	}
}

func list(t testing.TB, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWhatIsRemovedMovedOrAddedShows(t *testing.T) {
	logs := func(dir string) []string { l, _ := filepath.Glob(filepath.Join(dir, "writer_*.jsonl")); return l }
	lines := func(t *testing.T, path string, change func(l [][]byte) [][]byte) {
		text, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, bytes.Join(change(bytes.SplitAfter(text, []byte("\n"))), nil), 0o600))
	}
	for name, harm := range map[string]func(t *testing.T, dir string){
		"a record is gone": func(t *testing.T, dir string) {
			lines(t, logs(dir)[0], func(l [][]byte) [][]byte { return append(l[:1], l[2:]...) })
		},
		"the first is gone": func(t *testing.T, dir string) {
			lines(t, logs(dir)[0], func(l [][]byte) [][]byte { return l[1:] })
		},
		"the last is gone": func(t *testing.T, dir string) {
			lines(t, logs(dir)[0], func(l [][]byte) [][]byte { return l[:2] })
		},
		"two change places": func(t *testing.T, dir string) {
			lines(t, logs(dir)[0], func(l [][]byte) [][]byte { l[0], l[1] = l[1], l[0]; return l })
		},
		"one is doubled": func(t *testing.T, dir string) {
			lines(t, logs(dir)[0], func(l [][]byte) [][]byte { return append(l[:2:2], l[1:]...) })
		},
		"one is added": func(t *testing.T, dir string) {
			lines(t, logs(dir)[0], func(l [][]byte) [][]byte { return append(l, l[2]) })
		},
		"torn after its end": func(t *testing.T, dir string) {
			lines(t, logs(dir)[0], func(l [][]byte) [][]byte { return append(l, []byte("{")) })
		},
		"a file is gone": func(t *testing.T, dir string) { must(t, os.Remove(logs(dir)[0])) },
		"a head is gone": func(t *testing.T, dir string) {
			must(t, os.Remove(strings.TrimSuffix(logs(dir)[1], logSuffix)+headSuffix))
		},
		"a writer is gone": func(t *testing.T, dir string) {
			gone := strings.TrimSuffix(logs(dir)[1], logSuffix)
			must(t, os.Remove(gone+logSuffix))
			must(t, os.Remove(gone+headSuffix))
		},
		"the list is cut": func(t *testing.T, dir string) {
			lines(t, filepath.Join(dir, "writers.jsonl"), func(l [][]byte) [][]byte { return l[:1] })
		},
		"the list is gone": func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "writers.jsonl"))) },
		"files change places": func(t *testing.T, dir string) {
			l := logs(dir)
			must(t, os.Rename(l[0], l[0]+"x"))
			must(t, os.Rename(l[1], l[0]))
			must(t, os.Rename(l[0]+"x", l[1]))
		},
		"a file is emptied": func(t *testing.T, dir string) { must(t, os.Truncate(logs(dir)[0], 0)) },
		"another's file is put in": func(t *testing.T, dir string) {
			from := strings.TrimSuffix(logs(folder(t))[0], logSuffix)
			must(t, os.Rename(from+logSuffix, filepath.Join(dir, filepath.Base(from)+logSuffix)))
			must(t, os.Rename(from+headSuffix, filepath.Join(dir, filepath.Base(from)+headSuffix)))
		},
	} {
		dir := folder(t)
		harm(t, dir)
		r, err := Verify(dir, nil)
		if err == nil && r.Intact() {
			t.Errorf("%s: nothing shows", name)
		}
	}
}

// What the folder alone cannot tell shows against an earlier report.
func TestAnOlderStateShows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := writer(t, dir)
	says(t, l, "one")
	older := t.TempDir()
	must(t, os.CopyFS(filepath.Join(older, "audit"), os.DirFS(dir)))
	says(t, l, "two")
	note := verified(t, dir)
	says(t, l, "three")
	if r, err := Verify(dir, &note); err != nil || !r.Intact() || r.Records != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	back := filepath.Join(older, "audit")
	if r := verified(t, back); !r.Intact() || r.Records != 1 {
		t.Errorf("%+v", r)
	}
	if r, err := Verify(back, &note); err != nil || r.Intact() {
		t.Errorf("%+v, %v", r, err)
	}
	anew := folder(t)
	if r, err := Verify(anew, &note); err != nil || len(r.Problems) < 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A crash at any byte of the last record, before or after its head, is told apart from damage, and the next writer goes
// on; the list of writers is taken up where it stood.
func TestACrashIsNoDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := writer(t, dir)
	says(t, l, "one", "two")
	path := filepath.Join(dir, l.Name()+logSuffix)
	before, err := os.ReadFile(path)
	must(t, err)
	head, err := os.ReadFile(filepath.Join(dir, l.Name()+headSuffix))
	must(t, err)
	says(t, l, "three")
	all, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, l.Name()+headSuffix), head, 0o600))
	for n := len(before); n <= len(all); n++ {
		must(t, os.WriteFile(path, all[:n], 0o600))
		r := verified(t, dir)
		whole := uint64(2)
		if n == len(all) {
			whole = 3
		}
		if !r.Intact() || r.Records != whole || r.Files[0].Torn != int64(n-len(before)) && n < len(all) || r.Files[0].Closed {
			t.Fatalf("%d bytes: %+v", n, r)
		}
	}
	// The list of writers, torn and behind.
	writers := filepath.Join(dir, writersName+logSuffix)
	old, err := os.ReadFile(filepath.Join(dir, writersName+headSuffix))
	must(t, err)
	must(t, writer(t, dir).Close())
	must(t, os.WriteFile(filepath.Join(dir, writersName+headSuffix), old, 0o600))
	f, err := os.OpenFile(writers, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	f.WriteString(`{"prev":"half a`)
	must(t, f.Close())
	says(t, writer(t, dir), "four")
	if r := verified(t, dir); !r.Intact() || r.Records != 4 || r.Writers.Records != 3 || r.Writers.Torn != 0 {
		t.Errorf("%+v", r)
	}
}

func TestADamagedListIsNotWrittenOn(t *testing.T) {
	dir := folder(t)
	must(t, os.Truncate(filepath.Join(dir, writersName+logSuffix), 100))
	if l, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "shorter than its head") {
		t.Errorf("%v, %v", l, err)
	}
	dir = folder(t)
	must(t, os.Remove(filepath.Join(dir, keyName)))
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("%v", err)
	}
}

func TestOthersCannotWriteTheFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chmod(dir, 0o777))
	if _, err := Open(dir, Options{}); err == nil {
		t.Error("it was opened")
	}
	must(t, os.Chmod(dir, 0o700))
	target := filepath.Join(t.TempDir(), "target")
	must(t, os.Symlink(target, filepath.Join(dir, writersName+logSuffix)))
	if _, err := Open(dir, Options{}); err == nil {
		t.Error("a link was followed")
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("something was written through a link")
	}
}

func TestManyWritersAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			l, err := Open(dir, Options{Writer: fmt.Sprint(w)})
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			var each sync.WaitGroup
			for i := range 5 {
				each.Go(func() {
					if err := l.Append(Entry{Kind: KindEnd, Note: fmt.Sprint(i)}); err != nil {
						t.Error(err)
					}
					if r, err := Verify(dir, nil); err != nil || !r.Intact() { // also while others write
						t.Errorf("%+v, %v", r, err)
					}
				})
			}
			each.Wait()
		})
	}
	wg.Wait()
	if r := verified(t, dir); !r.Intact() || r.Records != 40 || len(r.Files) != 8 {
		t.Errorf("%+v", r)
	}
}

func TestAFileHasOneWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := writer(t, dir)
	if f, err := lock(dir, l.Name(), false); err == nil {
		f.Close()
		t.Error("it was locked twice")
	}
	must(t, l.Close())
	if err := l.Append(Entry{}); err == nil {
		t.Error("written after its end")
	}
	must(t, l.Close())
}

func TestWhatATerminalTells(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l, err := Open(dir, Options{Writer: "mcp", Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "•••") }})
	must(t, err)
	argv := []string{"curl", "-H", "Authorization: hunter2", strings.Repeat("x", 100<<10)}
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	l.Observe(terminal.ExecCommandBegin{CallID: "c1", Tool: "shell", Command: argv, Lines: []string{"curl hunter2"}, Cwd: "/w", Source: terminal.FromAgent,
		Sandbox: "LinuxSeccomp", Report: sandbox.Report{Asked: "jail", Got: "jail"}, Profile: "p", Timeout: time.Second, Attempt: 1, At: at,
		Decision: terminal.Decided{Outcome: approval.Allowed, By: "rule", Why: "because hunter2", Rules: []string{"rules.toml:3"}}})
	l.Observe(terminal.ExecCommandOutputDelta{CallID: "c1", Chunk: []byte("not kept")})
	l.Observe(terminal.ExecCommandEnd{CallID: "c1", ExitCode: 3, Preview: "password hunter2\n" + strings.Repeat("é", 10<<10), Digest: "d", Stdout: 7,
		Denial: &sandbox.Denial{Denied: "no", Allow: "yes"}, At: at.Add(time.Second)})
	l.Observe(terminal.ExecCommandEnd{CallID: "c2", Error: "rejected", Message: "user denied", At: at.Add(2 * time.Second)})
	l.Observe(terminal.ApprovalRequested{CallID: "c3", Approved: "denied", By: "mara", At: at.Add(3 * time.Second)})
	l.Observe(terminal.SessionPruned{Session: 7, Why: "room"})
	must(t, l.Err())
	must(t, l.Close())
	all, r, err := Read(dir)
	if err != nil || !r.Intact() || len(all) != 5 {
		t.Fatalf("%d entries, %+v, %v", len(all), r, err)
	}
	begin, end := all[0], all[1]
	if begin.Kind != KindBegin || begin.Command[2] != "Authorization: •••" || begin.Parts[0] != "curl •••" || begin.CommandDigest != digest(argv) ||
		begin.Decision.By != "rule" || begin.Limits.Got != "jail" || begin.Limits.Timeout != time.Second || !strings.HasSuffix(begin.Command[3], "[cut]") {
		t.Errorf("%.500v", begin)
	}
	if end.Outcome.ExitCode != 3 || !strings.HasPrefix(end.Outcome.Output, "password •••\n") || len(end.Outcome.Output) > maxOutput+10 || end.Outcome.OutputDigest != "d" || end.Outcome.Denial != "no; yes" {
		t.Errorf("%.500v", end.Outcome)
	}
	if all[2].Kind != KindRefused || all[3].Decision.By != "mara" || all[4].Note != "room" {
		t.Errorf("%+v", all[2:])
	}
	for _, name := range list(t, dir) {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || bytes.Contains(text, []byte("hunter2")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWithoutAMaskNoOutputIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := writer(t, dir)
	l.Observe(terminal.ExecCommandEnd{CallID: "c1", Preview: "hunter2", Digest: "d"})
	all, _, err := Read(dir)
	if err != nil || all[0].Outcome.Output != "" || all[0].Outcome.OutputDigest != "d" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestWhatCannotBeWrittenIsTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	var told error
	l, err := Open(dir, Options{Failed: func(err error) { told = err }})
	must(t, err)
	must(t, l.file.f.Close())
	l.Observe(terminal.SessionPruned{})
	if told == nil || !errors.Is(l.Err(), told) {
		t.Errorf("%v, %v", told, l.Err())
	}
}

func TestWhoseItWas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := writer(t, dir)
	l.Of(Whose{Org: "acme", Key: "key_1", Container: "cntr_1"}).Observe(terminal.SessionPruned{Session: 3, Why: "to make room"})
	l.Observe(terminal.SessionPruned{Session: 4})
	must(t, l.Close())
	all, report, err := Read(dir)
	must(t, err)
	if !report.Intact() || len(all) != 2 || all[0].Whose != (Whose{"acme", "key_1", "cntr_1"}) || all[1].Whose != (Whose{}) {
		t.Errorf("%+v %+v", all, report.Problems)
	}
}
