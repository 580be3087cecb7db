package agent

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// A container with a network policy and a secret: the next owner goes on, and the model hears the same of it.
func TestANetworkedResponseGoesOn(t *testing.T) {
	g, release := slowGround(t)
	h := newHouse(t, g)
	r := h.play(t, `{"model":"m","input":"go","background":true,"tools":[{"type":"shell","environment":{"type":"container_auto",
		"network_policy":{"type":"allowlist","allowed_domains":["a.test"],"domain_secrets":[{"domain":"a.test","name":"KEY","value":"canary"}]}}}]}`)
	until(t, "the command", func() bool { return g.ran("slow") })
	h.open()
	close(release)
	log, resp := h.await(r.id)
	checkLog(t, log)
	if resp.Status != openai.Completed {
		t.Fatalf("%s, %+v", resp.Status, resp.Error)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	first, last := g.asked[0].Tools, g.asked[len(g.asked)-1].Tools
	if !strings.Contains(first[0].Description, "a.test") || first[0].Description != last[0].Description {
		t.Errorf("the model was told\n%s\nand then\n%s", first[0].Description, last[0].Description)
	}
}

// What the row keeps of a request has no secret in it, whether or not there is a container for it.
func TestTheWorkHasNoSecret(t *testing.T) {
	secret := container.DomainSecret{Name: "KEY", Value: egress.NewValue("canary"), Given: true}
	for _, id := range []string{"", "cntr_1"} {
		p := &plan{request: request(t, `{"model":"m","input":"go","tools":[{"type":"shell"}]}`),
			place: place{id: id, spec: container.CreateSpec{MemoryLimit: "1g", Secrets: []container.DomainSecret{secret}}}}
		raw, err := p.work()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "canary") || strings.Contains(string(raw), "KEY") {
			t.Errorf("%s", raw)
		}
		g := newGround(t)
		_, a := newHouse(t, g).now()
		again, err := a.replan(within(t), &response.Claim{Work: raw})
		if err != nil || again.place.id != id || id == "" && again.place.spec.MemoryLimit != "1g" {
			t.Errorf("read again: %+v, %v", again, err)
		}
	}
}

// The row of an older version's loop noted no files: what a command changed is not known then, and that is said.
func TestEndsWithoutNotes(t *testing.T) {
	note := endNote{Output: 1, Command: 0, More: 2}
	for _, kept := range []bool{true, false} {
		was := &told{entries: map[int]openai.ShellOutput{0: {Outcome: openai.Exit(0)}, 1: {Outcome: openai.Exit(0)}}}
		was.noteEnds(map[int]*endNote{0: &note}, kept)
		if e := toldBefore(was.entries[0], was.ends[0]); e.more != 2 || e.partial {
			t.Errorf("kept %v: %+v of one that is noted", kept, e)
		}
		if e := toldBefore(was.entries[1], was.ends[1]); e.partial == kept {
			t.Errorf("kept %v: %+v of one that is not", kept, e)
		}
	}
}
