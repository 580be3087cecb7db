package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// Where no jail can be made, a local box whose policy accepts it is restricted, and says what it lacks, why, and what
// would help.
func TestBelowTheJailOnlyWhereItIsAccepted(t *testing.T) {
	landlock(t)
	for _, m := range jailless {
		t.Run(m.stage.name, func(t *testing.T) {
			onStage(t, m.stage, func(t *testing.T) {
				for _, mode := range []sandbox.Mode{sandbox.ReadOnly, sandbox.WorkspaceWrite} {
					t.Run(mode.String(), func(t *testing.T) {
						w := newWorld(t)
						spec := local(mode, sandbox.NetworkOff)(t, w)
						if box, err := sandbox.Open(t.Context(), spec); fault.KindOf(err) != fault.Isolation {
							t.Errorf("got %v, %v", box, err)
						}
						spec.Policy.Least = sandbox.RungRestricted
						box, err := sandbox.Open(t.Context(), spec)
						if err != nil {
							t.Fatal(err)
						}
						defer box.Close()
						r := box.Report()
						if r.Asked != sandbox.RungJail || r.Got != sandbox.RungRestricted || len(r.Remedies) == 0 || !strings.HasPrefix(r.Missing[0], "jail: ") || !strings.Contains(r.Missing[0], m.cause) {
							t.Errorf("report %+v", r)
						}
						c := bash("echo x >in; echo x 2>/dev/null >" + w.root + "/out; exec 3<>/dev/tcp/127.0.0.1/1")
						c.Dir = spec.Cwd
						if got := run(t, box, c); got.Code == 0 || !strings.Contains(got.err, "Operation not permitted") {
							t.Errorf("got %+v", got)
						}
						_, in := os.Stat(filepath.Join(spec.Cwd, "in"))
						_, out := os.Stat(w.at("out"))
						if (in == nil) != (mode == sandbox.WorkspaceWrite) || out == nil {
							t.Errorf("written inside: %v, outside: %v", in == nil, out == nil)
						}
					})
				}
				t.Run("asked", func(t *testing.T) {
					if rung, err := sandbox.SupportedRung(t.Context()); rung != sandbox.RungRestricted || fault.KindOf(err) != fault.Isolation {
						t.Errorf("got %q, %v", rung, err)
					}
				})
			})
		})
	}
}

func TestAHostedBoxIsAJailOrIsNot(t *testing.T) {
	p := newPlace(t)
	p.spec.Policy.Least = sandbox.RungRestricted
	if box, err := sandbox.Open(t.Context(), p.spec); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v, %v", box, err)
	}
}

func TestAJailIsTakenWhereItCanBeHad(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base, work := workplace(t)
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: sandbox.Policy{Least: sandbox.RungRestricted}})
	must(t, err)
	defer box.Close()
	if r := box.Report(); r.Got != sandbox.RungJail || r.Mode != "read-only" || r.Network != "off" {
		t.Errorf("report %+v", r)
	}
	if rung, err := sandbox.SupportedRung(t.Context()); rung != sandbox.RungJail || err != nil {
		t.Errorf("got %q, %v", rung, err)
	}
}

func TestOnlySuccessIsRemembered(t *testing.T) {
	var answers []error
	ask := sandbox.Remembering(func() error {
		e := answers[0]
		answers = answers[1:]
		return e
	})
	wrong := errors.New("not yet")
	answers = []error{wrong, wrong, nil}
	for i, want := range []error{wrong, wrong, nil, nil, nil} {
		if got := ask(t.Context()); got != want {
			t.Errorf("%d: got %v, want %v", i, got, want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := ask(ended); err == nil {
		t.Error("asked although the caller had gone")
	}
}

func TestWithoutRestrictionsTheNetworkIsNotSaidToBeOff(t *testing.T) {
	base := t.TempDir()
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: base, Policy: sandbox.Policy{Mode: sandbox.DangerFullAccess}})
	must(t, err)
	defer box.Close()
	r := box.Report()
	if r.Network != "full" || !slices.ContainsFunc(r.Missing, func(m string) bool { return strings.HasPrefix(m, "network: not off") }) {
		t.Errorf("report %+v", r)
	}
	if got := run(t, box, bash("env | grep -c SANDBOX")); got.out != "0\n" {
		t.Errorf("got %+v", got)
	}
}
