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
// # How strong
//
// A box is a jail where one can be made: its own view of the file system, its own processes, its own network, its own
// /tmp, and no privilege. Where none can be made, a local box whose policy accepts it is restricted: the same policy for
// writing and reading, no network by having no sockets, and a [Report] that names everything which only a jail holds to.
// A hosted box is a jail or is refused, with the remedy. Within a box of ours, which is proven from the kernel and never
// taken from a variable, nothing is added to a box around that is as tight as what was asked; the report says external.
//
// # What a local box sees
//
// The machine, read-only, without what [Masks] lists: secrets, key files, sockets of engines and services, our own
// settings and data. A policy hides more and shows some; of two that name one path the more exact one counts.
// WorkspaceWrite writes the workspace and the named roots. In them stays read-only what the user's git and agents obey:
// hooks, configuration, attributes, the files that say where a repository lies, and .hardshell, .codex and
// hardshell.toml where they are. Commits work all the same, in a checkout, in a linked worktree and in a submodule.
// Two names that git would obey and that no kernel can forbid in a folder that is written are taken away when a call
// ends; see [Box.Removed]. A repository that a command makes anew is the command's.
//
// # What holds
//
// A box is never weaker than its policy accepts; a command never runs as the host's root; a command's key runs at most
// once; closing a box leaves no process behind. The package judges no command, asks nobody and knows no network proxy.
// Programs that import it must let the init function of package sandbox/resident run, since a box's other side is this
// same binary, started again. [Transform], [Explain] and the types work on every system; boxes need Linux.
package sandbox
