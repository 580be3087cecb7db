package container

import (
	"context"
	"time"
)

// Facts are what a model is told about the containers of this service.
type Facts struct {
	Workdir        string
	Network        string // "none": no network can be had
	Runtime        string
	Isolation      Isolation // of the last box; before the first one only what will be asked
	DefaultTimeout time.Duration
	MaxTimeout     time.Duration
	MaxOutput      int    // characters of each stream that a result shows
	Memory         string // of a container that asks for none; empty is no limit
	Available      error  // why no container can be started here, with its remedy; nil when they can
}

// Facts tells what containers are like here.
func (s *Service) Facts(ctx context.Context) Facts {
	f := Facts{Workdir: Workdir, Network: "none", Runtime: s.runtime.Name(), Isolation: Isolation{Asked: s.runtime.Name()},
		DefaultTimeout: s.limits.DefaultTimeout, MaxTimeout: s.limits.MaxTimeout, MaxOutput: s.limits.MaxOutput,
		Memory: formatMemory(s.limits.DefaultMemoryBytes), Available: s.runtime.Supported(ctx)}
	if seen := s.seenBox.Load(); seen != nil {
		f.Isolation = *seen
	}
	return f
}
