package runtimetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

func exitCodes(t *testing.T, p *place) {
	for script, want := range map[string]int{"true": 0, "exit 3": 3, "exit 255": 255, "false": 1, "exit 124": 124, "nosuchprogram": 127} {
		o := p.run(t, script)
		if o.Code != want || o.Signal != "" || o.TimedOut || o.Cancelled || o.OutOfMemory {
			t.Errorf("%s: %+v, want %d", script, o.Exit, want)
		}
		if o.Started.IsZero() || o.Ended.Before(o.Started) {
			t.Errorf("%s: started %v, ended %v", script, o.Started, o.Ended)
		}
	}
	o := p.run(t, "echo out; echo err >&2; exit 7")
	if o.Code != 7 || o.out != "out\n" || o.err != "err\n" || o.Stdout != 4 || o.Stderr != 4 {
		t.Errorf("got %+v", o)
	}
}

func signals(t *testing.T, p *place) {
	for script, want := range map[string]process.Exit{
		"kill -TERM $$": {Code: 143, Signal: "SIGTERM"},
		"kill -KILL $$": {Code: 137, Signal: "SIGKILL"},
	} {
		if o := p.run(t, script); o.Code != want.Code || o.Signal != want.Signal || o.TimedOut || o.Cancelled {
			t.Errorf("%s: %+v", script, o.Exit)
		}
	}
	p.want(t, "sleep 1000 & kill -TERM $!; wait $!; echo $?", "143\n") // a child's death is not the command's
}

func timeouts(t *testing.T, p *place) {
	c := p.command("echo before; sleep 1000; echo after")
	c.Timeout = 500 * time.Millisecond
	o := p.end(t, p.start(t, c))
	if o.Code != 124 || !o.TimedOut || o.Cancelled || o.out != "before\n" {
		t.Errorf("timed out: %+v", o)
	}
	if d := o.Ended.Sub(o.Started); d < c.Timeout {
		t.Errorf("it had %v of %v", d, c.Timeout)
	}
	c = p.command("exit 124")
	c.Timeout = patience
	if o := p.end(t, p.start(t, c)); o.Code != 124 || o.TimedOut {
		t.Errorf("exit 124: %+v", o)
	}
	c = p.command("trap '' TERM INT HUP; echo deaf; while :; do sleep 1; done")
	c.Timeout = 500 * time.Millisecond
	if o := p.end(t, p.start(t, c)); o.Code != 124 || !o.TimedOut || o.out != "deaf\n" {
		t.Errorf("a command that ignores signals: %+v", o)
	}
}

// order has the command wait for the reader between its steps: what is not live never ends.
func order(t *testing.T, p *place) {
	job := p.start(t, p.command(`step() { until [ -e "go$1" ]; do sleep 0.01; done; }
echo a; step 1; echo b >&2; step 2; echo c; step 3; printf d; echo e >&2`))
	var got []string
	for c, err := range job.Follow(wait(t)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d@%d:%s", c.Stream, c.Offset, c.Data))
		if len(got) < 4 {
			p.put(t, fmt.Sprintf("go%d", len(got)), nil)
		}
	}
	all := strings.Join(got, " ")
	if !strings.HasPrefix(all, "1@0:a\n 2@0:b\n 1@2:c\n ") || !strings.Contains(all, "1@4:d") || !strings.Contains(all, "2@2:e\n") {
		t.Errorf("got %q", all)
	}
	again := 0
	for c, err := range job.Follow(wait(t)) {
		if err != nil {
			t.Fatal(err)
		}
		again += len(c.Data)
	}
	if again != 9 {
		t.Errorf("a later reader got %d bytes of 9", again)
	}
}

func largeOutput(t *testing.T, p *place) {
	const size = 20_000_000
	job := p.start(t, p.command("head -c 20000000 /dev/zero | tr '\\0' x; echo done >&2"))
	followed := int64(0)
	for c, err := range job.Follow(wait(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Stream == process.Stdout {
			followed += int64(len(c.Data))
		}
	}
	o := p.end(t, job)
	v, err := job.View(process.Stdout, 100)
	if err != nil || v.Bytes != size || v.OmittedChars != size-100 || o.Stdout != size || followed != size || o.err != "done\n" {
		t.Errorf("%d bytes counted, %d in the view (%d left out), %d followed, stderr %q, %v", o.Stdout, v.Bytes, v.OmittedChars, followed, o.err, err)
	}
}

func binaryOutput(t *testing.T, p *place) {
	data := make([]byte, 300_000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	p.put(t, "blob", data)
	job := p.start(t, p.command("cat blob"))
	var got bytes.Buffer
	for c, err := range job.Follow(wait(t)) {
		if err != nil {
			t.Fatal(err)
		}
		got.Write(c.Data)
	}
	if !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d bytes came back, want %d, or they differ", got.Len(), len(data))
	}
	v, err := job.View(process.Stdout, 1<<20)
	if want := strings.ToValidUTF8(string(data), "\uFFFD"); err != nil || v.Text != want || v.Replaced == 0 {
		t.Errorf("the view differs: %d replaced, %v", v.Replaced, err)
	}
}

func stdin(t *testing.T, p *place) {
	p.want(t, "cat; echo end", "end\n") // empty, not open
	c := p.command("cat; echo; cat")
	c.Stdin = strings.NewReader(strings.Repeat("0123456789", 1000))
	if o := p.end(t, p.start(t, c)); o.Code != 0 || o.Stdout != 10_001 {
		t.Errorf("got %d bytes: %+v", o.Stdout, o.Exit)
	}
}

func environment(t *testing.T, p *place) {
	c := p.command("")
	c.Argv = []string{"env"}
	c.Env = []string{"PATH=/usr/bin:/bin", "ODD=a b'\"$x\nline", "EMPTY="}
	o := p.end(t, p.start(t, c))
	added, ok := strings.CutPrefix(o.out, strings.Join(c.Env, "\n")+"\n")
	for line := range strings.Lines(added) { // a box may say that it is one
		ok = ok && (strings.HasPrefix(line, "HARDSHELL_") || strings.HasPrefix(line, "CODEX_SANDBOX_"))
	}
	if !ok {
		t.Errorf("got %q", o.out)
	}
}

func missingProgram(t *testing.T, p *place) {
	for program, code := range map[string]int{"/nonexistent/program": 127, "no-such-program-at-all": 127, "/usr": 126} {
		c := p.command("")
		c.Argv = []string{program}
		job, err := p.box.Start(wait(t), c)
		if err != nil {
			continue // said at once
		}
		if o := p.end(t, job); o.Code != code || o.Error == "" && o.err == "" {
			t.Errorf("%s: %+v", program, o)
		}
	}
	p.want(t, "echo still there", "still there\n")
}

func longArgument(t *testing.T, p *place) {
	script := "printf %s ok #"
	p.want(t, script+strings.Repeat("x", 128<<10-1-len(script)), "ok")
}

func oneRunPerKey(t *testing.T, p *place) {
	c := p.command("echo ran >>runs; sleep 0.2")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if job, err := p.box.Start(wait(t), c); err == nil {
				job.Wait(wait(t))
			}
		})
	}
	wg.Wait()
	if job, err := p.box.Start(wait(t), c); err == nil {
		if o := p.end(t, job); o.Code != 0 {
			t.Errorf("the call that was found: %+v", o)
		}
	}
	p.want(t, "cat runs", "ran\n")
	c.Index++
	p.end(t, p.start(t, c))
	p.want(t, "cat runs", "ran\nran\n")
}

func concurrentCalls(t *testing.T, p *place) {
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			o := p.run(t, fmt.Sprintf("echo %d; echo err%d >&2; exit %d", i, i, i))
			if o.Code != i || o.out != fmt.Sprintf("%d\n", i) || o.err != fmt.Sprintf("err%d\n", i) {
				t.Errorf("call %d: %+v", i, o)
			}
		})
	}
	wg.Wait()
	// They really run at the same time: each waits for the other.
	a := p.start(t, p.command("echo >a; until [ -e b ]; do sleep 0.01; done"))
	b := p.start(t, p.command("echo >b; until [ -e a ]; do sleep 0.01; done"))
	if oa, ob := p.end(t, a), p.end(t, b); oa.Code != 0 || ob.Code != 0 {
		t.Errorf("%+v, %+v", oa.Exit, ob.Exit)
	}
}

func whereAndWho(t *testing.T, p *place) {
	p.want(t, "pwd", container.Workdir+"\n")
	p.want(t, "cd /tmp && pwd", "/tmp\n")
	p.want(t, "echo $HOME && cd ~ && pwd", container.HomeDir+"\n"+container.HomeDir+"\n")
	p.want(t, `[ "$(id -u)" != 0 ] && [ "$(id -g)" != 0 ] && id -un`, container.User+"\n")
	p.want(t, "echo x >~/f && echo x >/tmp/f && echo x >f && cat ~/f /tmp/f f", "x\nx\nx\n")
	p.want(t, `[ -z "$(ls -A /proc/self/fd | grep -v '^[0123]$')" ] && echo closed`, "closed\n") // nothing of ours is open; 3 is ls's own
	c := p.command("pwd")
	c.Dir = container.Tmpdir
	if o := p.end(t, p.start(t, c)); o.out != "/tmp\n" {
		t.Errorf("started in /tmp: %+v", o)
	}
	if _, err := os.Stat(filepath.Join(p.ws.Tmp, "f")); err != nil {
		t.Errorf("/tmp is not on disk: %v", err)
	}
}
