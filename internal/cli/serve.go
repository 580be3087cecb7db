package cli

import "github.com/hardshell-dev/hardshell/fault"

type serveCommand struct{}

func (serveCommand) Run(*program) error {
	return fault.New(fault.Unsupported, "serve is being written")
}
