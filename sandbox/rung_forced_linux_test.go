package sandbox_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// Machines on which no jail can be made, and what each is told to do about it.
var jailless = []struct {
	stage stage
	cause string // of the refusal, for the operator
	try   string
	root  string // the remedy for root, where it is another
}{
	{stage: maskedProc, cause: "/proc: operation not permitted",
		try: "give the container a whole /proc: docker run --security-opt systempaths=unconfined, in Kubernetes procMount: Unmasked"},
	{stage: noMoreNamespaces, cause: "no space left on device", try: "sysctl -w user.max_user_namespaces=65536"},
	{stage: filteredClone, cause: "operation not permitted",
		try: "sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 (in a container: allow user namespaces in its seccomp profile)"},
	{stage: powerlessNamespaces, cause: "permission denied",
		try:  "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (or a profile of the security module that lets this program use user namespaces)",
		root: "sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 (in a container: allow user namespaces in its seccomp profile)"},
	{stage: engineContainer, cause: "operation not permitted",
		try:  "sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 (in a container: allow user namespaces in its seccomp profile)",
		root: "in a container, run as an ordinary user with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, or as root with --cap-add SYS_ADMIN --security-opt apparmor=unconfined besides"},
}

const noJail = "a sandbox cannot be made on this machine"

// A hosted box, and a local one for which nothing less was allowed, are refused with the reason and the remedy.
func TestAJailThatCannotBeMadeIsRefused(t *testing.T) {
	for _, m := range jailless {
		t.Run(m.stage.name, func(t *testing.T) {
			onStage(t, m.stage, func(t *testing.T) {
				try := m.try
				if m.root != "" && os.Geteuid() == 0 {
					try = m.root
				}
				for _, c := range cages {
					t.Run(c.name, func(t *testing.T) {
						w := newWorld(t)
						spec := c.spec(t, w)
						box, err := sandbox.Open(t.Context(), spec)
						if err == nil {
							box.Close()
							t.Fatalf("opened: %+v", box.Report())
						}
						f, ok := fault.As(err)
						if !ok || f.Kind != fault.Isolation || f.Message != noJail || f.Cause == nil || !strings.HasSuffix(f.Cause.Error(), m.cause) {
							t.Errorf("got %v", err)
						}
						// Root's own folders are cloned by us, before there is a resident; a box that only reads has none.
						if ok && f.Try != try && !(strings.HasPrefix(c.name, "read-only") && f.Try == m.try) {
							t.Errorf("try %q, want %q", f.Try, try)
						}
						if left, _ := os.ReadDir(spec.Dir); slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == "control" || e.Name() == "report.json" }) {
							t.Errorf("left behind: %v", left)
						}
					})
				}
				t.Run("doctor", func(t *testing.T) {
					layers := sandbox.Probe(t.Context())
					i := slices.IndexFunc(layers, func(l sandbox.Layer) bool { return l.Name == "jail" })
					if l := layers[i]; l.State != sandbox.Missing || !strings.Contains(l.Detail, m.cause) || l.Remedy != try {
						t.Errorf("got %+v", l)
					}
					if err := sandbox.Supported(t.Context()); fault.KindOf(err) != fault.Isolation {
						t.Errorf("supported: %v", err)
					}
				})
			})
		})
	}
}
