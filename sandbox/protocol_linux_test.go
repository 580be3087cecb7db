package sandbox_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// dial reaches a box's control socket as an owner would.
func dial(t *testing.T, p place) *net.UnixConn {
	t.Helper()
	here, err := os.Getwd()
	must(t, err)
	t.Chdir(p.spec.Dir) // an address holds a hundred bytes
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: "control"})
	must(t, err)
	t.Chdir(here)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

func TestAnOwnerOfAnotherVersionIsRefused(t *testing.T) {
	p := newPlace(t)
	p.spec.Grace = time.Minute
	box := p.open(t)
	for _, version := range []uint32{0, resident.Version - 1, resident.Version + 1} {
		conn := dial(t, p)
		_, err := conn.Write(resident.Hello{Version: version, Fence: 99}.Append(nil))
		must(t, err)
		buf := make([]byte, 4096)
		n, err := conn.Read(buf)
		if err != nil || resident.Kind(buf[0]) != resident.KindRefused {
			t.Fatalf("version %d: %q, %v", version, buf[:n], err)
		}
		if n, err := conn.Read(buf); n != 0 && err == nil {
			t.Errorf("version %d: not hung up, %q", version, buf[:n])
		}
	}
	if got := run(t, box, bash("echo mine")); got.out != "mine\n" {
		t.Errorf("the owner: %+v", got)
	}
	if entries, _ := filepath.Glob(filepath.Join(p.spec.Dir, "jobs", "*")); len(entries) != 1 {
		t.Errorf("jobs %v", entries)
	}
}

func TestANewOwnerTypesOn(t *testing.T) {
	p := newPlace(t)
	p.spec.Grace, p.spec.Fence = time.Minute, 1
	c := inTTY(bash("stty -echo; echo up; read a; echo got $a; stty size"))
	first := p.open(t)
	shows(t, start(t, first, c), "up")
	must(t, first.Detach())
	box, err := sandbox.Attach(t.Context(), p.spec.Dir, 2)
	must(t, err)
	defer box.Close()
	job := start(t, box, c)
	must(t, job.Resize(t.Context(), process.Size{Rows: 30, Cols: 90}))
	types(t, job, "word\n")
	if got := wait(t, job); got.out != "up\r\ngot word\r\n30 90\r\n" {
		t.Errorf("got %+v", got)
	}
}
