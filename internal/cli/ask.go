package cli

import "github.com/hardshell-dev/hardshell/fault"

type askCommand struct{}

func (askCommand) Run(*program) error { return fault.New(fault.Unsupported, "ask is being written") }
