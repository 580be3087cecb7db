package sandbox_test

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// A Go agent confines one command: it reads this machine but for its secrets, writes nothing and has no network.
func ExampleOpen() {
	dir, ctx := newFolder(), context.Background()
	defer os.RemoveAll(dir)
	box, err := sandbox.Open(ctx, sandbox.Spec{Dir: dir, Cwd: "/usr"})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	out, err := process.ExecEnv{Command: []string{"sh", "-c", "pwd; touch here || echo refused"}}.Run(ctx, box, "once", 0)
	fmt.Print(out.Stdout.Text)
	// Output:
	// /usr
	// refused
}

// A workspace can be written, and what is beside it can not. What was denied is told in one sentence.
func ExampleOpen_workspace() {
	dir, work, ctx := newFolder(), newFolder(), context.Background()
	defer os.RemoveAll(dir)
	defer os.RemoveAll(work)
	policy := sandbox.Policy{Mode: sandbox.WorkspaceWrite}
	box, err := sandbox.Open(ctx, sandbox.Spec{Dir: dir, Cwd: work, Policy: policy})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	build := process.ExecEnv{Command: []string{"bash", "-c", "echo made >result; exec 3<>/dev/tcp/192.0.2.1/80"}}
	out, err := build.Run(ctx, box, "build", 0)
	if denial, ok := sandbox.Explain(box.Report(), policy, work, out.ExitCode, []byte(out.Stderr.Text)); ok {
		fmt.Println(denial)
	}
	made, err := os.ReadFile(filepath.Join(work, "result"))
	fmt.Print(string(made))
	// Output:
	// the sandbox has no network, and the command tried to reach one; --network allow:HOST or --network full would allow it
	// made
}

// What was got is reported: never less than the policy accepts, and what is less than it could be by name.
func ExampleBox_Report() {
	dir := newFolder()
	defer os.RemoveAll(dir)
	box, err := sandbox.Open(context.Background(), sandbox.Spec{Dir: dir, Cwd: "/", Policy: sandbox.Policy{Least: sandbox.RungRestricted}})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	switch r := box.Report(); r.Got {
	case sandbox.RungJail:
		fmt.Println("as asked:", r.Asked)
	default:
		fmt.Println("accepted:", r.Got, "without", r.Missing, "and this would help:", r.Remedies)
	}
	// Output: as asked: jail
}

// newFolder makes a folder for an example.
func newFolder() string {
	dir, err := os.MkdirTemp("", "hardshell-example-")
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

// examplesNeedAJail skips the examples by name where none can be made: an example cannot skip itself.
func examplesNeedAJail() {
	err := sandbox.Supported(context.Background())
	if err == nil {
		return
	}
	if require.Demanded("jail") {
		log.Fatalf("required feature \"jail\" is not to be had: %v", err)
	}
	fmt.Println("SKIPPED feature=jail: the examples:", err)
	flag.Set("test.skip", "^Example")
}
