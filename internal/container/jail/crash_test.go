package jail

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// strays lists what lives of a data folder: residents by the sockets that they answer on, spawners by where their errors
// go, commands by their argument mark.
func strays(data, mark string) (found []string) {
	sockets, _ := filepath.Glob(filepath.Join(data, "containers", "*", "box", "control"))
	for _, at := range sockets {
		if answers(at) {
			found = append(found, "resident "+at)
		}
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		errs, _ := os.Readlink(filepath.Join("/proc", e.Name(), "fd/2"))
		spawner := words[0] == "hardshell-spawner" && strings.HasPrefix(errs, data+"/")
		if spawner || len(words) > 1 && words[0] == "sleep" && words[1] == mark {
			found = append(found, e.Name()+" "+strings.Join(words, " "))
		}
	}
	return found
}

// answers says whether somebody holds a socket. Its address holds a hundred bytes, its path may have more.
func answers(at string) bool {
	dir, err := os.Open(filepath.Dir(at))
	if err != nil {
		return false
	}
	defer dir.Close()
	c, err := net.Dial("unixpacket", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(at)))
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// none fails unless nothing of a data folder lives, now or very soon: the kernel takes a moment to end a namespace.
func none(t testing.TB, data, mark string) {
	t.Helper()
	var left []string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = strays(data, mark); len(left) == 0 {
			return
		}
	}
	t.Errorf("strays: %q", left)
}

// groupsOf lists the control groups that a process has made and that are still there.
func groupsOf(pid int) (found []string) {
	for _, below := range []string{"", "*/", "*/*/", "*/*/*/", "*/*/*/*/"} {
		more, _ := filepath.Glob("/sys/fs/cgroup/" + below + "hardshell-" + strconv.Itoa(pid) + "-*")
		found = append(found, more...)
	}
	return found
}

// TestKilledAtAnyMoment kills gateways at seeded moments of their work: before, in and after the boot of a box, the start
// of commands, a removal. Then a successor finds every container as it should be, no command has run twice, and at the end
// nothing is left.
func TestKilledAtAnyMoment(t *testing.T) {
	const rounds = 16
	for seed := range uint64(rounds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			data, mark := t.TempDir(), fmt.Sprintf("%d%05d", 60+seed, os.Getpid())
			g := startGateway(t, data)
			ids := []string{g.do(order{What: "create"}), g.do(order{What: "create"}), g.do(order{What: "create"})}
			if seed%2 == 1 { // half of them are killed with a box that lives already
				g.do(order{What: "run", ID: ids[0], Command: container.Command{Key: "first", Script: "echo first >>count"}})
			}
			command := func(i int) container.Command {
				return container.Command{Key: "call_" + strconv.Itoa(i), Lease: "resp", Fence: 1, Timeout: time.Minute,
					Script: fmt.Sprintf("echo %d >>count; (setsid sleep %s &) >/dev/null 2>&1; until [ -e go ]; do sleep 0.01; done; echo out%d", i, mark, i)}
			}
			for i := range 6 {
				g.tell(order{What: "start", ID: ids[i%2], Command: command(i)})
			}
			g.tell(order{What: "run", ID: ids[2], Command: container.Command{Key: "short", Script: "sleep " + mark + " & echo"}})
			g.tell(order{What: "delete", ID: ids[2]})
			rng := rand.New(rand.NewPCG(seed, 5))
			time.Sleep(time.Duration(rng.Int64N(int64(120 * time.Millisecond)))) // the moment is what is tested
			pid := g.cmd.Process.Pid
			g.kill()

			s, db, ctx := serviceOf(t, data, data)
			for i := range 6 {
				id := ids[i%2]
				c := command(i)
				c.Fence = 2
				e, state, err := s.Reattach(ctx, org, id, c)
				if err == nil && state == container.NeverStarted {
					e, err = s.Exec(ctx, org, id, c)
				}
				if err != nil {
					t.Fatalf("call %d: %v, %v", i, state, err)
				}
				if state == container.Gone { // the box was not whole yet when its owner was killed
					continue
				}
				put(t, data, id, "go")
				if r, err := e.Wait(ctx); err != nil || r.ExitCode != 0 || r.Stdout.Text != fmt.Sprintf("out%d\n", i) {
					t.Errorf("call %d, %v: %+v, %v", i, state, r, err)
				}
			}
			for _, id := range ids[:2] {
				if r := run(t, s, ctx, id, "sort count | uniq -d; echo served"); r.Stdout.Text != "served\n" {
					t.Errorf("ran twice: %q", r.Stdout.Text)
				}
			}
			for _, id := range ids {
				s.Delete(ctx, org, id) // the last one may be deleted already
			}
			if err := s.Close(ctx); err != nil {
				t.Error(err)
			}
			none(t, data, mark)
			entries, err := os.ReadDir(filepath.Join(data, "containers"))
			for _, e := range entries {
				if e.IsDir() {
					t.Errorf("left: %s", e.Name())
				}
			}
			if err != nil {
				t.Error(err)
			}
			db.Close()
			if got := startGateway(t, data).do(order{What: "create"}); !strings.HasPrefix(got, "cntr_") { // whose start sweeps
				t.Error(got)
			}
			if groups := groupsOf(pid); len(groups) > 0 {
				t.Errorf("control groups left: %q", groups)
			}
		})
	}
}

// TestNobodyComesBack lets the lease of an abandoned container end.
func TestNobodyComesBack(t *testing.T) {
	data, mark := t.TempDir(), fmt.Sprintf("77%05d", os.Getpid())
	g := startGateway(t, data)
	id := g.do(order{What: "create", TTL: time.Second})
	g.do(order{What: "run", ID: id, Command: container.Command{Script: "sleep " + mark + " >/dev/null 2>&1 & echo up"}})
	if len(strays(data, mark)) == 0 {
		t.Fatal("nothing to end")
	}
	g.kill()
	none(t, data, mark)
}

// TestPausedGatewayWakes stops a gateway's process, puts another in its place, and has the first wake up and go on.
func TestPausedGatewayWakes(t *testing.T) {
	data := t.TempDir()
	g := startGateway(t, data)
	id := g.do(order{What: "create"})
	c := container.Command{Key: "call", Lease: "resp", Fence: 1, Script: "echo ran >>count; touch up; echo one; until [ -e go ]; do sleep 0.01; done; echo two"}
	g.do(order{What: "start", ID: id, Command: c})
	g.do(order{What: "run", ID: id, Command: container.Command{Script: "mkfifo ask; nohup sh -c 'while read l <ask; do echo $l >>heard; done' >/dev/null 2>&1 & echo ok"}})
	until(t, data, id, "up", "")
	if err := g.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	rows := t.TempDir() // the database is locked by whoever sleeps
	for _, name := range []string{"hardshell.db", "hardshell.db-wal"} {
		text, err := os.ReadFile(filepath.Join(data, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(rows, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, db, ctx := serviceOf(t, rows, data)
	c.Fence = 2
	e := reattach(t, ctx, s, id, c, container.Started)
	if err := g.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, o := range []order{{What: "start", ID: id, Command: container.Command{Key: "stale", Lease: "resp", Fence: 1, Script: "echo stale >>count"}},
		{What: "start", ID: id, Command: container.Command{Key: "fresh", Script: "echo stale >>count"}}, {What: "cancel", ID: id, Command: container.Command{}}, {What: "end", ID: id, Command: container.Command{}}} {
		if answer := g.do(o); o.What == "start" && !strings.HasPrefix(answer, "error ") {
			t.Errorf("%s %s: %s", o.What, o.Command.Key, answer)
		}
	}
	put(t, data, id, "go")
	if out, _ := whole(t, ctx, e, container.Cursor{}); out != "one\ntwo\n" {
		t.Errorf("got %q", out)
	}
	if r, err := e.Wait(ctx); err != nil || r.Cancelled || r.ExitCode != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	if r := run(t, s, ctx, id, "echo hello >ask; until [ -s heard ]; do sleep 0.01; done; cat heard count"); r.Stdout.Text != "hello\nran\n" {
		t.Errorf("got %+v", r)
	}
	if err := s.HandOver(ctx); err != nil {
		t.Fatal(err)
	}
	db.Close()
	s, _, ctx = serviceOf(t, rows, data) // the way in is still there
	if r := run(t, s, ctx, id, "cat heard"); r.Stdout.Text != "hello\n" || r.Restarted {
		t.Errorf("got %+v", r)
	}
}

// TestHandOver ends a gateway in order and leaves its containers to the next one.
func TestHandOver(t *testing.T) {
	data := t.TempDir()
	first, db, ctx := serviceOf(t, data, data)
	id := create(t, first, ctx)
	c := container.Command{Key: "call", Lease: "resp", Fence: 1, Script: "echo one; until [ -e go ]; do sleep 0.01; done; echo two"}
	caller, leave := context.WithCancel(ctx)
	old, err := first.Exec(caller, org, id, c)
	if err != nil {
		t.Fatal(err)
	}
	for d := range old.Follow(ctx) {
		if d.Stdout != "one\n" {
			t.Errorf("got %q", d.Stdout)
		}
		break
	}
	old.Release()
	leave()
	if err := first.HandOver(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Wait(ctx); code(err) != container.CodeHandedOver {
		t.Errorf("the old owner was told %v", err)
	}
	db.Close()
	second, ctx := service(t, data)
	e := reattach(t, ctx, second, id, c, container.Started)
	put(t, data, id, "go")
	if r, err := e.Wait(ctx); err != nil || r.Stdout.Text != "one\ntwo\n" {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestHandOverLeavesOnlyWhatLives: a box in which nothing does ends with its gateway.
func TestHandOverLeavesOnlyWhatLives(t *testing.T) {
	data, mark := t.TempDir(), fmt.Sprintf("76%05d", os.Getpid())
	s, db, ctx := serviceOf(t, data, data)
	idle, busy := create(t, s, ctx), create(t, s, ctx)
	run(t, s, ctx, idle, "echo kept >kept")
	run(t, s, ctx, busy, "sleep "+mark+" >/dev/null 2>&1 &")
	if err := s.HandOver(ctx); err != nil {
		t.Fatal(err)
	}
	var left []string // the process and its resident
	for end := time.Now().Add(30 * time.Second); len(left) != 2 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left = strays(data, mark) // the process may still be its parent's copy
	}
	if len(left) != 2 {
		t.Errorf("left %q", left)
	}
	db.Close()
	s, ctx = service(t, data)
	if r := run(t, s, ctx, idle, "cat kept"); r.Stdout.Text != "kept\n" || r.Restarted {
		t.Errorf("got %+v", r)
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	none(t, data, mark)
}

// TestCloseTellsOfALossOnly: whoever ends a server on purpose is told of what that ended, if it ended anything.
func TestCloseTellsOfALossOnly(t *testing.T) {
	data := t.TempDir()
	s, db, ctx := serviceOf(t, data, data)
	idle, busy := create(t, s, ctx), create(t, s, ctx)
	run(t, s, ctx, idle, "true")
	run(t, s, ctx, busy, "sleep 1000 >/dev/null 2>&1 &")
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	db.Close()
	s, ctx = service(t, data)
	if run(t, s, ctx, idle, "true").Restarted || !run(t, s, ctx, busy, "true").Restarted {
		t.Error("a loss is not told, or one that was none")
	}
}

// TestUnknownVersionIsReplaced has a gateway find a box of a version that it does not speak.
func TestUnknownVersionIsReplaced(t *testing.T) {
	data, mark := t.TempDir(), fmt.Sprintf("78%05d", os.Getpid())
	g := startGateway(t, data)
	id := g.do(order{What: "create"})
	c := container.Command{Key: "call", Lease: "resp", Fence: 1, Script: "echo kept >kept; echo partial; touch up; sleep " + mark}
	g.do(order{What: "start", ID: id, Command: c})
	until(t, data, id, "up", "")
	report := filepath.Join(data, "containers", id, "box", "report.json")
	ours := fmt.Sprintf(`"version": %d`, resident.Version)
	var text []byte
	for end := time.Now().Add(time.Minute); !strings.Contains(string(text), ours); time.Sleep(10 * time.Millisecond) {
		if text, _ = os.ReadFile(report); time.Now().After(end) {
			t.Fatalf("the report has no %s: %s", ours, text)
		}
	}
	g.kill()
	if err := os.WriteFile(report, []byte(strings.Replace(string(text), ours, `"version": 99`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, ctx := service(t, data)
	none(t, data, mark)
	e := reattach(t, ctx, s, id, c, container.Gone)
	if r, err := e.Wait(ctx); err == nil || r.Stdout.Text != "partial\n" {
		t.Errorf("got %+v, %v", r, err)
	}
	if r := run(t, s, ctx, id, "cat kept"); r.Stdout.Text != "kept\n" || !r.Restarted {
		t.Errorf("the next call: %+v", r)
	}
	if r := run(t, s, ctx, id, "true"); r.Restarted {
		t.Error("told twice")
	}
}

// TestWhatNobodyOwnsIsEnded changes the rows of living containers while there is no gateway.
func TestWhatNobodyOwnsIsEnded(t *testing.T) {
	for what, change := range map[string]string{
		"deleted": `UPDATE container SET status = 'deleted'`,
		"expired": `UPDATE container SET status = 'expired', ended = 1, due = 9000000000000`,
		"unknown": `DELETE FROM container_file; DELETE FROM container`,
	} {
		data, mark := t.TempDir(), fmt.Sprintf("79%05d", os.Getpid())
		g := startGateway(t, data)
		id := g.do(order{What: "create"})
		g.do(order{What: "run", ID: id, Command: container.Command{Script: "sleep " + mark + " >/dev/null 2>&1 & echo x >kept"}})
		g.kill()
		if len(strays(data, mark)) == 0 {
			t.Fatal("nothing to end")
		}
		db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(data, "hardshell.db")})
		if err != nil {
			t.Fatal(err)
		}
		err = exec1(t.Context(), db, change)
		db.Close()
		if err != nil {
			t.Fatal(err)
		}
		s, ctx := service(t, data)
		none(t, data, mark)
		_, err = os.Stat(filepath.Join(data, "containers", id))
		if kept := err == nil; kept != (what == "expired") {
			t.Errorf("%s: its folder: %v", what, err)
		}
		if err := s.Close(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
