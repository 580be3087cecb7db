package cli

import "github.com/hardshell-dev/hardshell/fault"

type keyCommand struct{}

func (keyCommand) Run(*program) error { return fault.New(fault.Unsupported, "key is being written") }
