package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

func TestTools(t *testing.T) {
	for _, older := range []bool{false, true} {
		r := newRig(t, "", nil, func(c *Config) { c.Older = older })
		list, err := r.client.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			schema, err := json.Marshal(tool.InputSchema)
			if err != nil || !strings.Contains(string(schema), `"additionalProperties":false`) || tool.Description == "" {
				t.Errorf("%s: %s %v", tool.Name, schema, err)
			}
		}
		slices.Sort(names)
		want := []string{"exec_command", "restart", "write_stdin"}
		if older {
			want = []string{"container.exec", "exec_command", "restart", "shell", "shell_command", "write_stdin"}
		}
		if !slices.Equal(names, want) {
			t.Errorf("older %v: %v", older, names)
		}
	}
}

func TestAnInteractivePython(t *testing.T) {
	jail(t)
	_, err := os.Stat("/usr/bin/python3")
	require.Feature(t, "python", err)
	for _, protocol := range both {
		t.Run(protocol, func(t *testing.T) {
			r := newRig(t, protocol, nil, nil)
			first := r.call("exec_command", `{"cmd":"exec /usr/bin/python3 -q","tty":true,"yield_time_ms":250}`)
			id := strconv.Itoa(first.Session)
			r.until(id, ">>> $", first.Output)
			r.until(id, "\n42", r.call("write_stdin", `{"session_id":`+id+`,"chars":"print(6*7)\n"}`).Output)
			r.until(id, "begun", r.call("write_stdin", `{"session_id":`+id+`,"chars":"import time; print('be'+'gun'); time.sleep(500)\n"}`).Output)
			r.until(id, "KeyboardInterrupt", r.call("write_stdin", `{"session_id":`+id+`,"chars":"\u0003"}`).Output)
			last := r.call("write_stdin", `{"session_id":`+id+`,"chars":"exit(3)\n","wait_for":{"exit":true}}`)
			if last.ExitCode == nil || *last.ExitCode != 3 || !strings.Contains(last.text, "exited with code 3") {
				t.Errorf("%+v", last)
			}
		})
	}
}

// A call that is not done by the bound answers with a number, and write_stdin goes on with it.
func TestNoCallBlocksLonger(t *testing.T) {
	for _, protocol := range both {
		t.Run(protocol, func(t *testing.T) {
			clock := newClock()
			began, release := make(chan struct{}, 1), make(chan struct{})
			tools := terminal.NewRegistry()
			tools.Register("shell_command", tester{func(ctx context.Context) (string, error) {
				began <- struct{}{}
				select {
				case <-release:
					return "all built", nil
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
			}})
			notes := make(chan *mcp.ProgressNotificationParams, 100)
			client := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { notes <- r.Params }}
			r := newRig(t, protocol, client, func(c *Config) { c.Registry, c.Older, c.Clock = tools, true, clock })
			late := func(tool, arguments string, token any) (reply, time.Duration) {
				type answer struct {
					reply
					err error
				}
				got, start := make(chan answer, 1), clock.Now()
				go func() {
					out, err := r.try(t.Context(), tool, arguments, token)
					got <- answer{out, err}
				}()
				for end := time.After(patience); ; {
					select {
					case a := <-got:
						if a.err != nil {
							t.Fatal(a.err)
						}
						return a.reply, clock.Now().Sub(start)
					case <-end:
						t.Fatal("no answer")
					case <-time.After(5 * time.Millisecond):
						last := start.Add(Bound)
						if next := clock.Now().Add(beat); token != nil && next.Before(last) {
							last = next // a beat comes before anything else, once it is set
						}
						clock.nextUntil(last)
					}
				}
			}
			first, took := late("shell_command", `{"command":"make"}`, "token")
			<-began
			if took > Bound || took < Bound/2 || first.State != "pending" || first.bad || first.Session == 0 || !strings.Contains(first.text, "write_stdin") {
				t.Errorf("after %v: %+v", took, first)
			}
			for n := range 3 {
				select {
				case note := <-notes:
					if note.ProgressToken != "token" || note.Message == "" {
						t.Errorf("note %d: %+v", n, note)
					}
				case <-time.After(patience):
					t.Fatalf("only %d notes of progress", n)
				}
			}
			again, took := late("write_stdin", `{"session_id":`+strconv.Itoa(first.Session)+`}`, nil)
			if took > Bound || again.Session != first.Session {
				t.Errorf("after %v: %+v", took, again)
			}
			close(release)
			if last := r.call("write_stdin", `{"process_id":"`+first.Process+`"}`); last.text != "all built" {
				t.Errorf("%+v", last)
			}
			if gone := r.call("write_stdin", `{"process_id":"`+first.Process+`"}`); !gone.bad || !strings.Contains(gone.text, "no session") {
				t.Errorf("%+v", gone)
			}
		})
	}
}

// The sessions' own waits are shorter than the bound, so that they answer as sessions.
func TestASessionAnswersWithinTheBound(t *testing.T) {
	jail(t)
	clock := newClock()
	clock.ignore = []time.Duration{session.ProbeLimit, session.SpawnLimit} // a busy machine is no broken one
	r := newRig(t, "", nil, func(to *Config) { to.Clock = clock })
	got := make(chan reply, 1)
	start := clock.Now()
	go func() { got <- r.call("exec_command", `{"cmd":"touch begun; sleep 600","wait_for":{"exit":true}}`) }()
	waitFor(t, "the command begins", func() bool { return exists(filepath.Join(r.work, "begun")) })
	for end := time.After(patience); ; {
		select {
		case first := <-got:
			if first.Session == 0 || first.Process == "" || !strings.Contains(first.text, "running with session ID") {
				t.Errorf("after %v: %+v", clock.Now().Sub(start), first)
			}
			return
		case <-end:
			t.Fatal("it does not answer")
		case <-time.After(5 * time.Millisecond):
			clock.nextUntil(start.Add(Bound - 2*margin)) // the door's own answer would come after that
		}
	}
}

func TestCancelKills(t *testing.T) {
	jail(t)
	for _, protocol := range both {
		for _, by := range []string{"exec_command", "write_stdin"} {
			t.Run(protocol+" "+by, func(t *testing.T) {
				r := newRig(t, protocol, nil, nil)
				begun := filepath.Join(r.work, "begun")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				over := make(chan error, 1)
				start := `{"cmd":"touch begun; sleep 600; touch late","process_id":"job","wait_for":{"exit":true}}`
				if by == "write_stdin" {
					r.call("exec_command", `{"cmd":"read line; touch begun; sleep 600; touch late","tty":true,"process_id":"job","yield_time_ms":250}`)
				}
				go func() {
					arguments := start
					if by == "write_stdin" {
						arguments = `{"process_id":"job","chars":"\n","wait_for":{"exit":true}}`
					}
					_, err := r.try(ctx, by, arguments, nil)
					over <- err
				}()
				waitFor(t, "the command begins", func() bool { return exists(begun) })
				cancel()
				if err := <-over; !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
				waitFor(t, "the command ends", func() bool {
					got, err := r.try(t.Context(), "write_stdin", `{"process_id":"job","yield_time_ms":250}`, nil)
					return err == nil && (got.ExitCode != nil && *got.ExitCode != 0 || strings.Contains(got.text, "no session"))
				})
				if exists(filepath.Join(r.work, "late")) {
					t.Error("it ran on")
				}
			})
		}
	}
}

func TestDetachedGoesOn(t *testing.T) {
	jail(t)
	r := newRig(t, "", nil, func(c *Config) { c.Detach = true })
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := r.try(ctx, "exec_command", `{"cmd":"touch begun; until [ -e go ]; do sleep 0.02; done; touch done","wait_for":{"exit":true}}`, nil)
		over <- err
	}()
	waitFor(t, "the command begins", func() bool { return exists(filepath.Join(r.work, "begun")) })
	cancel()
	<-over
	if err := os.WriteFile(filepath.Join(r.work, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the command ends by itself", func() bool { return exists(filepath.Join(r.work, "done")) })
}

func TestRestart(t *testing.T) {
	jail(t)
	r := newRig(t, "", nil, nil)
	start := `{"cmd":"trap '' TERM INT HUP; echo x >> starts; echo begun; sleep 600","wait_for":{"pattern":"begun"}`
	for _, name := range []string{"", "web", "1234"} {
		arguments := start + `}`
		if name != "" {
			arguments = start + `,"process_id":"` + name + `"}`
		}
		first := r.call("exec_command", arguments)
		other := r.call("exec_command", `{"cmd":"sleep 600","yield_time_ms":250}`)
		for range 2 { // of one that runs, and again
			again := r.call("restart", `{"session_id":"`+first.Process+`"}`)
			if again.bad || again.Process != first.Process || again.ExitCode != nil || !strings.Contains(again.Output, "begun") {
				t.Errorf("%q: %+v", name, again)
			}
		}
		if got := r.call("write_stdin", `{"process_id":"`+other.Process+`","yield_time_ms":250}`); got.ExitCode != nil {
			t.Errorf("another session was touched: %+v", got)
		}
	}
	ended := r.call("exec_command", `{"cmd":"exit 4","wait_for":{"exit":true}}`)
	if again := r.call("restart", `{"session_id":`+ended.Process+`}`); again.ExitCode == nil && again.Session == 0 {
		t.Errorf("one that had ended: %+v", again)
	}
	if text, err := os.ReadFile(filepath.Join(r.work, "starts")); err != nil || strings.Count(string(text), "x") != 9 {
		t.Errorf("%q %v", text, err)
	}
	if got := r.call("restart", `{"session_id":77}`); !got.bad || got.Failure != "rejected" {
		t.Errorf("%+v", got)
	}
}

// TestTheStageIsNamed: what is not the command's fault says where it came up.
func TestTheStageIsNamed(t *testing.T) {
	tools := terminal.NewRegistry()
	tools.Register("exec_command", tester{func(context.Context) (string, error) { return "", errors.New("the wheel came off") }})
	r := newRig(t, "", nil, func(c *Config) { c.Registry = tools; c.Terminal.Backend = broke{}; c.Older = true })
	if got := r.call("exec_command", `{"cmd":"ls"}`); !got.bad || got.Failure != "io" || got.Stage != "call" || !strings.HasPrefix(got.text, "infrastructure: call: ") {
		t.Errorf("%+v", got)
	}
	if got := r.call("shell_command", `{"command":"ls"}`); !got.bad || got.Failure != "io" || got.Stage != "sandbox" || !strings.Contains(got.text, "infrastructure: sandbox: ") {
		t.Errorf("%+v", got)
	}
}

// TestTheEndOfTheConnection takes every command with it.
func TestTheEndOfTheConnection(t *testing.T) {
	jail(t)
	r := newRig(t, "", nil, nil)
	r.call("exec_command", `{"cmd":"while :; do touch alive; sleep 0.02; done","yield_time_ms":250}`)
	alive := filepath.Join(r.work, "alive")
	waitFor(t, "the command begins", func() bool { return exists(alive) })
	r.close()
	if err := os.Remove(alive); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // it would be there again after a fifth of it
	if exists(alive) {
		t.Error("it still runs")
	}
}

// TestTheServersEnd ends what is under way: nobody waits for a command that would go on for hours.
func TestTheServersEnd(t *testing.T) {
	tools := terminal.NewRegistry()
	began := make(chan struct{})
	tools.Register("exec_command", tester{func(ctx context.Context) (string, error) {
		close(began)
		<-ctx.Done()
		return "", context.Cause(ctx)
	}})
	work := t.TempDir()
	c := config(t, work)
	c.Registry = tools
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	here, there := mcp.NewInMemoryTransports()
	go func() { served <- Serve(ctx, here, c) }()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	go client.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec_command", Arguments: map[string]any{"cmd": "sleep"}})
	<-began
	cancel()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it waits for the call")
	}
}
