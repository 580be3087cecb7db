package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/skill"
)

// CheckSkills knows every reference but "none", and names a skill as it is referred to.
func (w *world) CheckSkills(_ context.Context, _ string, list []container.SkillRequest) (out []container.Skill, err error) {
	for i, r := range list {
		if r.SkillID == "none" {
			return nil, fault.New(fault.Invalid, "No such skill.").WithCode("invalid_skill_reference").WithParam(fmt.Sprintf("skills[%d].skill_id", i))
		}
		out = append(out, container.Skill{Manifest: skill.Manifest{Name: r.SkillID + r.Name, Description: "does " + r.SkillID + r.Name}})
	}
	return out, nil
}

func (w *world) Skills(_ context.Context, _, cid string) ([]container.Skill, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.skills[cid]), nil
}

func (w *world) AddSkills(ctx context.Context, org, cid string, list []container.SkillRequest) error {
	found, err := w.CheckSkills(ctx, org, list)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range found {
		if k.Name == "clash" {
			return fault.New(fault.Invalid, "Two of a name.").WithCode("skill_mount_conflict").WithParam("skills")
		}
		if w.skills == nil {
			w.skills = map[string][]container.Skill{}
		}
		w.skills[cid] = append(w.skills[cid], k)
	}
	return err
}

// The ground of the death test has no skills.
func (g *ground) CheckSkills(context.Context, string, []container.SkillRequest) ([]container.Skill, error) {
	return nil, nil
}
func (g *ground) Skills(context.Context, string, string) ([]container.Skill, error) { return nil, nil }
func (g *ground) AddSkills(context.Context, string, string, []container.SkillRequest) error {
	return nil
}

const shellWith = `{"model":"m","input":"a","tools":[{"type":"shell","environment":{"type":"container_auto","skills":%s}}]}`

// The model is told of every skill that its container has, and a new container gets them before anything runs.
func TestSkillsOfARequest(t *testing.T) {
	w := newWorld(t, says("done"))
	w.run(fmt.Sprintf(shellWith, `[{"type":"skill_reference","skill_id":"maps"},
		{"type":"inline","name":"tables","description":"x","source":{"type":"base64","media_type":"text/markdown","data":"eA=="}}]`))
	if len(w.made) != 1 || len(w.made[0].Skills) != 2 || w.made[0].Skills[1].Source.Data != "eA==" {
		t.Fatalf("made %+v", w.made)
	}
	told := w.asked[0].Tools[0].Description
	for _, line := range []string{"maps (/skills/maps/SKILL.md): does maps", "tables (/skills/tables/SKILL.md): does tables"} {
		if !strings.Contains(told, line) {
			t.Errorf("the model is not told %q:\n%s", line, told)
		}
	}
}

// A container that is there gets what is new to it; the model is told of all.
func TestSkillsOfALaterTurn(t *testing.T) {
	w := newWorld(t, says("done"))
	w.chains["resp_1"] = response.Chain{ContainerID: "cntr_1"}
	w.skills = map[string][]container.Skill{"cntr_1": {{Manifest: skill.Manifest{Name: "old", Description: "does old"}}}}
	w.run(strings.Replace(fmt.Sprintf(shellWith, `[{"type":"skill_reference","skill_id":"new"}]`), `"model"`, `"previous_response_id":"resp_1","model"`, 1))
	if got := w.skills["cntr_1"]; len(got) != 2 || got[1].Name != "new" {
		t.Errorf("the container has %+v", got)
	}
	if told := w.asked[0].Tools[0].Description; !strings.Contains(told, "does old") || !strings.Contains(told, "does new") {
		t.Errorf("the model is told\n%s", told)
	}
	_, err := w.create(request(t, strings.Replace(fmt.Sprintf(shellWith, `[{"type":"skill_reference","skill_id":"clash"}]`), `"model"`, `"previous_response_id":"resp_1","model"`, 1)))
	if e, ok := fault.As(err); !ok || e.Code != "skill_mount_conflict" || e.Param != "tools[0].environment.skills" {
		t.Errorf("a second skill of a name: %v", err)
	}
}
