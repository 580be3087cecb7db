package cli

import "github.com/hardshell-dev/hardshell/fault"

type runCommand struct{}

func (runCommand) Run(*program) error { return fault.New(fault.Unsupported, "run is being written") }
