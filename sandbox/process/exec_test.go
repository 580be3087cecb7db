package process

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

func TestAnExecEnvBecomesACommand(t *testing.T) {
	token, cancel := context.WithCancel(t.Context())
	defer cancel()
	env := ExecEnv{Command: []string{"/bin/sh", "-c", "true"}, Cwd: "/tmp", Arg0: "-sh", Env: map[string]string{"B": "2", "A": "1=1"}}
	tests := []struct {
		name       string
		expiration ExecExpiration
		timeout    time.Duration
		want       fault.Kind // Internal stands for "accepted"
	}{
		{"nothing is said", ExecExpiration{}, DefaultExecTimeout, fault.Internal},
		{"the default", DefaultTimeout(), DefaultExecTimeout, fault.Internal},
		{"its own", Timeout(3 * time.Second), 3 * time.Second, fault.Internal},
		{"a token", Cancellation(token), 0, fault.Internal},
		{"no time at all", Timeout(0), 0, fault.Invalid},
		{"less than none", Timeout(-1), 0, fault.Invalid},
		{"no token", ExecExpiration{Type: ExpirationCancellation}, 0, fault.Invalid},
		{"no such kind", ExecExpiration{Type: 9}, 0, fault.Invalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := env
			e.Expiration = tt.expiration
			got, err := e.At("k", 2)
			if (err == nil) != (tt.want == fault.Internal) || fault.KindOf(err) != tt.want {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			want := Command{Key: "k", Index: 2, Argv: env.Command, Arg0: "-sh", Env: []string{"A=1=1", "B=2"}, Dir: "/tmp", Timeout: tt.timeout}
			if err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// played starts jobs whose folder a test writes.
type played struct {
	*writer
	command Command
	refused error
	started chan struct{}
}

func (p *played) Start(_ context.Context, c Command) (*Job, error) {
	p.command = c
	close(p.started)
	return p.job, p.refused
}

func newPlayed(t *testing.T) *played {
	p := &played{writer: newWriter(t), started: make(chan struct{})}
	p.job.ctl = onlyKill(func() {
		p.job.End(Exit{Code: ExitCodeSignalBase + 9, Signal: "SIGKILL", Cancelled: true, Stdout: p.size[Stdout], Stderr: p.size[Stderr]})
	})
	return p
}

func TestRunGivesTheWholeResult(t *testing.T) {
	p := newPlayed(t)
	p.write(Stdout, "one\n")
	p.write(Stderr, "bad \xff\n")
	p.write(Stdout, "two\n")
	began := time.Now()
	p.job.End(Exit{Code: 7, Stdout: 8, Stderr: 6, Started: began, Ended: began.Add(time.Second), StderrLost: 5})
	got, err := ExecEnv{Command: []string{"x"}}.Run(t.Context(), p, "k", 0)
	want := ExecToolCallOutput{ExitCode: 7, Duration: time.Second, Timeout: DefaultExecTimeout,
		Stdout:           StreamOutput{Text: "one\ntwo\n", Bytes: 8},
		Stderr:           StreamOutput{Text: "bad \uFFFD\n", Bytes: 6, ReplacedBytes: 1, LostBytes: 5},
		AggregatedOutput: StreamOutput{Text: "one\nbad \uFFFD\ntwo\n", Bytes: 14, ReplacedBytes: 1, LostBytes: 5}}
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestATimeOutIsNotAProgramsOwn124(t *testing.T) {
	for _, timedOut := range []bool{true, false} {
		p := newPlayed(t)
		p.write(Stdout, "until then\n")
		p.job.End(Exit{Code: ExecTimeoutExitCode, TimedOut: timedOut, Stdout: 11})
		got, err := ExecEnv{Command: []string{"x"}, Expiration: Timeout(time.Second)}.Run(t.Context(), p, "k", 0)
		if err != nil || got.ExitCode != 124 || got.TimedOut != timedOut || got.Stdout.Text != "until then\n" || got.Timeout != time.Second {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestAnInterruptKeepsTheOutput(t *testing.T) {
	interrupts := map[string]func(t *testing.T) (ctx context.Context, e ExecExpiration, interrupt func()){
		"the context": func(t *testing.T) (context.Context, ExecExpiration, func()) {
			ctx, cancel := context.WithCancel(t.Context())
			return ctx, ExecExpiration{}, cancel
		},
		"the token": func(t *testing.T) (context.Context, ExecExpiration, func()) {
			token, cancel := context.WithCancel(context.Background())
			return t.Context(), Cancellation(token), cancel
		},
	}
	for name, make := range interrupts {
		t.Run(name, func(t *testing.T) {
			ctx, e, interrupt := make(t)
			p := newPlayed(t)
			p.write(Stdout, "until then\n")
			go func() {
				<-p.started
				interrupt()
			}()
			got, err := ExecEnv{Command: []string{"x"}, Expiration: e}.Run(ctx, p, "k", 0)
			if err != nil || got.ExitCode != 137 || !got.Cancelled || got.TimedOut || got.Stdout.Text != "until then\n" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestACancelledTokenStartsNothing(t *testing.T) {
	token, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	p := newPlayed(t)
	if _, err := (ExecEnv{Command: []string{"x"}, Expiration: Cancellation(token)}).Run(t.Context(), p, "k", 0); err != enough || p.command.Key != "" {
		t.Errorf("started %+v, %v", p.command, err)
	}
}

func TestALostRunHasItsOutput(t *testing.T) {
	p := newPlayed(t)
	p.write(Stderr, "partial")
	p.job.Lost(nil)
	got, err := ExecEnv{Command: []string{"x"}}.Run(t.Context(), p, "k", 0)
	if fault.KindOf(err) != fault.Unavailable || got.Stderr.Text != "partial" || got.AggregatedOutput.Bytes != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestPermissionsAndSandboxesHaveTheSeedsNames(t *testing.T) {
	for _, p := range []SandboxPermissions{UseDefault, RequireEscalated} {
		var again SandboxPermissions
		text, err := p.MarshalText()
		if err != nil || again.UnmarshalText(text) != nil || again != p {
			t.Errorf("%v: %q, %v", p, text, err)
		}
	}
	p := RequireEscalated
	if err := p.UnmarshalText(nil); err != nil || p != UseDefault {
		t.Errorf("none at all: %v, %v", p, err)
	}
	if err := p.UnmarshalText([]byte("root")); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
	if _, err := SandboxPermissions(7).MarshalText(); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
	if got := SandboxLinuxSeccomp.String() + SandboxNone.String() + SandboxType(9).String(); got != "LinuxSeccompNoneunknown" {
		t.Errorf("got %s", got)
	}
}
