package sandbox_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// runAndLookAround runs the tests, and fails them all if they left a trace on the host: that a box did not let a command
// write is believed only when nothing was written.
func runAndLookAround(m *testing.M) int {
	if os.Getenv(stageVar) != "" {
		return m.Run() // a stage's host is its own
	}
	everybodys := []string{os.TempDir(), "/tmp"}
	tmp, err := os.MkdirTemp("", "hardshell-test-")
	if err == nil {
		err = os.Chmod(tmp, 0o755)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(tmp)
	os.Setenv("TMPDIR", tmp)
	others := func(path string) bool {
		return under(path, everybodys) && !under(path, []string{tmp})
	}
	before := hostState(others)
	code := m.Run()
	after := hostState(others)
	var traces []string
	left, _ := os.ReadDir(tmp)
	for _, e := range left {
		traces = append(traces, e.Name()+" in the folder for temporary files")
	}
	for what, was := range before {
		if is, ok := after[what]; !ok {
			traces = append(traces, what+": gone")
		} else if is != was {
			traces = append(traces, what+": was "+was+", is "+is)
		}
	}
	for what := range after {
		if _, ok := before[what]; !ok {
			traces = append(traces, what+": new")
		}
	}
	if len(traces) == 0 {
		return code
	}
	slices.Sort(traces)
	fmt.Printf("FAIL: the tests left traces on the host:\n\t%s\n", strings.Join(traces, "\n\t"))
	return max(code, 1)
}

// hostState is what tests must leave as it was, with what tells a change. Names that other programs of the host may
// change at any time are not in it; the tests of other packages run beside ours, and mount what they need.
func hostState(others func(path string) bool) map[string]string {
	state := map[string]string{}
	entries, _ := os.ReadDir("/") // only who is in it: some programs write a file of a home there, and so touch it
	for _, e := range entries {
		state["/"+e.Name()] = e.Type().String()
	}
	look := func(path string, info fs.FileInfo) {
		st := info.Sys().(*syscall.Stat_t)
		state[path] = fmt.Sprintf("%v %d:%d %d bytes, changed %d.%09d", info.Mode(), st.Uid, st.Gid, info.Size(), st.Ctim.Sec, st.Ctim.Nsec)
	}
	for _, root := range []string{"/etc", "/usr/bin", "/usr/sbin", "/usr/local/bin"} {
		filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if info, err := e.Info(); err == nil {
				look(path, info)
			}
			return nil
		})
	}
	home, _ := os.UserHomeDir()
	for _, name := range []string{"/usr", "/usr/lib", "/boot", "/opt", "/srv", home + "/.ssh", home + "/.ssh/authorized_keys",
		home + "/.bashrc", home + "/.profile", home + "/.bash_profile", home + "/.zshrc", home + "/.gitconfig", home + "/.config"} {
		if info, err := os.Lstat(name); err == nil {
			look(name, info)
		}
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/hardshell-" + strconv.Itoa(os.Getpid()) + "-*")
	deeper, _ := filepath.Glob("/sys/fs/cgroup/hardshell-" + strconv.Itoa(os.Getpid()) + "-*")
	for _, g := range append(groups, deeper...) {
		state[g] = "a box's group"
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && !others(fields[4]) { // the fifth is where it lies
			state["mount "+strings.Join(fields[1:], " ")] = ""
		}
	}
	return state
}

// under says whether a path lies in one of the folders.
func under(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(path, f+"/") })
}
