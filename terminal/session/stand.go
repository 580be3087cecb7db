package session

import (
	"context"
	"errors"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// stand is where a session stands, from one look.
type stand struct {
	state    State
	password bool
	sure     bool // somebody is blocked reading; without it he may wait for other things as well
	listens  bool // on the port that was asked for
}

// sitting is what is known of a session beside a look.
type sitting struct {
	tty    bool
	shell  bool // an interactive one
	marked bool // it prints marks
	prompt bool // the last of which says that it is at its prompt
}

// judge says where a session stands. A mark alone proves nothing, since any program may print one that it has seen; the
// shell must be in front, waiting. The kernel alone does not tell a prompt from a builtin that reads.
func judge(l process.Look, about sitting) stand {
	out := stand{listens: l.Listens}
	if !l.Clear || l.Unread {
		return out
	}
	edits := about.tty && l.Polls && !l.Lines // a program that edits its lines itself waits in poll, and for much else
	if !l.Reads && !edits {
		return out
	}
	out.sure = l.Reads
	if about.tty && about.shell && l.Leads && (about.prompt || !about.marked) {
		out.state, out.sure = Idle, true
		return out
	}
	out.state = AwaitingInput
	out.password = about.tty && l.Reads && l.Lines && !l.Echoes
	return out
}

// look looks once.
func (s *Session) look(ctx context.Context, port uint16) (stand, error) {
	limited, cancel := context.WithTimeout(ctx, ProbeLimit)
	defer cancel()
	l, err := s.job.Look(limited, port)
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return stand{}, fault.New(fault.Unavailable, "session %d's sandbox does not answer (stage: probe)", s.id).
			WithCode(CodeInfrastructure).WithTry("restart the session; no other one is touched")
	case ctx.Err() != nil:
		return stand{}, context.Cause(ctx)
	default: // it has just ended, or nobody can look: then it runs, as far as we know
		return stand{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Dir != "" {
		s.dir = l.Dir
	}
	if l.Listens && port != 0 && port == s.spec.Ready.Port && s.ready == JobRunning {
		s.ready = JobReady
	}
	about := sitting{tty: s.spec.Command.TTY != nil, shell: s.shell}
	if s.marks != nil {
		about.marked, about.prompt = s.marks.seen, s.marks.prompt
	}
	out := judge(l, about)
	if out.state == Running {
		s.deaf = false // it has woken up
	}
	return out, nil
}
