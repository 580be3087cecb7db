package container

import (
	"context"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Surroundings are what a live command needs to know of its container before it is written.
type Surroundings struct {
	Shell     string   // its path inside
	Environ   []string // what every command starts with
	Isolation Isolation
}

// Ready boots a container's box, if none lives, and says what a command finds in it.
func (s *Service) Ready(ctx context.Context, org, containerID string) (Surroundings, error) {
	if _, err := s.Usable(ctx, org, containerID); err != nil {
		return Surroundings{}, err
	}
	p, ws, err := s.prepare(ctx, containerID)
	if err != nil {
		return Surroundings{}, err
	}
	if err := s.begin(p); err != nil { // it is in use from here on
		return Surroundings{}, err
	}
	defer s.leave(p)
	b, _, err := s.box(ctx, p)
	if err != nil {
		return Surroundings{}, err
	}
	return Surroundings{Shell: ws.Shell, Environ: environment(ws.Shell), Isolation: b.box.Isolation()}, nil
}

// Live starts a command that its caller talks to: in a terminal, or with an input that stays open. It is counted like any
// other, so the container is in use while it runs, and it has no time limit but its own: it is for the caller to end. Where
// the runtime's commands cannot be talked to, it is fault.Unsupported.
func (s *Service) Live(ctx context.Context, org, containerID string, c process.Command) (*process.Job, error) {
	job, _, err := s.live(ctx, org, containerID, c)
	return job, err
}

// LiveTold is Live that says, once, that the container had lost its box before this command, with every process.
func (s *Service) LiveTold(ctx context.Context, org, containerID string, c process.Command) (job *process.Job, restarted bool, err error) {
	job, b, err := s.live(ctx, org, containerID, c)
	return job, err == nil && b.restarted(), err
}

func (s *Service) live(ctx context.Context, org, containerID string, c process.Command) (*process.Job, *boot, error) {
	if _, err := s.Usable(ctx, org, containerID); err != nil {
		return nil, nil, err
	}
	p, ws, err := s.prepare(ctx, containerID)
	if err != nil {
		return nil, nil, err
	}
	if err := s.disk.admit(p); err != nil {
		return nil, nil, err
	}
	if err := s.begin(p); err != nil {
		return nil, nil, err
	}
	job, b, err := s.startLive(ctx, p, ws, c)
	if err != nil {
		s.leave(p)
	}
	return job, b, err
}

func (s *Service) startLive(ctx context.Context, p *place, ws Workspace, c process.Command) (*process.Job, *boot, error) {
	b, tree, err := s.box(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	e := &Execution{service: s, place: p, tree: tree, workspace: ws, timeout: c.Timeout, chars: s.limits.output(0), begun: s.now(),
		widen: func() {}, done: make(chan struct{})}
	e.span = tree.open()
	e.job, b, err = s.startIn(ctx, p, b, c)
	if err != nil {
		e.span.close()
		return nil, nil, failed(err, "The command could not be started.")
	}
	job, ok := e.job.(*process.Job)
	if !ok {
		e.job.Kill()
		e.span.close()
		return nil, nil, fault.New(fault.Unsupported, "Commands of a %s container cannot be typed at.", s.runtime.Name())
	}
	e.boot, e.isolation = b, b.box.Isolation()
	s.watchOver(context.WithoutCancel(ctx), e)
	return job, b, nil
}

// EndLive ends the commands that an earlier gateway left running under keys with a prefix: nobody can talk to them any more.
func (s *Service) EndLive(prefix string) {
	s.mu.Lock()
	places := make([]*place, 0, len(s.places))
	for _, p := range s.places {
		places = append(places, p)
	}
	s.mu.Unlock()
	for _, p := range places {
		p.mu.Lock()
		b := p.boot
		p.mu.Unlock()
		if b == nil || !b.settled() {
			continue
		}
		if keeper, ok := b.box.(Keeper); ok {
			for _, job := range keeper.Live() {
				if strings.HasPrefix(job.Key(), prefix) {
					job.Kill()
				}
			}
		}
	}
}
