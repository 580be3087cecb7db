//go:build !linux

package sandbox

import (
	"context"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Attach refuses.
func Attach(context.Context, string, uint64) (*Box, error) { return nil, unsupported() }

// End has nothing to end.
func End(context.Context, string, uint64) error { return nil }

// Known says no.
func Known(string) bool { return false }

// Recall refuses.
func Recall(string, string, int) (*process.Job, Found, error) { return nil, Never, unsupported() }

// Find refuses.
func (b *Box) Find(context.Context, process.Command) (*process.Job, Found, error) {
	return nil, Never, unsupported()
}

// Rest has nothing to end.
func (b *Box) Rest() (bool, error) { return false, nil }

// Live is empty.
func (b *Box) Live() []*process.Job { return nil }

// LastEnd is never.
func (b *Box) LastEnd() time.Time { return time.Time{} }
