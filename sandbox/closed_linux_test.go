package sandbox

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/fault"
)

// A listener that came from the host's own network would be taken for a closed one, were it not looked at.
func TestTheHostsNetworkIsNotClosed(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := closed(fd); fault.KindOf(err) != fault.Isolation {
		t.Errorf("%v", err)
	}
}
