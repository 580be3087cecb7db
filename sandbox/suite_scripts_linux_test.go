package sandbox_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Scripts are drawn from pieces that a shell reads in special ways. None names a program that does anything but print,
// a descriptor or a redirection of output, so that even what is read wrongly is harmless; and none asks how the shell
// was started.
// "((" is left out: after one that is no arithmetic bash itself reads on in another way in a file.
var scriptPieces = []string{
	"echo ", "printf '%s\\n' ", "printf %q ", "echo -n ", "echo -e ", "cat <<E\n", "cat <<'E'\n", "cat <<-E\n\t", "E\n", "\nE\n", "cat <<< ",
	"'", "'", `"`, `"`, `\`, `\\`, `\'`, `\"`, "\\\n", "!", "!!", "!x", "{", "}", "{a,b}", "{1..3}", "(", ")", "[", "]", "[[ ", " ]]",
	"$x", "${x}", `"$x"`, "${x:-y}", "${x//q/z}", "${#x}", "$(echo q)", "`echo z`", "$((1+2))", "$'\\x41\\n'", "$\"q\"", `"$@"`, "$#", "$?",
	"x=q; ", "x='z z'; ", "x=$'q\\tz'; ", "if true; then ", "else ", "fi\n", "for x in q z; do ", "while false; do ", "done\n", "case q in q) ", ";; esac\n",
	"q() { echo z; }\n", "q\n", "true && ", "false || ", "! true", "; ", "\n", "\n\n", "\r", "\r\n", "\t", " ", " ", " ", "# q '\n", "#",
	"*", "?", "~", "=", "^", "%", "@", "+", ",", ":", "-", "--", ".", "q", "z", "Q", "ä", "漢", "🦀", "\xff", "\xc3", "\x01", "\x1b[31m", "\x7f",
	"exit 3\n", "exit\n", "false\n", "set -e\n", "return 4\n",
}

func drawScript(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(30) {
		if r.IntN(12) == 0 {
			b.WriteByte('\'')
			for range r.IntN(20) {
				if c := byte(1 + r.IntN(255)); !strings.ContainsRune("'|&<>$`", rune(c)) { // what if the quotes are not where they seem
					b.WriteByte(c)
				}
			}
			b.WriteByte('\'')
			continue
		}
		b.WriteString(scriptPieces[r.IntN(len(scriptPieces))])
	}
	return b.String() + "\n" // a backslash at the very end is read in another way in a file
}

const scriptBatch = 50

// scriptEnvironment has no program but cat: two letters may be one otherwise.
var scriptEnvironment = []string{"PATH=/mnt/data/bin", "HOME=/home/user", "LANG=C.UTF-8"}

// R20: 100,000 random scripts do what they do as a file, byte by byte.
func TestSuiteScripts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	box := p.open(t)
	must(t, os.Mkdir(p.data("empty"), 0o777))
	must(t, os.Mkdir(p.data("bin"), 0o755))
	must(t, os.Symlink("/bin/cat", p.data("bin/cat")))
	play(t, 100_000/scriptBatch, 6, func(i int, r *rand.Rand) {
		dir := fmt.Sprintf("b%d", i)
		scripts := make([]string, scriptBatch)
		if err := writeScripts(p.data(dir), scripts, r); err != nil {
			t.Error(err)
			return
		}
		// As files: beside each, its output, its messages and its code.
		job, err := box.Start(t.Context(), process.Command{Key: "files" + dir, Env: scriptEnvironment, Dir: "/mnt/data/empty",
			Argv: []string{"/bin/bash", "-c", `for f in ../` + dir + `/*.sh; do /bin/bash "$f" >"${f%.sh}.out" 2>"${f%.sh}.err"; echo $? >"${f%.sh}.code"; done`}})
		if err != nil {
			t.Error(err)
			return
		}
		job.Wait(t.Context())
		for n, script := range scripts {
			if err := sameAsFile(t, box, filepath.Join(p.data(dir), fmt.Sprintf("%02d", n)), fmt.Sprintf("%s-%d", dir, n), script); err != nil {
				t.Errorf("round %d: %v\n%q", i, err, script)
				return
			}
		}
		os.RemoveAll(p.data(dir))
	})
}

func writeScripts(dir string, scripts []string, r *rand.Rand) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o777); err != nil { // past the umask: the box's user writes there
		return err
	}
	for n := range scripts {
		scripts[n] = drawScript(r)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.sh", n)), []byte(scripts[n]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// place of a message: the shell's own name, and a line, which it counts in another way in a file.
var messagePlace = regexp.MustCompile(`(bash|\.\./b\d+/\d\d\.sh): ((-c|command substitution): )?(line \d+: )?|at line \d+`)

func sameAsFile(t *testing.T, box *sandbox.Box, file, key, script string) error {
	job, err := box.Start(t.Context(), process.Command{Key: key, Argv: []string{"/bin/bash", "-c", "--", script, "bash"}, Env: scriptEnvironment, Dir: "/mnt/data/empty"})
	if err != nil {
		return err
	}
	got, err := job.Output(t.Context(), 0)
	if err != nil {
		return err
	}
	code, _ := os.ReadFile(file + ".code")
	out, err := os.ReadFile(file + ".out")
	if err != nil {
		return err
	}
	note, err := os.ReadFile(file + ".err")
	if err != nil {
		return err
	}
	raw, err := readAll(job, process.Stdout)
	if err != nil {
		return err
	}
	rawNote, err := readAll(job, process.Stderr)
	if err != nil {
		return err
	}
	place := func(b []byte) string { return messagePlace.ReplaceAllString(string(b), "") }
	switch {
	case fmt.Sprintln(got.ExitCode) != string(code):
		return fmt.Errorf("exit %d, as a file %s", got.ExitCode, code)
	case !bytes.Equal(raw, out):
		return fmt.Errorf("printed %q, as a file %q", raw, out)
	case place(rawNote) != place(note) && !(broken(rawNote) && broken(note)):
		return fmt.Errorf("said %q, as a file %q", rawNote, note)
	case got.Stdout.Text != strings.ToValidUTF8(string(out), "\uFFFD"):
		return fmt.Errorf("shows %q of %q", got.Stdout.Text, out)
	case got.AggregatedOutput.Bytes != int64(len(raw)+len(rawNote)):
		return fmt.Errorf("%d bytes together of %d and %d", got.AggregatedOutput.Bytes, len(raw), len(rawNote))
	}
	return nil
}

// broken says that the shell could not read the script. It may look for its mistake in another order in a file.
func broken(note []byte) bool { return bytes.Contains(note, []byte("syntax error")) }

func readAll(job *process.Job, stream int) ([]byte, error) {
	r := job.Reader(stream)
	b := make([]byte, r.Size())
	if len(b) == 0 {
		return b, nil
	}
	_, err := r.ReadAt(b, 0)
	return b, err
}

// R20 once more, for any bytes at all: the shell shows the script that it was given and ends before it reads on.
func TestSuiteScriptBytes(t *testing.T) {
	t.Parallel()
	box := newPlace(t).open(t)
	play(t, 4000, 4, func(i int, r *rand.Rand) {
		const begin = "cat /proc/$$/cmdline; exit 0\n"
		script := []byte(begin)
		for range drawn(r, 100<<10) {
			script = append(script, byte(1+r.IntN(255)))
		}
		job, err := box.Start(t.Context(), process.Command{Key: fmt.Sprint("bytes", i), Argv: []string{"bash", "-c", "--", string(script), "bash"}, Env: environment})
		if err != nil {
			t.Error(err)
			return
		}
		exit, err := job.Wait(t.Context())
		got, reading := readAll(job, process.Stdout)
		if want := "bash\x00-c\x00--\x00" + string(script) + "\x00bash\x00"; err != nil || reading != nil || exit.Code != 0 || string(got) != want {
			t.Errorf("round %d: %+v, %v, %v: %d bytes of %d", i, exit, err, reading, len(got), len(want))
		}
	})
}

func TestAScriptWithNULIsRefused(t *testing.T) {
	box := newPlace(t).open(t)
	if _, err := box.Start(t.Context(), bash("echo a\x00b")); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}
