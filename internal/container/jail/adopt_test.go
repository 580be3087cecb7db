package jail

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// A gateway is a process of its own that runs a service on a data folder until it is killed.
type gateway struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
	in    io.WriteCloser
}

// gatewayVariable holds the data folder of a gateway.
const gatewayVariable = "HARDSHELL_TEST_GATEWAY"

func startGateway(t testing.TB, data string) *gateway {
	t.Helper()
	require.Feature(t, "jail", New(Options{}).Supported(t.Context()))
	g := &gateway{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestGatewayProcess$", "-test.v")}
	g.cmd.Env = append(os.Environ(), gatewayVariable+"="+data)
	errs, err := os.OpenFile(filepath.Join(data, "gateway.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	g.cmd.Stderr = errs // by which its spawner is known
	out, err := g.cmd.StdoutPipe()
	if err == nil {
		g.in, err = g.cmd.StdinPipe()
	}
	if err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.kill)
	g.lines = bufio.NewScanner(out)
	return g
}

func (g *gateway) kill() {
	g.cmd.Process.Signal(syscall.SIGKILL)
	g.cmd.Wait()
}

// do has the gateway carry out an order, and returns its answer.
func (g *gateway) do(o order) string {
	g.t.Helper()
	g.tell(o)
	for g.lines.Scan() {
		if answer, ok := strings.CutPrefix(g.lines.Text(), "answer "); ok {
			return answer
		}
	}
	g.t.Fatalf("%s: no answer", o.What)
	return ""
}

// tell gives an order and waits for nothing.
func (g *gateway) tell(o order) {
	g.t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := g.in.Write(append(text, '\n')); err != nil {
		g.t.Fatal(err)
	}
}

// order is a line that a gateway is told: create a container, start a command, run one to its end, cancel what it has
// started, delete, end in order.
type order struct {
	What, ID string
	Command  container.Command
	TTL      time.Duration
}

// TestGatewayProcess is the other process of these tests.
func TestGatewayProcess(t *testing.T) {
	data := os.Getenv(gatewayVariable)
	if data == "" {
		return // not the other half of anything
	}
	stop, err := sandbox.StartSpawner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	s, ctx := service(t, data)
	var started []*container.Execution
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		answer := "ok"
		var e *container.Execution
		var err error
		switch o.What {
		case "create":
			var c container.Container
			c, err = s.Create(ctx, org, container.CreateSpec{IdleTTL: o.TTL})
			answer = c.ID
		case "start", "run":
			if e, err = s.Exec(ctx, org, o.ID, o.Command); err == nil {
				started = append(started, e)
			}
		case "cancel":
			for _, e := range started {
				e.Cancel()
			}
		case "end":
			err = s.Close(ctx)
		case "delete":
			err = s.Delete(ctx, org, o.ID)
		}
		if err == nil && o.What == "run" {
			var r container.Result
			r, err = e.Wait(ctx)
			answer = fmt.Sprintf("%d %q", r.ExitCode, r.Stdout.Text)
		}
		if err != nil {
			answer = "error " + err.Error()
		}
		fmt.Println("answer", answer)
	}
	os.Exit(1) // the test is gone
}

// code is the code of an error.
func code(err error) string {
	if e, ok := fault.As(err); ok {
		return e.Code
	}
	return ""
}

// exec1 writes to a database.
func exec1(ctx context.Context, db *store.DB, statement string) error {
	return db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(statement)
		return err
	})
}

// until polls a file of a container's workspace.
func until(t testing.TB, data, id, name, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		got, err := os.ReadFile(filepath.Join(data, "containers", id, "workspace", name))
		if err == nil && string(got) == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s never held %q, but %q", name, want, got)
		}
	}
}

func put(t testing.TB, data, id, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(data, "containers", id, "workspace", name), nil, 0o666); err != nil {
		t.Fatal(err)
	}
}

// whole follows an execution from a cursor to its end.
func whole(t testing.TB, ctx context.Context, e *container.Execution, from container.Cursor) (out, errs string) {
	t.Helper()
	for d, err := range e.FollowFrom(ctx, from) {
		if err != nil {
			t.Fatalf("follow: %v", err)
		}
		out, errs = out+d.Stdout, errs+d.Stderr
	}
	return out, errs
}

func reattach(t testing.TB, ctx context.Context, s *container.Service, id string, c container.Command, want container.CallState) *container.Execution {
	t.Helper()
	e, state, err := s.Reattach(ctx, org, id, c)
	if err != nil || state != want {
		t.Fatalf("reattach %s: %v, %v, want %v", c.Key, state, err, want)
	}
	return e
}

// TestKilledInMidCommand kills a gateway while a command runs, and lets one more run to its end and one more reach its
// time limit while there is none.
func TestKilledInMidCommand(t *testing.T) {
	data := t.TempDir()
	g := startGateway(t, data)
	id := g.do(order{What: "create"})
	runs := container.Command{Key: "runs", Lease: "resp_1", Fence: 1, Script: "echo x >>count; echo one; echo warn >&2; touch up; until [ -e go ]; do sleep 0.01; done; echo two; echo made >file; exit 9"}
	ends := container.Command{Key: "ends", Lease: "resp_2", Fence: 1, Script: "echo early; until [ -e alone ]; do sleep 0.01; done; echo late; echo over >over; exit 3"}
	slow := container.Command{Key: "slow", Lease: "resp_3", Fence: 1, Timeout: 2 * time.Second, Script: "echo begun; (setsid sleep 1000 &); sleep 1000"}
	long := container.Command{Key: "long", Lease: "resp_4", Fence: 1, Script: "echo long; until [ -e go ]; do sleep 0.01; done #" + strings.Repeat("x", 200<<10)}
	g.do(order{What: "run", ID: id, Command: container.Command{Key: "server", Script: "mkfifo ask; nohup sh -c 'while read l <ask; do echo $l >>heard; done' >/dev/null 2>&1 & echo ok"}})
	for _, c := range []container.Command{runs, ends, slow, long} {
		if answer := g.do(order{What: "start", ID: id, Command: c}); answer != "ok" {
			t.Fatal(answer)
		}
	}
	until(t, data, id, "up", "")
	until(t, data, id, "count", "x\n")
	g.kill()
	put(t, data, id, "alone")
	until(t, data, id, "over", "over\n")

	s, ctx := service(t, data)
	fence := func(c container.Command, n uint64) container.Command { c.Fence = n; return c }
	if _, _, err := s.Reattach(ctx, org, id, fence(container.Command{Key: "never", Lease: "resp_1"}, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(ctx, org, id, fence(runs, 1)); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a stale owner's start: %v", err)
	}
	e := reattach(t, ctx, s, id, fence(runs, 2), container.Started)
	put(t, data, id, "go")
	if out, errs := whole(t, ctx, e, container.Cursor{Stdout: 2}); out != "e\ntwo\n" || errs != "warn\n" {
		t.Errorf("from a cursor: %q, %q", out, errs)
	}
	r, err := e.Wait(ctx)
	if err != nil || r.ExitCode != 9 || r.Stdout.Text != "one\ntwo\n" || r.Stderr.Text != "warn\n" || r.Isolation.Got != "jail" {
		t.Errorf("got %+v, %v", r, err)
	}
	made := false
	for _, f := range r.Changed {
		made = made || f.Path == "/mnt/data/file"
	}
	if !made {
		t.Errorf("changed %+v", r.Changed)
	}
	e = reattach(t, ctx, s, id, fence(ends, 2), container.Started)
	if r, err := e.Wait(ctx); err != nil || r.ExitCode != 3 || r.Stdout.Text != "early\nlate\n" {
		t.Errorf("a command that ended alone: %+v, %v", r, err)
	}
	e = reattach(t, ctx, s, id, fence(slow, 2), container.Started)
	if r, err := e.Wait(ctx); err != nil || !r.TimedOut || r.ExitCode != 124 || r.Stdout.Text != "begun\n" || r.Timeout != 2*time.Second {
		t.Errorf("a time-out without an owner: %+v, %v", r, err)
	}
	e = reattach(t, ctx, s, id, fence(long, 2), container.Started)
	if r, err := e.Wait(ctx); err != nil || r.ExitCode != 0 || r.Stdout.Text != "long\n" {
		t.Errorf("a long script: %+v, %v", r, err)
	}
	reattach(t, ctx, s, id, container.Command{Key: "never", Lease: "resp_1", Fence: 2}, container.NeverStarted)
	// The container serves on: what an earlier call left behind is there, and nothing ran twice.
	if r := run(t, s, ctx, id, "echo hello >ask; until [ -s heard ]; do sleep 0.01; done; cat heard count; ls -A /tmp"); r.Stdout.Text != "hello\nx\n" || r.Restarted {
		t.Errorf("the next call: %+v", r)
	}
	if e, err := s.Exec(ctx, org, id, fence(runs, 2)); err != nil {
		t.Error(err)
	} else if r, err := e.Wait(ctx); err != nil || r.ExitCode != 9 {
		t.Errorf("started again: %+v, %v", r, err)
	}
	if r := run(t, s, ctx, id, "cat count"); r.Stdout.Text != "x\n" {
		t.Errorf("it ran again: %q", r.Stdout.Text)
	}
	if err := s.Acknowledge(ctx, org, id, "runs", 0); err != nil {
		t.Error(err)
	}
}
