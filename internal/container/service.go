// Package container is a place that outlives a command: its row, its life from creation to expiry, its workspace, its
// files, its limits, and the commands that run in it.
//
// It confines nothing itself: a [Runtime] does. What holds: a container is a row before it is anything else, and
// nothing is started until its first command; at most one box lives per container, however many commands race; the
// workspace on disk is the only truth about files; idle time counts from the end of the last command; a row of another
// organisation looks absent; what was asked of the isolation and what was got are both told.
package container

import (
	"context"
	"log/slog"
	"time"

	"github.com/hardshell-dev/hardshell/internal/store"
)

// Options are what a Service is made of. DB, Runtime and Dir are required.
type Options struct {
	DB      *store.DB
	Runtime Runtime
	Dir     string // the folder that holds a folder per container; made if absent
	Limits  Limits
	Clock   func() time.Time // nil is time.Now
	Logger  *slog.Logger     // nil discards
}

// Service keeps the containers of one data folder. It is the only one on that folder.
type Service struct {
}

// New opens the containers of a data folder. What an earlier gateway left behind there is ended first: boxes are
// closed, not adopted, and folders that no living row owns are removed.
func New(ctx context.Context, o Options) (*Service, error) { return nil, nil }

// Close ends every box of this service and waits for that. Containers stay; their processes do not.
func (s *Service) Close(ctx context.Context) error { return nil }

func (s *Service) Create(ctx context.Context, org string, spec CreateSpec) (Container, error) {
	return Container{}, nil
}
func (s *Service) Get(ctx context.Context, org, id string) (Container, error) {
	return Container{}, nil
}
func (s *Service) Usable(ctx context.Context, org, id string) (Container, error) {
	return Container{}, nil
}
func (s *Service) List(ctx context.Context, org string, page Page) ([]Container, bool, error) {
	return nil, false, nil
}
func (s *Service) Delete(ctx context.Context, org, id string) error { return nil }
