package container

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

type Limits struct {
	DefaultTimeout time.Duration
	MaxTimeout     time.Duration
	MaxOutput      int
	DefaultMemory  string
	MaxMemoryBytes int64
	Pids           int
	DefaultIdleTTL time.Duration
	MaxIdleTTL     time.Duration
	KeepExpired    time.Duration
	MaxFileBytes   int64
}

func (s *Service) Put(ctx context.Context, org, id, name string, r io.Reader, source string) (File, error) {
	return File{}, nil
}
func (s *Service) Files(ctx context.Context, org, id string, page Page) ([]File, bool, error) {
	return nil, false, nil
}
func (s *Service) File(ctx context.Context, org, id, fileID string) (File, error) {
	return File{}, nil
}
func (s *Service) OpenFile(ctx context.Context, org, id, fileID string) (io.ReadSeekCloser, File, error) {
	return nil, File{}, nil
}
func (s *Service) DeleteFile(ctx context.Context, org, id, fileID string) error { return nil }

type Command struct {
	Key       string
	Index     int
	Script    string
	Timeout   time.Duration
	MaxOutput int
}
type Execution struct{}

func (s *Service) Exec(ctx context.Context, org, id string, c Command) (*Execution, error) {
	return nil, nil
}

type Delta struct{ Stdout, Stderr string }

func (e *Execution) Follow(ctx context.Context) iter.Seq2[Delta, error] { return nil }
func (e *Execution) Wait(ctx context.Context) (Result, error)           { return Result{}, nil }
func (e *Execution) Cancel()                                            {}

type Result struct {
	ExitCode                         int
	Signal                           string
	TimedOut, Cancelled, OutOfMemory bool
	Stdout, Stderr                   process.View
	Duration, Timeout                time.Duration
	Isolation                        Isolation
	Changed                          []File
	ChangedMore                      int  // files beyond Changed
	ChangedPartial                   bool // the list may miss some
}
type Facts struct {
	Workdir, Network, Runtime  string
	Isolation                  Isolation
	DefaultTimeout, MaxTimeout time.Duration
	MaxOutput                  int
	Memory                     string
	Available                  error
}

func (s *Service) Facts(ctx context.Context) Facts { return Facts{} }

// CheckNetwork refuses what cannot be enforced: nil and {type: disabled} pass.
func CheckNetwork(p *openai.NetworkPolicy) error { return nil }

// ReadRequest checks the wire's request for a container.
func ReadRequest(r openai.ContainerRequest) (CreateSpec, error) { return CreateSpec{}, nil }
