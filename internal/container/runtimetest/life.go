package runtimetest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// count prints how many sleeps of a marked length live in the container.
func count(seconds string) string {
	return `n=0; for p in /proc/[0-9]*; do
  if tr '\0' ' ' <$p/cmdline 2>/dev/null | grep -q '^sleep ` + seconds + ` '; then n=$((n+1)); fi
done; echo $n`
}

// untilCount polls until so many sleeps of that length live.
func (p *place) untilCount(t testing.TB, seconds, want string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := strings.TrimSpace(p.run(t, count(seconds)).out)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s sleeps of %s s, want %s", got, seconds, want)
		}
	}
}

func cancelKillsThatCallOnly(t *testing.T, p *place) {
	// Children, a session of its own, an orphan of a dead parent.
	first := p.start(t, p.command(`sleep 7000001 & setsid sleep 7000001 & (sleep 7000001 &); echo up; sleep 7000001`))
	second := p.start(t, p.command(`sleep 7000002 & sleep 7000002; echo never`))
	p.run(t, `sleep 7000003 >/dev/null 2>&1 &`) // left behind by a call that ended
	p.untilCount(t, "7000001", "4")
	p.untilCount(t, "7000002", "2")
	first.Kill()
	o := p.end(t, first)
	if !o.Cancelled || o.TimedOut || o.Code != 137 || o.out != "up\n" {
		t.Errorf("cancelled: %+v", o)
	}
	p.untilCount(t, "7000001", "0")
	p.untilCount(t, "7000002", "2")
	p.untilCount(t, "7000003", "1")
	second.Kill()
	second.Kill()
	if o := p.end(t, second); !o.Cancelled {
		t.Errorf("the second: %+v", o)
	}
	p.untilCount(t, "7000002", "0")
	p.untilCount(t, "7000003", "1")
}

func timeoutKillsOrphans(t *testing.T, p *place) {
	c := p.command(`setsid sh -c '(trap "" TERM HUP; sleep 7000004) & sleep 7000004' & (setsid sleep 7000004 >/dev/null 2>&1 &); sleep 7000004`)
	c.Timeout = time.Second
	if o := p.end(t, p.start(t, c)); !o.TimedOut {
		t.Errorf("got %+v", o)
	}
	p.untilCount(t, "7000004", "0")
}

func backgroundSurvives(t *testing.T, p *place) {
	p.want(t, `mkfifo ask tell; (while read line <ask; do echo "got $line" >tell; done) >/dev/null 2>&1 & echo up`, "up\n")
	p.want(t, "echo one >ask; cat tell", "got one\n")
	p.want(t, "echo two >ask; cat tell", "got two\n")
}

func backgroundHoldsOutput(t *testing.T, p *place) {
	begun := time.Now()
	job := p.start(t, p.command("(until [ -e goon ]; do sleep 0.01; done; echo late; echo >said) & echo first"))
	o := p.end(t, job)
	if o.Code != 0 || o.out != "first\n" {
		t.Errorf("got %+v", o)
	}
	if time.Since(begun) > patience/2 {
		t.Error("the call was held")
	}
	p.put(t, "goon", nil)
	p.until(t, "said", "")
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(p.ws.Dir, "said")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("what the call left behind died")
		}
	}
	if v, err := job.View(1, 0); err != nil || v.Text != "first\n" {
		t.Errorf("the call's view afterwards: %+v, %v", v, err)
	}
}

// held starts a process that holds a FIFO of the workspace open, and opens its other end: that reads its end when no
// process holds it any more.
func (p *place) held(t testing.TB) *os.File {
	t.Helper()
	p.want(t, "mkfifo held; chmod 666 held; (setsid sleep 7000005 >held 2>/dev/null &) >/dev/null 2>&1; echo up", "up\n")
	f, err := os.Open(filepath.Join(p.ws.Dir, "held")) // waits for the writer
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func closeEndsEverything(t *testing.T, p *place) {
	held := p.held(t)
	running := p.start(t, p.command("echo up; sleep 7000006"))
	if err := p.box.Close(wait(t)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.box.Done():
	default:
		t.Error("the box is not done after its close")
	}
	held.SetReadDeadline(time.Now().Add(patience))
	if _, err := held.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a process outlived the box: %v", err)
	}
	exit, err := running.Wait(wait(t))
	if err == nil && exit.Code == 0 {
		t.Errorf("the call that ran ended as if all were well: %+v", exit)
	}
	if _, err := p.box.Start(wait(t), p.command("true")); err == nil {
		t.Error("a closed box started a command")
	}
	if err := p.box.Close(wait(t)); err != nil {
		t.Errorf("a second close: %v", err)
	}
}

func openedAgain(t *testing.T, p *place) {
	p.run(t, "echo kept >f; echo kept >~/f; echo kept >/tmp/f; chmod 751 f; ln -s f link; mkdir empty")
	done := p.command("echo ran >>runs")
	p.end(t, p.start(t, done))
	if err := p.box.Close(wait(t)); err != nil {
		t.Fatal(err)
	}
	p.open(t)
	p.want(t, "cat f ~/f /tmp/f link; stat -c %a f; ls -d empty", "kept\nkept\nkept\nkept\n751\nempty\n")
	if job, err := p.box.Start(wait(t), done); err == nil {
		job.Wait(wait(t))
	}
	p.want(t, "cat runs", "ran\n") // a key is a key for good
}

func prepareAndRemove(t *testing.T, p *place) {
	p.run(t, "echo kept >f; chmod 700 .; mkdir -p deep/er; echo x >deep/er/f; chmod 000 deep/er deep")
	again, err := p.runtime.Prepare(wait(t), p.spec)
	if err != nil || again != p.ws {
		t.Errorf("prepared again: %+v, %v, want %+v", again, err, p.ws)
	}
	p.want(t, "cat f", "kept\n")
	if err := p.box.Close(wait(t)); err != nil {
		t.Fatal(err)
	}
	p.box = nil
	for range 2 {
		if err := p.runtime.Remove(wait(t), p.spec); err != nil {
			t.Errorf("remove: %v", err)
		}
		if _, err := os.Stat(p.spec.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after it: %v", err)
		}
	}
}
