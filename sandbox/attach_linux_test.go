package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"golang.org/x/sys/unix"
)

func blocks(st os.FileInfo) int64 { return st.Sys().(*syscall.Stat_t).Blocks * 512 }

// ownerArg makes this test binary an owner that opens a box, starts a command and waits to be killed.
const ownerArg = "own-a-box"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case ownerArg:
			os.Exit(ownABox(os.Args[2]))
		case writersArg:
			os.Exit(ownWriters(os.Args[2]))
		case probeArg:
			os.Exit(tryEscapes(os.Args[2:]))
		case stageArg:
			os.Exit(takeTheStage(os.Args[2:]))
		case connectArg:
			os.Exit(tryConnect(os.Args[2:]))
		case whoArg:
			os.Exit(sayWho())
		case mapArg:
			os.Exit(writeByMemory(os.Args[2]))
		case nestArg:
			os.Exit(nest(os.Args[2]))
		case sleepArg:
			unix.Pause()
		}
	}
	if os.Getenv(stageVar) == "" {
		examplesNeedAJail()
	}
	os.Exit(runAndLookAround(m))
}

type ownership struct {
	Spec    sandbox.Spec
	Command process.Command
}

func ownABox(text string) int {
	var o ownership
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Println(err)
		return 1
	}
	ctx := context.Background()
	box, err := sandbox.Open(ctx, o.Spec)
	if err == nil {
		_, err = box.Start(ctx, o.Command)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("started")
	select {}
}

// killedOwner starts a command in a process of its own and kills that process when ready says so.
func killedOwner(t *testing.T, o ownership, ready func() bool) {
	t.Helper()
	text, err := json.Marshal(o)
	must(t, err)
	owner := exec.Command("/proc/self/exe", ownerArg, string(text))
	out, err := owner.StdoutPipe()
	must(t, err)
	must(t, owner.Start())
	defer owner.Wait()
	defer owner.Process.Kill()
	line := make([]byte, 200)
	n, _ := out.Read(line)
	if string(line[:n]) != "started\n" {
		t.Fatalf("owner: %s", line[:n])
	}
	eventually(t, "the command's first output", ready)
}

func (p place) spool(c process.Command, name string) string {
	b, _ := os.ReadFile(filepath.Join(p.spec.Dir, "jobs", c.Key, "0", name))
	return string(b)
}

func TestKilledOwnerWithoutGraceLeavesNothing(t *testing.T) {
	p := newPlace(t)
	mark := "HARDSHELL_MARK=" + p.base
	c := bash("echo partial; setsid sleep 1000 & sleep 1000")
	c.Env = append([]string{mark}, c.Env...)
	killedOwner(t, ownership{p.spec, c}, func() bool { return p.spool(c, "stdout") == "partial\n" && len(marked(mark)) >= 3 })
	eventually(t, "no process left", func() bool { return len(marked(mark)) == 0 })
	if got := p.spool(c, "stdout"); got != "partial\n" {
		t.Errorf("kept %q", got)
	}
	if _, err := sandbox.Attach(t.Context(), p.spec.Dir, 0); fault.KindOf(err) != fault.NotFound {
		t.Errorf("attach: %v", err)
	}
	job := start(t, p.open(t), c) // the folder tells a new owner that it was interrupted
	if _, err := job.Wait(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("wait: %v", err)
	}
}

func TestNewOwnerFindsTheCall(t *testing.T) {
	p := newPlace(t)
	p.spec.Grace, p.spec.Fence = time.Minute, 5
	c := bash("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 9")
	killedOwner(t, ownership{p.spec, c}, func() bool { return p.spool(c, "stdout") == "one\n" })
	if _, err := sandbox.Attach(t.Context(), p.spec.Dir, 4); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a lower fence: %v", err)
	}
	box, err := sandbox.Attach(t.Context(), p.spec.Dir, 6)
	must(t, err)
	defer box.Close()
	job := start(t, box, c)
	must(t, os.WriteFile(p.data("go"), nil, 0o644))
	if got := wait(t, job); got.Code != 9 || got.out != "one\ntwo\n" {
		t.Errorf("got %+v", got)
	}
	if got := wait(t, start(t, box, c)); got.Code != 9 || got.out != "one\ntwo\n" {
		t.Errorf("once more: %+v", got)
	}
}

func TestAStaleOwnerCanDoNothing(t *testing.T) {
	p := newPlace(t)
	p.spec.Grace, p.spec.Fence = time.Minute, 1
	old := p.open(t)
	newer, err := sandbox.Attach(t.Context(), p.spec.Dir, 2)
	must(t, err)
	defer newer.Close()
	select {
	case <-old.Done():
	case <-time.After(patience):
		t.Fatal("the old owner was not told")
	}
	if _, err := old.Start(t.Context(), bash("touch stale")); err == nil {
		t.Error("the old owner started a command")
	}
	if _, err := os.Stat(p.data("stale")); err == nil {
		t.Error("the old owner's command ran")
	}
	if got := run(t, newer, bash("echo mine")); got.out != "mine\n" {
		t.Errorf("got %+v", got)
	}
}

// TestAStartThatIsCutOffSaysSo: the resident has heard of the command, and whoever comes next finds it.
func TestAStartThatIsCutOffSaysSo(t *testing.T) {
	p, box := leased(t, 0)
	resident := p.resident(t)
	eventually(t, "it has heard all", func() bool { return sandbox.Unheard(box) == 0 })
	must(t, unix.Kill(resident, unix.SIGSTOP))
	t.Cleanup(func() { unix.Kill(resident, unix.SIGCONT) })
	eventually(t, "it hears nothing", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", resident))
		return bytes.Contains(text, []byte(") T "))
	})
	c, failed := bash("echo ran"), make(chan error, 1)
	go func() {
		_, err := box.Start(context.Background(), c)
		failed <- err
	}()
	eventually(t, "it is told of the command", func() bool { return sandbox.Unheard(box) > 0 })
	must(t, box.Detach())
	if err := <-failed; codeOf(err) != "handed_over" {
		t.Errorf("got %v", err)
	}
	must(t, unix.Kill(resident, unix.SIGCONT))
	next, err := sandbox.Attach(t.Context(), p.spec.Dir, 11)
	must(t, err)
	t.Cleanup(func() { next.Close() })
	if got := wait(t, start(t, next, c)); got.out != "ran\n" {
		t.Errorf("got %+v", got)
	}
}

func codeOf(err error) string {
	if e, ok := fault.As(err); ok {
		return e.Code
	}
	return ""
}

// resident is the pid of a box's resident, as its report has it.
func (p place) resident(t *testing.T) int {
	t.Helper()
	pid, _ := p.report(t)["process"].(map[string]any)["pid"].(float64)
	if pid == 0 {
		t.Fatal("the report names no resident")
	}
	return int(pid)
}

func (p place) report(t *testing.T) (all map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.spec.Dir, "report.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &all))
	return all
}

// TestARestForgetsItsOwnBoxOnly, and not one that has come into the folder while it went.
func TestARestForgetsItsOwnBoxOnly(t *testing.T) {
	for name, attached := range map[string]bool{"made": false, "attached": true} {
		for another, known := range map[string]bool{"its own report": false, "another's report": true} {
			t.Run(name+", "+another, func(t *testing.T) {
				p, box := leased(t, 0)
				if attached {
					must(t, box.Detach())
					var err error
					box, err = sandbox.Attach(t.Context(), p.spec.Dir, 11)
					must(t, err)
				}
				if known {
					all := p.report(t)
					all["process"] = map[string]any{"pid": 1, "start": 1, "boot": "another"}
					text, err := json.Marshal(all)
					must(t, err)
					must(t, os.WriteFile(filepath.Join(p.spec.Dir, "report.json"), text, 0o600))
				}
				if ended, err := box.Rest(); !ended || err != nil {
					t.Fatalf("it rests: %v, %v", ended, err)
				}
				if sandbox.Known(p.spec.Dir) != known {
					t.Errorf("afterwards a box is known: %v", !known)
				}
			})
		}
	}
}

func TestASecondBoxInTheSameFolderIsRefused(t *testing.T) {
	p := newPlace(t)
	p.open(t)
	if _, err := sandbox.Open(t.Context(), p.spec); fault.KindOf(err) != fault.Conflict {
		t.Errorf("got %v", err)
	}
}

func TestSpawnerMakesBoxes(t *testing.T) {
	p := newPlace(t)
	stop, err := sandbox.StartSpawner(t.Context())
	must(t, err)
	box := p.open(t)
	stop()
	if got := run(t, box, bash("echo alive")); got.out != "alive\n" {
		t.Errorf("got %+v", got)
	}
	must(t, box.Close())
}

func owner(st os.FileInfo) int { return int(st.Sys().(*syscall.Stat_t).Uid) }
