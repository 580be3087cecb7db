package jail

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const askBoth = "curl -sS -m 60 http://a.test/; curl -sS -m 60 http://b.test/"

// asked runs a command with a network policy of its own.
func asked(t *testing.T, s *container.Service, ctx context.Context, id, script string, p *container.NetworkPolicy) container.Result {
	t.Helper()
	e, err := s.Exec(ctx, org, id, container.Command{Script: script, Network: p})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// reached says which of the hosts have answered.
func reached(r container.Result) string {
	var hosts []string
	for _, h := range []string{"a", "b"} {
		if strings.Contains(r.Stdout.Text, "this is "+h+".test") {
			hosts = append(hosts, h)
		}
	}
	return strings.Join(hosts, " ")
}

func TestARequestMayOnlyNarrow(t *testing.T) {
	n := newInternet(t, "a.test", "b.test")
	s, ctx := networked(t, t.TempDir(), n.network(t, "*"))
	c, err := s.Create(ctx, org, container.CreateSpec{Network: allow("a.test", "b.test")})
	if err != nil {
		t.Fatal(err)
	}
	none := &container.NetworkPolicy{Type: "disabled"}
	for _, step := range []struct {
		policy *container.NetworkPolicy
		want   string
	}{{nil, "a b"}, {allow("a.test"), "a"}, {none, ""}, {nil, "a b"}, {allow("b.test", "a.test"), "a b"}} {
		r := asked(t, s, ctx, c.ID, askBoth, step.policy)
		if got := reached(r); got != step.want || len(r.Blocked) != 2-len(strings.Fields(step.want)) {
			t.Errorf("with %v it reached %q, want %q; blocked %q", step.policy, got, step.want, r.Blocked)
		}
	}
	if _, err := s.Exec(ctx, org, c.ID, container.Command{Script: "true", Network: allow("c.test")}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a wider one: %v", err)
	}
	const admitted = fault.Kind(-1)
	for name, step := range map[string]struct {
		org, policy string
		want        fault.Kind
	}{
		"a part":           {org, `allowlist a.test`, admitted},
		"nothing":          {org, `disabled`, admitted},
		"more":             {org, `allowlist a.test c.test`, fault.Invalid},
		"another port":     {org, `allowlist a.test:22`, fault.Invalid},
		"another's":        {"org_other", `disabled`, fault.NotFound},
		"an unknown thing": {org, `open`, fault.Invalid},
	} {
		words := strings.Fields(step.policy)
		p := &openai.NetworkPolicy{Type: words[0], AllowedDomains: words[1:]}
		if err := s.Admits(ctx, step.org, c.ID, p); (err == nil) != (step.want == admitted) || err != nil && fault.KindOf(err) != step.want {
			t.Errorf("admit %s: %v", name, err)
		}
	}
	secret := &openai.NetworkPolicy{Type: "allowlist", AllowedDomains: []string{"a.test"}, DomainSecrets: []byte(`[{"domain":"a.test","name":"T","value":"new"}]`)}
	if err := s.Admits(ctx, org, c.ID, secret); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a secret that the container has not: %v", err)
	}
}

// TestNarrowedTogether: one box has one way out, so that who asks for less gets that by its neighbours' having less.
func TestNarrowedTogether(t *testing.T) {
	n := newInternet(t, "a.test", "b.test")
	s, ctx := networked(t, t.TempDir(), n.network(t, "*"))
	c, err := s.Create(ctx, org, container.CreateSpec{Network: allow("a.test", "b.test")})
	if err != nil {
		t.Fatal(err)
	}
	wait := func(name string, p *container.NetworkPolicy) *container.Execution {
		e, err := s.Exec(ctx, org, c.ID, container.Command{Script: "until [ -e " + name + " ]; do sleep 0.02; done", Network: p})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	one, two := wait("one", allow("a.test")), wait("two", allow("b.test"))
	if got := reached(run(t, s, ctx, c.ID, askBoth)); got != "" {
		t.Errorf("beside both: %q", got)
	}
	run(t, s, ctx, c.ID, "touch two")
	two.Wait(ctx)
	if got := reached(run(t, s, ctx, c.ID, askBoth)); got != "a" {
		t.Errorf("beside one: %q", got)
	}
	run(t, s, ctx, c.ID, "touch one")
	one.Wait(ctx)
	if got := reached(run(t, s, ctx, c.ID, askBoth)); got != "a b" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestANarrowedCommandOutlivesItsGateway and is not widened by the next one.
func TestANarrowedCommandOutlivesItsGateway(t *testing.T) {
	n := newInternet(t, "a.test", "b.test")
	data := t.TempDir()
	first, ctx, end := opened(t, data, n.network(t, "*"))
	c, err := first.Create(ctx, org, container.CreateSpec{Network: allow("a.test", "b.test")})
	if err != nil {
		t.Fatal(err)
	}
	command := container.Command{Key: "call", Script: "until [ -e go ]; do sleep 0.02; done; " + askBoth, Network: allow("a.test")}
	if _, err := first.Exec(ctx, org, c.ID, command); err != nil {
		t.Fatal(err)
	}
	if err := first.HandOver(ctx); err != nil {
		t.Fatal(err)
	}
	end()
	second, ctx := networked(t, data, n.network(t, "*"))
	if got := reached(run(t, second, ctx, c.ID, askBoth)); got != "a" {
		t.Errorf("beside it, before anybody asked for it: %q", got)
	}
	if err := os.WriteFile(filepath.Join(data, "containers", c.ID, "workspace", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	e, _, err := second.Reattach(ctx, org, c.ID, command)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := e.Wait(ctx); err != nil || reached(r) != "a" {
		t.Errorf("it reached %q, %v", reached(r), err)
	}
	untilWide(t, second, ctx, c.ID) // its job's end is seen twice, by whoever reattached and by who adopted
}

// untilWide waits until a container reaches all that it may.
func untilWide(t *testing.T, s *container.Service, ctx context.Context, id string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); reached(run(t, s, ctx, id, askBoth)) != "a b"; {
		if time.Now().After(end) {
			t.Fatal("afterwards it is still narrow")
		}
	}
}

// TestANarrowedCommandOutlivesTwoGateways, of which the second one only adopts it: nobody asks for it there.
func TestANarrowedCommandOutlivesTwoGateways(t *testing.T) {
	n := newInternet(t, "a.test", "b.test")
	data := t.TempDir()
	first, ctx, end := opened(t, data, n.network(t, "*"))
	c, err := first.Create(ctx, org, container.CreateSpec{Network: allow("a.test", "b.test")})
	if err != nil {
		t.Fatal(err)
	}
	command := container.Command{Key: "call", Script: "until [ -e go ]; do sleep 0.02; done", Network: allow("a.test")}
	if _, err := first.Exec(ctx, org, c.ID, command); err != nil {
		t.Fatal(err)
	}
	if err := first.HandOver(ctx); err != nil {
		t.Fatal(err)
	}
	end()
	second, ctx, end := opened(t, data, n.network(t, "*"))
	if err := second.HandOver(ctx); err != nil {
		t.Fatal(err)
	}
	end()
	third, ctx := networked(t, data, n.network(t, "*"))
	if got := reached(run(t, third, ctx, c.ID, askBoth)); got != "a" {
		t.Errorf("beside it, in the third: %q", got)
	}
	if err := os.WriteFile(filepath.Join(data, "containers", c.ID, "workspace", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	untilWide(t, third, ctx, c.ID) // its end is seen by nobody but who adopted it
}
