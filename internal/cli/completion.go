package cli

import "github.com/hardshell-dev/hardshell/fault"

type completionCommand struct{}

func (completionCommand) Run(*program) error {
	return fault.New(fault.Unsupported, "completion is being written")
}
