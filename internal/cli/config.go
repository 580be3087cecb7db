package cli

import "github.com/hardshell-dev/hardshell/fault"

type configCommand struct{}

func (configCommand) Run(*program) error {
	return fault.New(fault.Unsupported, "config is being written")
}
