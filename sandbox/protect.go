package sandbox

import (
	"path"
	"strings"
)

// protected are the parts of a writable folder that stay read-only: what the user's own git and agents obey, where a
// line written in a box would be carried out outside of it. A commit needs none of them.
var protected = []string{
	".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/info",
	".hardshell", "hardshell.toml", ".codex",
}

// shown says whether a path of the mask list, as it stands there, is to be seen after all: it is named, or lies below what
// is named.
func shown(mask string, list []string) bool {
	for _, s := range list {
		if s = path.Clean(s); mask == s || strings.HasPrefix(mask, s+"/") {
			return true
		}
	}
	return false
}
