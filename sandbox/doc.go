// Package sandbox confines commands: a Policy goes in, a Box comes out, commands started in it are Jobs, and a Report
// says what was really got.
//
//	box, err := sandbox.Open(ctx, sandbox.Spec{Dir: dir, Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
//	if err != nil {
//		return err
//	}
//	defer box.Close()
//	job, err := box.Start(ctx, process.Command{Key: "first", Argv: []string{"bash", "-c", "make"}})
//
// It judges no command, asks nobody and knows no network proxy. What holds: a box is never weaker than was asked; a
// command never runs as the host's root; a command's key runs at most once; closing a box leaves no process behind.
// Programs that import it must let the init function of package sandbox/resident run, since a box's other side is
// this same binary, started again.
package sandbox
