package agent

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func environmentOf(t *testing.T, text string) *openai.Environment {
	t.Helper()
	env := new(openai.Environment)
	if err := json.Unmarshal([]byte(text), env); err != nil {
		t.Fatal(err)
	}
	return env
}

// ready is the world's agent, before its first request.
func ready(t *testing.T, w *world) *Agent {
	a := newAgent(w, w, w, w.options)
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("close agent: %v", err)
		}
	})
	return a
}

// TestFilesByIDGoIntoTheContainerThatIsMade: at once, so that a file that cannot be had is the request's answer; and
// never into one that an earlier turn made, where the model may have worked on them.
func TestFilesByIDGoIntoTheContainerThatIsMade(t *testing.T) {
	const auto = `{"type":"container_auto","file_ids":["file_1","file_2"]}`
	w := newWorld(t)
	a := ready(t, w)
	p, err := a.readEnvironment(t.Context(), "org", environmentOf(t, auto), "env", "")
	if err != nil || !slices.Equal(p.spec.FileIDs, []string{"file_1", "file_2"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err = a.reserve(t.Context(), "org", p); err != nil || p.id == "" || len(w.made) != 1 || len(w.made[0].FileIDs) != 2 {
		t.Errorf("reserved %+v, %v, made %+v", p, err, w.made)
	}
	p, err = a.readEnvironment(t.Context(), "org", environmentOf(t, auto), "env", "cntr_chain")
	if err != nil || p.id != "cntr_chain" || len(p.spec.FileIDs) != 0 {
		t.Errorf("in a chain: %+v, %v", p, err)
	}
	w.makeErr = fault.New(fault.Invalid, "no such file").WithCode("file_not_found").WithParam("file_ids[1]")
	p, err = a.readEnvironment(t.Context(), "org", environmentOf(t, auto), "env", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.reserve(t.Context(), "org", p)
	if f, ok := fault.As(err); !ok || f.Code != "file_not_found" || f.Param != "env.file_ids[1]" {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestRestoreInAReference(t *testing.T) {
	w := newWorld(t)
	gone := fault.Wrap(fault.Expired, &container.Survivors{ContainerID: "cntr_old"}, "It has expired.").WithCode("container_expired")
	w.gone = map[string]error{"cntr_old": gone}
	a := ready(t, w)
	_, err := a.readEnvironment(t.Context(), "org", environmentOf(t, `{"type":"container_reference","container_id":"cntr_old"}`), "env", "")
	f, ok := fault.As(err)
	if !ok || f.Code != "container_expired" || f.Param != "env.container_id" {
		t.Errorf("without restore: %v", err)
	} else if _, ok := f.Cause.(*container.Survivors); !ok {
		t.Errorf("the survivors are lost: %v", f.Cause)
	}
	p, err := a.readEnvironment(t.Context(), "org", environmentOf(t, `{"type":"container_reference","container_id":"cntr_old","restore":true}`), "env", "")
	if err != nil || p.id != "cntr_old" || !p.used {
		t.Errorf("with restore: %+v, %v", p, err)
	}
}
