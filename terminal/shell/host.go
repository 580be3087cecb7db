package shell

import (
	"os"
	"runtime"
	"strings"
)

// Host is what detection asks of a machine. [ThisHost] answers for the one we run on; a test answers for any.
type Host struct {
	GOOS       string
	UID        int // -1 where users have no number
	Getenv     func(name string) string
	ReadFile   func(path string) ([]byte, error)
	Executable func(path string) bool // a regular file that somebody may run
}

// ThisHost is the machine and user of this process.
func ThisHost() Host {
	return Host{GOOS: runtime.GOOS, UID: os.Getuid(), Getenv: os.Getenv, ReadFile: os.ReadFile, Executable: executable}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	return runtime.GOOS == "windows" || info.Mode().Perm()&0o111 != 0
}

func (h Host) windows() bool { return h.GOOS == "windows" }

func (h Host) separators() string {
	if h.windows() {
		return `/\`
	}
	return "/"
}

// absolute is filepath.IsAbs for the host's system rather than ours.
func (h Host) absolute(path string) bool {
	if !h.windows() {
		return strings.HasPrefix(path, "/")
	}
	if strings.HasPrefix(path, `\\`) {
		return true
	}
	return len(path) > 2 && path[1] == ':' && strings.ContainsRune(`\/`, rune(path[2])) &&
		('a' <= path[0]|0x20 && path[0]|0x20 <= 'z')
}

// search finds a program by its bare name: first where systems keep shells, then along PATH. The order is on purpose:
// PATH may name a repository's own folder (npm puts node_modules/.bin in front), and a repository must not become the
// user's shell. Relative entries are not followed for the same reason.
func (h Host) search(name string) string {
	for _, dir := range h.shellDirs(name) {
		if path := h.join(dir, name); h.Executable(path) {
			return path
		}
	}
	list := ":"
	if h.windows() {
		list = ";"
	}
	for dir := range strings.SplitSeq(h.Getenv("PATH"), list) {
		if !h.absolute(dir) {
			continue
		}
		if path := h.join(dir, name); h.Executable(path) {
			return path
		}
	}
	return ""
}

// shellDirs are the folders in which a shell of this name is installed, best first.
func (h Host) shellDirs(name string) []string {
	if !h.windows() {
		return []string{"/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"}
	}
	root := h.Getenv("SystemRoot")
	if !h.absolute(root) {
		root = `C:\Windows`
	}
	programs := h.Getenv("ProgramFiles")
	if !h.absolute(programs) {
		programs = `C:\Program Files`
	}
	switch name {
	case "pwsh":
		return []string{programs + `\PowerShell\7`}
	case "powershell":
		return []string{root + `\System32\WindowsPowerShell\v1.0`}
	case "cmd":
		return []string{root + `\System32`}
	}
	return nil
}

func (h Host) join(dir, name string) string {
	if h.windows() {
		return strings.TrimRight(dir, `\/`) + `\` + name + ".exe"
	}
	return strings.TrimRight(dir, "/") + "/" + name
}
