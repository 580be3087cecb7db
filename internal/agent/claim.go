package agent

import (
	"context"
	"time"

	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// claimPause is how long nothing is claimed after it went wrong.
const claimPause = time.Second

// tend goes on with the responses that lost their owner, until ctx ends: as many at once as the crew has places, and at
// once with those that are to be cancelled.
func (a *Agent) tend(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.responses.Orphans():
		case <-a.crew.freed:
		}
		for ctx.Err() == nil {
			more, err := a.claim(ctx)
			if err != nil {
				a.options.Logger.Error("claim response", "error", err)
				select {
				case <-time.After(claimPause):
				case <-ctx.Done():
				}
				more = true
			}
			if !more {
				break
			}
		}
	}
}

// claim goes on with one response. It says whether there may be more.
func (a *Agent) claim(ctx context.Context) (more bool, err error) {
	placed := a.crew.enter()
	c, r, err := a.responses.Claim(ctx, !placed)
	if c == nil {
		if placed {
			a.crew.calm()
			a.crew.leave()
		}
		return false, err
	}
	a.mu.Lock()
	closed := a.closed
	if !closed {
		a.loops.Add(1)
	}
	a.mu.Unlock()
	if closed {
		a.part(r, true)
		return false, nil
	}
	a.enlist(r, true)
	go func() {
		defer a.loops.Done()
		defer a.forget(r)
		if placed {
			defer a.crew.leave()
		}
		a.options.Logger.Info("response goes on", "response", r.ID(), "marks", len(c.Journal))
		a.drive(r, func(ctx context.Context) (*loop, error) { return a.takeUp(ctx, r, c) })
	}()
	return true, nil
}

// takeUp makes the loop of a response that another owner began.
func (a *Agent) takeUp(ctx context.Context, r run, c *response.Claim) (*loop, error) {
	// It is needed as well to end one that is to be cancelled: its command may run.
	p, broken := a.replan(context.WithoutCancel(ctx), c)
	if broken != nil { // a provider that is gone, or a turn before it
		p = &plan{request: &openai.CreateRequest{}, names: map[string]bool{}, maxOutput: lastView}
		p.principal.Org, p.place.id = c.Org, c.Container
	}
	l, err := a.resumedLoop(r, p, c)
	if err == nil {
		l.resumed.broken = broken
	}
	return l, err
}

// lastView is how much is shown of the output of a command that is stopped because nobody goes on.
const lastView = 8000
