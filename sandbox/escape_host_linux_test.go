package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"golang.org/x/sys/unix"
)

// Escapes that are prepared on the host, or judged from there: the numbers of the escape list are in the tests' names.

// inEveryCage runs a test in a box of each kind that confines, with its world and the workspace as the host has it and
// as the box sees it.
func inEveryCage(t *testing.T, test func(t *testing.T, c *caged)) {
	t.Helper()
	inCages(t, func(cage) bool { return true }, test)
}

// inWritableCages leaves out those whose workspace can only be read.
func inWritableCages(t *testing.T, test func(t *testing.T, c *caged)) {
	t.Helper()
	inCages(t, func(c cage) bool { return c.name != "read-only" }, test)
}

func inCages(t *testing.T, which func(cage) bool, test func(t *testing.T, c *caged)) {
	t.Helper()
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	onStage(t, plainStage, func(t *testing.T) {
		for _, c := range cages {
			if c.online || c.tty || strings.HasSuffix(c.name, "proxied") || !which(c) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				w := newWorld(t)
				hostVictims(t, w)
				test(t, &caged{cage: c, w: w, spec: c.spec(t, w)})
			})
		}
	})
}

// caged is a cage that is not open yet.
type caged struct {
	cage
	w    world
	spec sandbox.Spec
}

func (c *caged) open(t *testing.T) *sandbox.Box {
	t.Helper()
	box, err := sandbox.Open(t.Context(), c.spec)
	must(t, err)
	t.Cleanup(func() { box.Close() })
	return box
}

// work is the workspace: on the host, and in the box.
func (c *caged) work() (host, seen string) {
	if c.spec.Hosted != nil {
		return c.spec.Hosted.Workspace, "/mnt/data"
	}
	return c.spec.Cwd, c.spec.Cwd
}

// whoArg makes this test binary say who it is.
const whoArg = "say-who"

func sayWho() int {
	os.Stdout.WriteString(strconv.Itoa(os.Getuid()) + " " + strconv.Itoa(os.Geteuid()) + " " + strconv.Itoa(os.Getegid()) + "\n")
	return 0
}

func Test6ADeviceOfTheHostsOpensNothing(t *testing.T) {
	require.Root(t, "only root can leave a device in a workspace")
	inEveryCage(t, func(t *testing.T, c *caged) {
		host, seen := c.work()
		must(t, unix.Mknod(filepath.Join(host, "full"), unix.S_IFCHR|0o666, 1<<8|7))
		must(t, os.Chmod(filepath.Join(host, "full"), 0o666))
		box := c.open(t)
		got := run(t, box, bash("test -c "+seen+"/full && head -c1 "+seen+"/full"))
		if got.Code == 0 || got.out != "" || !strings.Contains(got.err, "ermission denied") {
			t.Errorf("got %+v", got)
		}
	})
}

func Test42ASetIDProgramOfTheHostsGainsNothing(t *testing.T) {
	require.Root(t, "only root can leave a set-id program of root's in a workspace")
	inEveryCage(t, func(t *testing.T, c *caged) {
		host, seen := c.work()
		copyOfUs(t, filepath.Join(host, "who"), 0o755)
		must(t, os.Chmod(filepath.Join(host, "who"), 0o755|os.ModeSetuid|os.ModeSetgid))
		out, err := exec.Command("setpriv", "--reuid=65534", "--clear-groups", filepath.Join(host, "who"), whoArg).Output()
		if err != nil || string(out) != "65534 0 0\n" {
			t.Fatalf("on the host it gives %q, %v", out, err) // the stage's disk must honour the bit, or nothing is shown
		}
		got := run(t, c.open(t), process.Command{Key: newKey(), Argv: []string{filepath.Join(seen, "who"), whoArg}, Env: environment})
		if f := strings.Fields(got.out); got.Code != 0 || len(f) != 3 || f[0] != f[1] || f[1] == "0" || f[2] == "0" {
			t.Errorf("got %+v", got)
		}
	})
}

// foreign is a 32-bit program of 4 instructions: exit(0) by int 0x80.
var foreign = []byte("\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00\x01\x00\x00\x00\x54\x80\x04\x08\x34\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x34\x00\x20\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
	"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x80\x04\x08\x00\x80\x04\x08\x60\x00\x00\x00\x60\x00\x00\x00\x05\x00\x00\x00\x00\x10\x00\x00" +
	"\x31\xc0\x40\x31\xdb\xcd\x80\x00\x00\x00\x00\x00")

func Test43AForeignArchitectureIsKilled(t *testing.T) {
	inEveryCage(t, func(t *testing.T, c *caged) {
		host, seen := c.work()
		must(t, os.WriteFile(filepath.Join(host, "foreign"), foreign, 0o755))
		require.Feature(t, "ia32", exec.Command(filepath.Join(host, "foreign")).Run())
		got := run(t, c.open(t), process.Command{Key: newKey(), Argv: []string{filepath.Join(seen, "foreign")}})
		if got.Signal != "SIGSYS" {
			t.Errorf("got %+v", got)
		}
	})
}

func Test44AMemoryBombEndsInItsOwnBox(t *testing.T) {
	inEveryCage(t, func(t *testing.T, c *caged) {
		beside := *c
		beside.w = newWorld(t)
		beside.spec = beside.cage.spec(t, beside.w)
		neighbour := beside.open(t)
		living := start(t, neighbour, bash("echo up; read x || sleep 300"))
		c.spec.Limits.MemoryBytes = 64 << 20
		box := c.open(t)
		if l := box.Report().Limits; l != "hard" && l != "soft" {
			t.Fatalf("limits are %q: %v", l, box.Report().Missing)
		}
		// One part that grows for ever, and 20 that grow a little each.
		if got := run(t, box, bash("for i in $(seq 20); do head -c 16m /dev/zero | tail & done; wait; tail /dev/zero")); !got.OutOfMemory || got.Code != 137 {
			t.Errorf("the bomb: %+v", got)
		}
		if got := run(t, box, bash("echo alive")); got.out != "alive\n" {
			t.Errorf("after it: %+v", got)
		}
		if living.HasExited() {
			t.Error("the neighbour is dead")
		}
		living.Kill()
		wait(t, living)
	})
}

func Test45WhatACallLeftLivesOnUntilTheBoxEnds(t *testing.T) {
	inEveryCage(t, func(t *testing.T, c *caged) {
		box := c.open(t)
		mark := "HARDSHELL_MARK=" + c.w.root
		left := bash("setsid sleep 1000 >/dev/null 2>&1 & echo left")
		left.Env = append([]string{mark}, left.Env...)
		run(t, box, left)
		late := bash("sleep 1000")
		late.Timeout = 200 * time.Millisecond
		if got := run(t, box, late); !got.TimedOut {
			t.Errorf("got %+v", got)
		}
		if n := len(marked(mark)); n != 1 {
			t.Errorf("%d live on after another call's time-out, want 1", n)
		}
		must(t, box.Close())
		if n := len(marked(mark)); n != 0 {
			t.Errorf("%d live on after the box", n)
		}
	})
}

// Test47TheWorkspaceIsWhatItWasWhenItWasChecked swaps it for a link, and back, while boxes are opened. A box that is
// asked for while the link is there may take the folder that it leads to for its workspace, and say so by its mounts;
// none may have checked the one and show the other.
func Test47TheWorkspaceIsWhatItWasWhenItWasChecked(t *testing.T) {
	inWritableCages(t, func(t *testing.T, c *caged) {
		host, seen := c.work()
		victim := c.w.folder(t, "victim")
		var stop atomic.Bool
		swaps := make(chan int)
		go func() {
			n := 0
			for ; !stop.Load(); n++ {
				os.Rename(host, host+"-")
				os.Symlink(victim, host)
				time.Sleep(time.Duration(n%7) * 100 * time.Microsecond)
				os.Remove(host)
				os.Rename(host+"-", host)
				time.Sleep(time.Duration(n%11) * time.Millisecond)
			}
			swaps <- n
		}()
		opened, asked := 0, 0
		for i := 0; i < 300 && opened < 30; i++ {
			c.spec.Dir = c.w.at("state/box" + strconv.Itoa(i))
			box, err := sandbox.Open(t.Context(), c.spec)
			if err != nil {
				continue
			}
			opened++
			got := run(t, box, bash(fmt.Sprintf("echo x >%s/%d; echo x >%s/%d; grep -c ' %s ' /proc/self/mountinfo", seen, i, victim, i, victim)))
			box.Close()
			switch _, err := os.Stat(filepath.Join(victim, strconv.Itoa(i))); {
			case err == nil && got.out == "0\n":
				t.Errorf("box %d took one folder for the other", i)
			case err == nil:
				asked++
			}
		}
		stop.Store(true)
		t.Logf("%d swaps, %d boxes, %d of them asked for by the link", <-swaps, opened, asked)
		if opened == 0 {
			t.Error("no box came to be: nothing is shown")
		}
	})
}

// setIDs tries every way to leave a set-id file behind.
const setIDs = `
cp /bin/true a; chmod 4755 a; chmod 2755 a; chmod u+s a; chmod 6777 a
mkdir d; chmod 2777 d; mkdir -m 2777 e; install -m 4755 /bin/true b; cp --preserve=mode /usr/bin/passwd c
perl -e '
use Fcntl;
sysopen(my $f, "p0", O_CREAT|O_WRONLY, 06755);
mkdir("p1", 06755);
syscall(133, my $n = "p2", 0106755, 0);
sysopen(my $g, "p3", O_CREAT|O_WRONLY, 0755); chmod(04755, $g);
sysopen(my $h, "p4", O_CREAT|O_WRONLY, 0755); chmod(04755, "p4");
syscall(452, -100, my $q = "p4", 04755, 0);
'
true
`

func Test51NoSetIDFileIsLeftBehind(t *testing.T) {
	inWritableCages(t, func(t *testing.T, c *caged) {
		host, seen := c.work()
		if os.Geteuid() == 0 { // a root-owned workspace, mapped: the case where such a file would be root's
			must(t, os.Chown(host, 0, 0))
		}
		script := bash("cd " + seen + setIDs)
		if got := run(t, c.open(t), script); got.Code != 0 {
			t.Errorf("got %+v", got)
		}
		found := 0
		must(t, filepath.Walk(host, func(path string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			found++
			if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
				t.Errorf("left behind: %s %v", path, info.Mode())
			}
			return nil
		}))
		if found < 6 {
			t.Errorf("only %d files were made", found)
		}
		if st, err := os.Stat(filepath.Join(host, "a")); err == nil && os.Geteuid() == 0 && owner(st) != 0 {
			t.Errorf("the mapped workspace's file belongs to %d", owner(st))
		}
	})
}

// Test51AProgramOfRootsKeepsNoBitWhenItIsRewritten: a set-id program that was there before must not become one of the
// box's making.
func Test51AProgramOfRootsKeepsNoBitWhenItIsRewritten(t *testing.T) {
	require.Root(t, "only root's workspaces hold programs of root's")
	for name, script := range map[string]string{
		"by write":    `echo evil >who`,
		"by append":   `echo evil >>who`,
		"by truncate": `truncate -s 3 who`,
	} {
		t.Run(name, func(t *testing.T) {
			inWritableCages(t, func(t *testing.T, c *caged) {
				host, seen := c.work()
				must(t, os.Chown(host, 0, 0))
				must(t, os.WriteFile(filepath.Join(host, "who"), make([]byte, 8192), 0o755))
				must(t, os.Chmod(filepath.Join(host, "who"), 0o755|os.ModeSetuid))
				copyOfUs(t, filepath.Join(host, "probe"), 0o755)
				got := run(t, c.open(t), bash("cd "+seen+"; "+script))
				st, err := os.Stat(filepath.Join(host, "who"))
				must(t, err)
				b, _ := os.ReadFile(filepath.Join(host, "who"))
				if st.Mode()&os.ModeSetuid != 0 && (len(b) != 8192 || strings.Contains(string(b), "evil")) {
					t.Errorf("it is %v still, and rewritten (%+v)", st.Mode(), got)
				}
			})
		})
	}
}

// Test51WhatMemoryWritesKeepsTheBit is a limit of the kernel's, said in decision 0007: what is written through a shared
// mapping takes no bit away.
func Test51WhatMemoryWritesKeepsTheBit(t *testing.T) {
	require.Root(t, "only root's workspaces hold programs of root's")
	inWritableCages(t, func(t *testing.T, c *caged) {
		host, seen := c.work()
		must(t, os.Chown(host, 0, 0))
		must(t, os.WriteFile(filepath.Join(host, "who"), make([]byte, 8192), 0o755))
		must(t, os.Chmod(filepath.Join(host, "who"), 0o755|os.ModeSetuid))
		copyOfUs(t, filepath.Join(host, "probe"), 0o755)
		if got := run(t, c.open(t), bash("cd "+seen+"; ./probe "+mapArg+" who")); got.Code != 0 {
			t.Errorf("got %+v", got)
		}
		if st, err := os.Stat(filepath.Join(host, "who")); err != nil || st.Mode()&os.ModeSetuid == 0 {
			t.Errorf("the bit is gone, and the decision out of date: %v, %v", st, err)
		}
	})
}

// mapArg makes this test binary write to a file through its memory.
const mapArg = "write-by-memory"

func writeByMemory(path string) int {
	fd, err := unix.Open(path, unix.O_RDWR, 0)
	if err != nil {
		return 1
	}
	b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return 2
	}
	copy(b, "evil")
	unix.Msync(b, unix.MS_SYNC)
	return 0
}

func TestWorkspaceOfAnotherUserIsRefused(t *testing.T) {
	require.Root(t, "only root can have such a folder")
	p := newPlace(t)
	must(t, os.Chown(p.spec.Hosted.Workspace, 4242, 4242))
	if box, err := sandbox.Open(t.Context(), p.spec); err == nil {
		box.Close()
		t.Error("opened")
	} else if !strings.Contains(err.Error(), "4242") {
		t.Errorf("got %v", err)
	}
}
