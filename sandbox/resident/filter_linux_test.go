package resident_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// probeArg makes this test binary, started again inside a box, try the filter instead of testing.
const probeArg = "try-the-filter"

// restrictedArg makes it put the filter for commands without a jail on itself, and try that.
const restrictedArg = "try-the-restricted-filter"

func TestEveryRestrictedRowIsRefusedFromInside(t *testing.T) {
	out, err := exec.Command("/proc/self/exe", restrictedArg).CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), " tries\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case probeArg:
			os.Exit(tryFilter(resident.Tries()))
		case restrictedArg:
			runtime.LockOSThread()
			tries := resident.RestrictedTries()
			if err := resident.EnterRestricted(); err != nil {
				fmt.Println(err)
				os.Exit(98)
			}
			os.Exit(tryFilter(tries))
		}
	}
	os.Exit(m.Run())
}

// tryFilter makes every system call of the table itself, so that a missing tool cannot look like a refusal.
func tryFilter(tries []resident.Try) int {
	wrong := 0
	var buffer [64]byte
	for i := range buffer {
		buffer[i] = 0xff // as a limit: none at all
	}
	for _, t := range tries {
		if t.Buffer >= 0 {
			t.Args[t.Buffer] = uintptr(unsafe.Pointer(&buffer[0]))
		}
		_, _, e := unix.Syscall6(t.Call, t.Args[0], t.Args[1], t.Args[2], t.Args[3], t.Args[4], t.Args[5])
		if refused := e == t.Want; refused == t.Allow {
			wrong++
			fmt.Printf("row %d, call %d, args %x (%s): answer %q, refusal would be %q, allowed %v\n", t.Row, t.Call, t.Args, t.Why, e, t.Want, t.Allow)
		}
	}
	fmt.Printf("%d tries\n", len(tries))
	return wrong
}

func TestEveryRowIsRefusedFromInside(t *testing.T) {
	ctx := context.Background()
	require.Feature(t, "jail", sandbox.Supported(ctx))
	base := t.TempDir()
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	h := &sandbox.Hosted{Workspace: filepath.Join(base, "data"), Tmp: filepath.Join(base, "tmp"), Home: filepath.Join(base, "home")}
	for _, d := range []string{h.Workspace, h.Tmp, h.Home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.Home, "probe"), self, 0o755); err != nil {
		t.Fatal(err)
	}
	box, err := sandbox.Open(ctx, sandbox.Spec{Dir: filepath.Join(base, "box"), Hosted: h})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	job, err := box.Start(ctx, process.Command{Key: "probe", Argv: []string{"/home/user/probe", probeArg}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := job.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out, err := job.View(process.Stdout, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	if exit.Code != 0 || !strings.Contains(out.Text, " tries") {
		note, _ := job.View(process.Stderr, 4000)
		t.Fatalf("exit %+v\n%s\n%s", exit, out.Text, note.Text)
	}
}

func TestKeys(t *testing.T) {
	for _, good := range []string{"a", "resp_0.sh-1", strings.Repeat("x", 100)} {
		if err := resident.CheckKey(good); err != nil {
			t.Errorf("CheckKey(%q) = %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", ".x", "a/b", "a b", "a\x00", "ä", strings.Repeat("x", 101)} {
		if err := resident.CheckKey(bad); !errors.Is(err, resident.ErrKey) {
			t.Errorf("CheckKey(%q) = %v, want a refusal", bad, err)
		}
	}
}

func TestGapLeavesHeadAndTail(t *testing.T) {
	const mib = 1 << 20
	for _, size := range []int64{0, 1, 64 * mib, 64*mib + 1, 65 * mib, 200*mib + 7} {
		from, to := resident.Gap(size)
		if size <= 65*mib-1 && from != to {
			t.Errorf("Gap(%d) = %d, %d, want none", size, from, to)
		}
		if from != to && (from != 8*mib || size-to < 56*mib || size-to > 57*mib) {
			t.Errorf("Gap(%d) = %d, %d", size, from, to)
		}
	}
}
