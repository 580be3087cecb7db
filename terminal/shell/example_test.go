package shell_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/hardshell-dev/hardshell/terminal/shell"
)

// What a command line becomes: an argument vector and the environment that the policy leaves of ours.
func Example() {
	sh := shell.Shell{Type: shell.Bash, Path: "/bin/bash"} // or shell.Detect(shell.ThisHost())
	call, err := sh.Prepare(shell.Call{
		Command: "grep -r 'TODO' src/",
		Environ: []string{"PATH=/usr/bin", "HOME=/home/ann", "GITHUB_TOKEN=secret", "JAVA_HOME=/jdk"}, // or os.Environ()
		Policy:  shell.DefaultPolicy(),
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%q\n", call.Argv)
	for _, entry := range call.Env {
		if name, _, _ := strings.Cut(entry, "="); name == "PATH" || name == "GITHUB_TOKEN" || name == "JAVA_HOME" || name == "GIT_PAGER" {
			fmt.Println(entry)
		}
	}
	// Output:
	// ["/bin/bash" "-c" "grep -r 'TODO' src/"]
	// GIT_PAGER=cat
	// JAVA_HOME=/jdk
	// PATH=/usr/bin
}

// A login environment that cannot be captured is a warning, and the command gets a login shell instead.
func ExampleLogin() {
	sh := shell.Shell{Type: shell.Zsh, Path: "/bin/zsh"}
	run := func(context.Context, []string, []string, string) ([]byte, error) { return nil, nil } // a box's, in earnest
	login := shell.NewLogin(context.Background(), sh, run, shell.LoginOptions{Environ: []string{"HOME=/home/ann"}})

	snapshot := login.Snapshot(context.Background())
	fmt.Println(snapshot.Warning)

	call, _ := sh.Prepare(shell.Call{Command: "python -V", Login: true, Snapshot: snapshot})
	fmt.Printf("%q\n", call.Argv)
	// Output:
	// the login environment of /bin/zsh could not be captured: a start-up file ends the shell or starts another program. Each command that asks for a login shell starts one
	// ["/bin/zsh" "-lc" "python -V"]
}

func ExamplePolicy_Apply() {
	policy := shell.Policy{
		Inherit: shell.InheritAll,
		Exclude: []string{"DOCKER_*"},
		Set:     map[string]string{"CI": "1"},
	}
	fmt.Println(policy.Apply([]string{"PATH=/bin", "DOCKER_HOST=tcp://x", "npm_token=x", "EDITOR=vi"}))
	// Output: [CI=1 EDITOR=vi PATH=/bin]
}
