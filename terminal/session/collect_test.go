package session

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// room runs a test in a bubble of its own time, with a store that is closed at its end.
func room(t *testing.T, test func(t *testing.T, store *Store, box *fake)) {
	t.Helper()
	box := newFake(t)
	synctest.Test(t, func(t *testing.T) {
		store := New(Options{})
		defer store.Close()
		test(t, store, box)
	})
}

func TestYieldIsMeasuredFromTheStart(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inPipe(box, "sleep", "1"))
		time.Sleep(100 * time.Millisecond) // what lies between the start and the first look is part of it
		got := collect(t, s, Wait{Yield: 250 * time.Millisecond})
		if got.Wall != 250*time.Millisecond || got.Fired != FiredYield || got.State != Running || got.Text() != "" {
			t.Errorf("%+v", got)
		}
		began := time.Now()
		got = collect(t, s, Wait{Yield: 300 * time.Millisecond}) // an empty poll counts from itself
		if took := time.Since(began); took != 300*time.Millisecond || got.Wall != took {
			t.Errorf("took %v, says %v", took, got.Wall)
		}
	})
}

func TestACommandThatEndsEarlyEndsTheWait(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inPipe(box, "make"))
		time.AfterFunc(70*time.Millisecond, func() {
			box.last().says("10%\r100%\nbuilt\n")
			box.last().print(process.Stderr, "\x1b[33mwarning\x1b[0m\n")
			box.last().exits(3)
		})
		got := collect(t, s, Wait{Yield: 30 * time.Second})
		if got.Wall != 70*time.Millisecond || got.Fired != FiredExit || got.State != Exited || got.Exit.Code != 3 {
			t.Errorf("%+v", got)
		}
		if want := "100%\nbuilt\nwarning\n"; got.Text() != want || got.TextBytes != int64(len(want)) || got.Tokens() != 5 {
			t.Errorf("%q, %d", got.Text(), got.TextBytes)
		}
		if got.Bytes != 15+17 || got.Raw != (Raw{StdoutTo: 15, StderrTo: 17}) {
			t.Errorf("%+v", got)
		}
		if code, ok := got.ExitCode(); code != 3 || !ok {
			t.Error(code, ok)
		}
		for range 3 { // asked again, it says it again
			if again := collect(t, s, Wait{Yield: time.Second}); again.Text() != got.Text() || again.Exit.Code != 3 {
				t.Errorf("%+v", again)
			}
		}
		wantKind(t, s.Write(t.Context(), []byte("x")), fault.Conflict)
	})
}

func TestUnreadOutputOfAnEndedSession(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inPipe(box, "job"))
		box.last().says("one\n")
		if got := collect(t, s, Wait{Yield: time.Second}); got.Text() != "one\n" {
			t.Errorf("%+v", got)
		}
		box.last().says("two\n")
		box.last().exits(0)
		<-s.Done()
		for range 2 {
			if got := collect(t, s, Wait{}); got.Text() != "two\n" || got.State != Exited || got.Total != 8 {
				t.Errorf("%+v", got)
			}
		}
	})
}

// R14 and R21: a build of nine minutes costs one call after its start, or two; over a door that waits 45 seconds at
// most, one per 45 seconds.
func TestALongBuildCostsFewCalls(t *testing.T) {
	for name, c := range map[string]struct {
		wait Wait
		most int
	}{
		"library and command line": {Wait{Until: Until{Exit: true}}, 2},
		"with a ceiling of five":   {Wait{Until: Until{Exit: true}, Ceiling: 5 * time.Minute}, 2},
		"over MCP":                 {Wait{Until: Until{Exit: true}, Longest: 45 * time.Second}, 12},
	} {
		t.Run(name, func(t *testing.T) {
			room(t, func(t *testing.T, store *Store, box *fake) {
				s := start(t, store, inPipe(box, "make", "all"))
				job := box.last()
				go func() {
					for range 9 * 60 {
						time.Sleep(time.Second)
						job.says("\rbuilding")
					}
					job.exits(0)
				}()
				if first := collect(t, s, Wait{Yield: 10 * time.Second}); first.State != Running {
					t.Fatalf("%+v", first)
				}
				calls := 0
				for {
					calls++
					got := collect(t, s, c.wait)
					if c.wait.Longest > 0 && got.State == Running && got.Capped != c.wait.Longest {
						t.Fatalf("shortened, and not told: %+v", got)
					}
					if got.State == Exited {
						break
					}
				}
				if calls > c.most {
					t.Errorf("%d calls", calls)
				}
			})
		})
	}
}

func TestWaitForAPattern(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inPipe(box, "serve"))
		job := box.last()
		job.says("Listening on 1\n") // before anybody asked
		until := Until{Pattern: regexp.MustCompile(`(?i)listening on \d+`)}
		if got := collect(t, s, Wait{Until: until}); got.Fired != FiredPattern || got.Match != "Listening on 1" || got.Wall != 0 {
			t.Errorf("%+v", got)
		}
		time.AfterFunc(3*time.Minute, func() { job.says("listening \x1b[1mon\x1b[0m 22\n") })
		if got := collect(t, s, Wait{Until: until}); got.Fired != FiredPattern || got.Match != "listening on 22" || got.Wall != 3*time.Minute {
			t.Errorf("%+v", got)
		}
		time.AfterFunc(time.Minute, func() { job.says(strings.Repeat("x\n", 100) + "listening on 3\n" + strings.Repeat("y\n", 100)) })
		if got := collect(t, s, Wait{Until: until}); got.Fired != FiredPattern || got.Match != "listening on 3" {
			t.Errorf("%+v", got)
		}
		got := collect(t, s, Wait{Until: until})
		if got.Fired != FiredCeiling || got.Wall != DefaultCeiling || got.Capped != 0 {
			t.Errorf("%+v", got)
		}
		got = collect(t, s, Wait{Until: until, Ceiling: 100 * time.Hour})
		if got.Fired != FiredCeiling || got.Wall != MaxCeiling || got.Capped != MaxCeiling {
			t.Errorf("%+v", got)
		}
	})
}

func TestWaitForAPortAndForQuiet(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inPipe(box, "serve"))
		job := box.last()
		stop := make(chan struct{})
		go func() { // it prints all the time
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
					job.says(".")
				}
			}
		}()
		time.AfterFunc(time.Minute, func() { job.open(8080) })
		if got := collect(t, s, Wait{Until: Until{Port: 8080}}); got.Fired != FiredPort || got.Wall < time.Minute || got.Wall > time.Minute+time.Second {
			t.Errorf("%+v", got)
		}
		time.AfterFunc(time.Minute, func() { close(stop) })
		if got := collect(t, s, Wait{Until: Until{Quiet: 2 * time.Second}}); got.Fired != FiredQuiet ||
			got.Wall < time.Minute+2*time.Second-40*time.Millisecond || got.Wall > time.Minute+2*time.Second+40*time.Millisecond {
			t.Errorf("%+v", got)
		}
	})
}

func TestABackgroundJob(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		spec := inPipe(box, "npm", "run", "dev")
		spec.Background = true
		plain := start(t, store, spec)
		if got := collect(t, plain, Wait{Yield: time.Minute}); got.Ready != JobRunning || got.Wall != DefaultSettle {
			t.Errorf("%+v", got)
		}
		spec.Ready = Until{Port: 5173}
		served := start(t, store, spec)
		job := box.last()
		time.AfterFunc(500*time.Millisecond, func() { job.open(5173) })
		if got := collect(t, served, Wait{}); got.Ready != JobReady || got.Fired != FiredPort || got.Wall > time.Second {
			t.Errorf("%+v", got)
		}
		for range 10 { // it still answers
			if got := collect(t, served, Wait{Yield: time.Second}); got.Ready != JobReady || got.State != Running {
				t.Errorf("%+v", got)
			}
		}
		spec.Ready = Until{Pattern: regexp.MustCompile("ready in")}
		late := start(t, store, spec)
		if got := collect(t, late, Wait{}); got.Ready != JobRunning {
			t.Errorf("%+v", got)
		}
		box.last().says("ready in 3 s\n") // between two calls
		synctest.Wait()
		if got := collect(t, late, Wait{Yield: time.Second}); got.Ready != JobReady {
			t.Errorf("%+v", got)
		}
		dead := start(t, store, spec)
		box.last().says("EADDRINUSE\n")
		box.last().exits(1)
		if got := collect(t, dead, Wait{}); got.Ready != JobExited || got.Exit.Code != 1 || got.Text() != "EADDRINUSE\n" || got.Wall > time.Second {
			t.Errorf("%+v", got)
		}
	})
}

func TestASandboxThatDoesNotAnswer(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inTTY(box, "python3"))
		other := start(t, store, inTTY(box, "cat"))
		for _, job := range box.jobs {
			job.mute = job.command.Argv[0] == "python3"
		}
		began := time.Now()
		_, err := s.Collect(t.Context(), Wait{Yield: time.Minute})
		if e, ok := fault.As(err); !ok || e.Code != CodeInfrastructure || !strings.Contains(e.Message, "probe") || time.Since(began) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		again, err := store.Restart(t.Context(), s.ID())
		must(t, err)
		got := collect(t, again, Wait{Yield: 50 * time.Millisecond})
		if again.ID() != s.ID() || len(got.Notices) != 1 || !strings.Contains(got.Notices[0], "restarted") || !s.Over() {
			t.Errorf("%+v", got)
		}
		if other.Over() {
			t.Error("the other session was touched")
		}
	})
	room(t, func(t *testing.T, store *Store, box *fake) {
		box.hang = make(chan struct{})
		began := time.Now()
		_, err := store.Start(t.Context(), inTTY(box, "python3"))
		if e, ok := fault.As(err); !ok || e.Code != CodeInfrastructure || !strings.Contains(e.Message, "spawn") || time.Since(began) != SpawnLimit {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(box.hang)
		synctest.Wait()
		if !box.last().killed {
			t.Error("what was started late lives on")
		}
		if len(store.List()) != 0 {
			t.Errorf("%+v", store.List())
		}
	})
}

func TestAWriteThatNobodyReads(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inPipe(box, "true"))
		wantKind(t, s.Write(t.Context(), []byte("x")), fault.Unsupported)
		must(t, s.Interrupt(t.Context()))
		if len(box.last().signals) != 1 {
			t.Errorf("%v", box.last().signals)
		}
		tty := start(t, store, inTTY(box, "cat"))
		must(t, tty.Interrupt(t.Context()))
		must(t, tty.CloseInput(t.Context()))
		if string(box.last().typed) != "\x03\x04" {
			t.Errorf("%q", box.last().typed)
		}
	})
}
