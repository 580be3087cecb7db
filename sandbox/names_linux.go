package sandbox

import (
	"os"
	"strconv"
	"strings"
)

// mountPoint is a mount of ours: which part of which file system is seen where.
type mountPoint struct{ device, root, at string }

// mountPoints lists the mounts of this process, those on top last.
func mountPoints() []mountPoint {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	var out []mountPoint
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 5 {
			out = append(out, mountPoint{f[2], unescaped(f[3]), unescaped(f[4])})
		}
	}
	return out
}

// otherNames are the paths under which other mounts show the same file. What is hidden is hidden under every name: a home
// that is bound elsewhere keeps its secrets there too.
func otherNames(path string, mounts []mountPoint) (out []string) {
	own := -1
	for i, m := range mounts {
		if below(path, m.at) && (own < 0 || len(m.at) >= len(mounts[own].at)) {
			own = i
		}
	}
	if own < 0 {
		return nil
	}
	inside := joined(mounts[own].root, strings.TrimPrefix(path, strings.TrimSuffix(mounts[own].at, "/")))
	for _, m := range mounts {
		if m.device != mounts[own].device || !below(inside, m.root) {
			continue
		}
		if name := joined(m.at, strings.TrimPrefix(inside, strings.TrimSuffix(m.root, "/"))); name != path {
			out = append(out, name)
		}
	}
	return out
}

// joined appends a rest, "" or "/…", to a path that may be the root.
func joined(path, rest string) string {
	if path = strings.TrimSuffix(path, "/"); path+rest == "" {
		return "/"
	}
	return path + rest
}

// below says whether a path is a folder or lies in it.
func below(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// unescaped gives a name of mountinfo back its spaces and what else is written there as three octal digits.
func unescaped(s string) string {
	for i := strings.IndexByte(s, '\\'); i >= 0 && i+3 < len(s); {
		if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
			s = s[:i] + string([]byte{byte(c)}) + s[i+4:]
		}
		next := strings.IndexByte(s[i+1:], '\\')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return s
}
