// Command hardshell gives a language model a shell that is safe, fast and honest. See `hardshell --help`.
//
// When this process was started to be a sandbox's resident, package sandbox has taken over before main runs.
// Everything else is package cli.
package main

import (
	"context"
	"os"

	"github.com/hardshell-dev/hardshell/internal/cli"
	_ "github.com/hardshell-dev/hardshell/internal/cli/ahead" // first of all
)

func main() {
	ctx := cli.Signalled(context.Background())
	stop := profiled()
	code := cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Environ())
	stop()
	os.Exit(code)
}
