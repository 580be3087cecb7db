package container

import (
	"context"

	"github.com/hardshell-dev/hardshell/fault"
)

// End expires a container before its time: what runs in it is killed, its files stay as long as those of any that has
// expired. One that has ended already is left as it is.
func (s *Service) End(ctx context.Context, org, id string) error {
	r, err := s.row(ctx, org, id)
	if err != nil || r.Status != Active {
		return err
	}
	p := s.place(id)
	undo := p.refuse(fault.New(fault.Expired, "Container %s has ended.", id).WithCode("container_expired").WithTry("a new container"), nil)
	due := s.now().Add(s.limits.KeepExpired)
	if s.blobs != nil {
		due = s.now() // to be archived
	}
	done, err := s.end(ctx, id, Expired, millis(due))
	if err != nil {
		undo()
		return err
	}
	// Its state is decided; who asked for it may go, its processes must.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := s.shut(ctx, p); err != nil {
		s.log.Error("an ended container's processes could not be ended", "container", id, "error", err)
		return failed(err, "The container's processes could not be ended.")
	}
	s.forget(p)
	if done {
		s.log.Info("container ended", "container", id)
	}
	return nil
}
