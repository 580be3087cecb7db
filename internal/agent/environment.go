package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// place is where a request's shell calls run, as far as it is known before the first of them.
type place struct {
	id       string                   // the container; empty until one is made for the first call
	used     bool                     // it was there before this request
	memory   string                   // its memory limit as it was asked for
	network  *container.NetworkPolicy // of its commands, which may be less than the container's; nil is no network
	skills   []container.Skill        // that it has or gets
	spec     container.CreateSpec     // of the container to make
	replaced bool                     // the chain's own container is gone: the model is told
	param    string                   // the request's environment

	referred bool // the request names the container; of a bash

	local       bool         // the client runs the calls; nothing above is known then
	localSkills []localSkill // that lie there
}

// reserve makes the container's row now if the request asks for settings that a limit of the operator's may refuse:
// that is the request's fault and its answer, not a failed call for the model. Otherwise the row waits for a call. A
// container that is there gets the skills that are new to it.
func (a *Agent) reserve(ctx context.Context, org string, p place) (place, error) {
	if p.local {
		return p, nil
	}
	if p.id != "" {
		if err := a.containers.AddSkills(ctx, org, p.id, p.spec.Skills); err != nil {
			return p, underSkills(p.param, err)
		}
		return p, nil
	}
	if p.spec.MemoryLimit == "" && p.spec.IdleTTL == 0 && p.spec.Network == nil && len(p.spec.FileIDs)+len(p.spec.Skills) == 0 {
		return p, nil
	}
	c, err := a.containers.Create(ctx, org, p.spec)
	if err != nil {
		return p, underSkills(p.param, err)
	}
	p.id = c.ID
	return p, nil
}

// Where calls of the shell tool may be asked to run.
const (
	envAuto      = "container_auto"
	envReference = "container_reference"
	envLocal     = "local"
)

// readEnvironment decides where the calls of a shell tool run. chained is the container of the conversation's earlier
// turns, if they had one. Nothing is started and no container is made here.
func (a *Agent) readEnvironment(ctx context.Context, org string, env *openai.Environment, param, chained string) (place, error) {
	if env == nil {
		env = &openai.Environment{Type: a.options.DefaultEnvironment}
		if env.Type == "" {
			env.Type = envAuto
		}
	}
	if a.options.ClientRuns {
		var err error
		if env, err = relayed(*env, param); err != nil {
			return place{}, err
		}
	}
	if len(env.FileIDs) > 0 && env.Type != envAuto {
		return place{}, rejected(param+".file_ids", "file_ids are for a container that is made: only container_auto takes them.").
			WithTry("POST /v1/containers/{id}/files with {\"file_id\": …}")
	}
	if s := strings.TrimSpace(string(env.Skills)); present(env.Skills) && s != "[]" && env.Type == envReference {
		return place{}, rejected(param+".skills", "A container that is referred to has the skills that it was made with.").
			WithTry("container_auto with skills")
	}
	switch env.Type {
	case envAuto:
		return a.autoPlace(ctx, org, env, param, chained)
	case envReference:
		return a.referencedPlace(ctx, org, env, param)
	case envLocal:
		return localPlace(env, param)
	case "":
		return place{}, invalid(param+".type", "An environment needs a type.").WithCode("missing_required_parameter")
	default:
		return place{}, invalid(param+".type", "environment.type has an unknown value %q.", env.Type)
	}
}

func (a *Agent) autoPlace(ctx context.Context, org string, env *openai.Environment, param, chained string) (place, error) {
	spec, err := container.ReadRequest(openai.ContainerRequest{FileIDs: env.FileIDs, ExpiresAfter: env.ExpiresAfter,
		MemoryLimit: env.MemoryLimit, NetworkPolicy: env.NetworkPolicy, Skills: env.Skills})
	if err != nil {
		return place{}, underSkills(param, err)
	}
	skills, err := a.containers.CheckSkills(ctx, org, spec.Skills)
	if err != nil {
		return place{}, underSkills(param, err)
	}
	if spec.MemoryLimit != "" {
		if _, err := container.ParseMemory(spec.MemoryLimit); err != nil {
			return place{}, under(param, err)
		}
	}
	p := place{spec: spec, memory: spec.MemoryLimit, network: spec.Network, skills: skills, param: param}
	if chained == "" {
		return p, nil
	}
	c, err := a.containers.Usable(ctx, org, chained)
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Expired:
		p.replaced = true
		return p, nil
	}
	if err != nil {
		return place{}, err
	}
	if !sameMemory(spec.MemoryLimit, c.MemoryLimit) {
		return place{}, rejected(param+".memory_limit", "The container of this conversation has the memory limit %q, which can't be changed.",
			c.MemoryLimit).WithTry("leaving memory_limit out, or a new conversation")
	}
	if err := a.containers.Admits(ctx, org, c.ID, env.NetworkPolicy); err != nil {
		return place{}, under(param, err)
	}
	has, err := a.containers.Skills(ctx, org, c.ID)
	if err != nil {
		return place{}, err
	}
	return place{id: c.ID, used: true, spec: container.CreateSpec{Skills: spec.Skills}, memory: c.MemoryLimit, network: narrower(spec.Network, c.Network),
		skills: joined(has, skills), param: param}, nil
}

// joined are skills that are there and skills that come, each once.
func joined(has, more []container.Skill) []container.Skill {
	for _, m := range more {
		if !slices.ContainsFunc(has, func(h container.Skill) bool { return h.Name == m.Name }) {
			has = append(has, m)
		}
	}
	return has
}

// underSkills is under, but that an error about a skill keeps its own code: a client can tell which of them it was.
func underSkills(param string, err error) error {
	e, ok := fault.As(err)
	if !ok || !strings.HasPrefix(e.Param, "skills") {
		return under(param, err)
	}
	return e.WithParam(param + "." + e.Param)
}

// narrower is the policy that a request's commands have in a container that is there: its own, which was found to be no
// wider, or the container's.
func narrower(asked, has *container.NetworkPolicy) *container.NetworkPolicy {
	if asked != nil {
		return asked
	}
	return has
}

// sameMemory says whether a limit that is asked for, if any, is the one that a container has.
func sameMemory(asked, has string) bool {
	if asked == "" {
		return true
	}
	a, errA := container.ParseMemory(asked)
	h, errH := container.ParseMemory(has)
	return errA == nil && errH == nil && a == h
}

func (a *Agent) referencedPlace(ctx context.Context, org string, env *openai.Environment, param string) (place, error) {
	if env.ContainerID == "" {
		return place{}, invalid(param+".container_id", "A container_reference needs a container_id.").
			WithCode("missing_required_parameter")
	}
	find := a.containers.Usable
	if env.Restore != nil && *env.Restore {
		find = a.containers.Restore
	}
	c, err := find(ctx, org, env.ContainerID)
	if err != nil {
		if e, ok := fault.As(err); ok && e.Param == "" {
			return place{}, e.WithParam(param + ".container_id")
		}
		return place{}, err
	}
	if err := a.containers.Admits(ctx, org, c.ID, env.NetworkPolicy); err != nil {
		return place{}, under(param, err)
	}
	asked, _, err := container.ReadNetwork(env.NetworkPolicy)
	if err != nil {
		return place{}, under(param, err)
	}
	if env.MemoryLimit != nil && !sameMemory(*env.MemoryLimit, c.MemoryLimit) {
		return place{}, rejected(param+".memory_limit", "The container has the memory limit %q, which can't be changed.", c.MemoryLimit).
			WithTry("leaving memory_limit out, or a new container")
	}
	has, err := a.containers.Skills(ctx, org, c.ID)
	if err != nil {
		return place{}, err
	}
	return place{id: c.ID, used: true, memory: c.MemoryLimit, network: narrower(asked, c.Network), skills: has}, nil
}

// rejected is the refusal of an environment that is well-formed and can't be had.
func rejected(param, format string, args ...any) *fault.Error {
	return invalid(param, format, args...).WithCode("shell_environment_rejected")
}

// under tells an error about a container's settings as one about the environment that holds them.
func under(param string, err error) error {
	e, ok := fault.As(err)
	if !ok {
		return fmt.Errorf("prepare environment: %w", err)
	}
	if e.Kind == fault.Invalid && e.Code != "invalid_file_id" && e.Code != "file_not_found" {
		e = e.WithCode("shell_environment_rejected")
	}
	if e.Param != "" {
		param += "." + e.Param
	}
	return e.WithParam(param)
}
