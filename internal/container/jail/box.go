package jail

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// box is a sandbox seen as a container's box.
type box struct {
	*sandbox.Box
	restarted bool
	exit      *exit
}

func (b box) Start(ctx context.Context, c process.Command) (container.Job, error) {
	if b.exit != nil {
		c.Env = append(slices.Clip(c.Env), b.exit.variables...)
	}
	job, err := b.Box.Start(ctx, c)
	if err != nil {
		return nil, err // not a nil *Job in a Job
	}
	return job, nil
}

func (b box) Isolation() container.Isolation {
	report := b.Report()
	return container.Isolation{Asked: string(report.Asked), Got: string(report.Got), Missing: report.Missing}
}

// Close ends every process of the box. The sandbox bounds its own end, so that ctx has nothing to add.
func (b box) Close(context.Context) error { return b.Box.Close() }

// Restarted says that the container had a box before.
func (b box) Restarted() bool { return b.restarted }

// Live are the calls that go on.
func (b box) Live() []container.Job {
	var jobs []container.Job
	for _, job := range b.Box.Live() {
		jobs = append(jobs, job)
	}
	return jobs
}

// Reattach says what became of a command.
func (b box) Reattach(ctx context.Context, c process.Command) (container.Found, error) {
	return found(b.Box.Find(ctx, c))
}

// Recall says what became of a command of a container in which no box lives.
func (r *runtime) Recall(_ context.Context, spec container.Spec, c process.Command) (container.Found, error) {
	return found(sandbox.Recall(boxDir(spec), c.Key, c.Index))
}

// states are the sandbox's answers in the container's words.
var states = map[sandbox.Found]container.CallState{sandbox.Never: container.NeverStarted, sandbox.Running: container.Started,
	sandbox.Ended: container.Started, sandbox.Interrupted: container.Gone}

func found(job *process.Job, what sandbox.Found, err error) (container.Found, error) {
	if err != nil || job == nil {
		return container.Found{State: states[what]}, err
	}
	return container.Found{State: states[what], Job: job, Begun: job.Begun()}, nil
}

// Adopt takes over the box that an earlier process left behind.
func (r *runtime) Adopt(ctx context.Context, spec container.Spec) (container.Keeper, error) {
	b, err := sandbox.Attach(ctx, boxDir(spec), spec.Fence)
	switch fault.KindOf(err) {
	case fault.NotFound:
		// Nobody listens, but something may be left that cannot: End knows its process.
		return nil, r.Reclaim(ctx, spec)
	case fault.Conflict:
		return nil, fmt.Errorf("adopt container: %w", err)
	}
	if err != nil {
		if ending := r.Reclaim(ctx, spec); ending != nil {
			return nil, ending
		}
		return nil, nil // its processes are gone, its files are not
	}
	out, err := newExit(spec, true)
	if err == nil {
		err = out.join(ctx, b)
	}
	if err != nil {
		out.close()
		return nil, errors.Join(err, b.Close()) // a box that went on without its way out would be told as whole
	}
	return box{b, false, out}, nil
}

func jobDir(spec container.Spec, key string, index int) string {
	return filepath.Join(boxDir(spec), "jobs", key, strconv.Itoa(index))
}
