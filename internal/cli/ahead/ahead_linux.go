package ahead

import (
	"os"

	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// init runs right after package resident's, since it needs nothing else.
func init() {
	if likely(os.Args) {
		resident.Ahead(resident.JailNamespaces | unix.CLONE_NEWNET)
	}
}

// likely says whether a command line will want a jail without the host's network, as `run` does unless it is told
// otherwise. A wrong guess costs time only.
func likely(args []string) bool {
	if len(args) < 3 || args[1] != "run" {
		return false
	}
	for _, a := range args[2:] {
		switch a {
		case "--":
			return true
		case "full", "--network=full", "danger-full-access", "--sandbox=danger-full-access", "--help", "-h":
			return false
		}
	}
	return true
}
