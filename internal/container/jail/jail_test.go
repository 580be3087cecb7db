package jail

import (
	"testing"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/container/runtimetest"
)

func TestJail(t *testing.T) {
	runtimetest.Run(t, func(testing.TB) container.Runtime { return New(Options{}) })
}
