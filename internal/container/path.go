package container

import (
	"encoding/hex"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
)

// incomingPrefix begins the name that an upload has until it is whole. Such files are not listed.
const incomingPrefix = ".hardshell-incoming-"

// The kernel's NAME_MAX and PATH_MAX.
const (
	maxNamePart = 255
	maxPath     = 4095 - len(Workdir) - 1
)

func badPath(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).WithCode("invalid_path").WithParam("path")
}

// cleanName checks the name of a file of the workspace and returns it relative to /mnt/data. It may be absolute as
// long as it is under /mnt/data. Names are names: shell metacharacters, spaces and line breaks are fine.
func cleanName(name string) (string, error) {
	rel := name
	if strings.HasPrefix(name, "/") {
		var ok bool
		if rel, ok = strings.CutPrefix(name, Workdir+"/"); !ok {
			return "", badPath("The path %q is not under %s.", name, Workdir)
		}
	}
	switch {
	case strings.IndexByte(rel, 0) >= 0:
		return "", badPath("A path cannot hold a NUL byte.")
	case !utf8.ValidString(rel):
		return "", badPath("The path is not valid UTF-8.")
	case rel == "" || strings.HasSuffix(rel, "/") || strings.HasSuffix(rel, "/."):
		return "", badPath("The path %q names no file.", name)
	case len(rel) > maxPath:
		return "", badPath("The path has %d bytes; %d are possible.", len(rel), maxPath)
	}
	for part := range strings.SplitSeq(rel, "/") {
		if part == ".." {
			return "", badPath("The path %q leaves its folder with \"..\".", name)
		}
		if len(part) > maxNamePart {
			return "", badPath("A name of the path has %d bytes; %d are possible.", len(part), maxNamePart)
		}
	}
	if rel = path.Clean(rel); rel == "." || strings.HasPrefix(rel, "/") {
		return "", badPath("The path %q names no file.", name)
	}
	if strings.HasPrefix(path.Base(rel), incomingPrefix) {
		return "", badPath("Names that begin with %s are kept for uploads.", incomingPrefix)
	}
	return rel, nil
}

// A stored path is text, and databases want valid UTF-8. A name that is not is stored as hex behind a mark that no
// relative path begins with.
const hexMark = "/hex/"

func storedPath(rel string) string {
	if utf8.ValidString(rel) {
		return rel
	}
	return hexMark + hex.EncodeToString([]byte(rel))
}

func pathOf(stored string) string {
	if h, ok := strings.CutPrefix(stored, hexMark); ok {
		if b, err := hex.DecodeString(h); err == nil {
			return string(b)
		}
	}
	return stored
}
