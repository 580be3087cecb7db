package cli

import "github.com/hardshell-dev/hardshell/fault"

type doctorCommand struct{}

func (doctorCommand) Run(*program) error {
	return fault.New(fault.Unsupported, "doctor is being written")
}
