package shellcall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/hardshell-dev/hardshell/shellcall"
	"github.com/hardshell-dev/hardshell/terminal"
)

// workspace is an empty folder, and what commands may see of the environment.
func workspace() (terminal.SessionConfig, func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	return terminal.SessionConfig{Cwd: dir, SandboxPolicy: terminal.DefaultSandbox(), DisableLogin: true}, func() { os.RemoveAll(dir) }
}

// A response's items go in, the next request's input comes out.
func Example() {
	config, remove := workspace()
	defer remove()
	e, err := shellcall.New(shellcall.Options{Terminal: config})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	output := []json.RawMessage{json.RawMessage(`{"type": "shell_call", "call_id": "call_1", "status": "completed",
		"action": {"commands": ["echo hello", "echo problem >&2; exit 3"], "timeout_ms": 120000, "max_output_length": 4096}}`)}
	input, err := e.Answer(context.Background(), output)
	if err != nil {
		log.Fatal(err)
	}
	for _, item := range input {
		fmt.Println(string(item))
	}
	// Output:
	// {"type":"shell_call_output","call_id":"call_1","max_output_length":4096,"output":[{"stdout":"hello\n","stderr":"","outcome":{"type":"exit","exit_code":0}},{"stdout":"","stderr":"problem\n","outcome":{"type":"exit","exit_code":3}}]}
}

// One shell for all commands: what one leaves the next one finds.
func ExampleOptions_persistent() {
	config, remove := workspace()
	defer remove()
	e, err := shellcall.New(shellcall.Options{Terminal: config, Persistent: true})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	call := shellcall.Call{CallID: "call_1", Action: shellcall.Action{Commands: []string{"mkdir src && cd src; n=41", "echo $((n+1)) in $(basename $PWD)"}}}
	out, err := e.Run(context.Background(), call)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(out[0].Output[1].Stdout)
	// Output: 42 in src
}

// A list of what may run, a list of what may not, and a record of both.
func ExampleObserver() {
	config, remove := workspace()
	defer remove()
	audit := shellcall.ObserverFunc(func(e shellcall.Event) {
		if e, ok := e.(shellcall.Ended); ok {
			fmt.Printf("%s -> %d (%s)\n", e.Command, e.Exit.Code, e.Refused)
		}
	})
	e, err := shellcall.New(shellcall.Options{Terminal: config, Allow: []string{"echo", "git"}, Deny: []string{"git push"}, Observer: audit})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	for _, command := range []string{"echo one", "echo one | tee two", "git -C . push"} {
		call := shellcall.Call{CallID: "call_1", Action: shellcall.Action{Commands: []string{command}}}
		if _, err := e.Run(context.Background(), call); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// echo one -> 0 ()
	// echo one | tee two -> 126 (`tee two` is not on the allow list.)
	// git -C . push -> 126 (`git push` is on the deny list.)
}

// A model's patch changes a file of the workspace, in one step or not at all.
func ExampleExecutor_Patch() {
	config, remove := workspace()
	defer remove()
	e, err := shellcall.New(shellcall.Options{Terminal: config})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	for _, o := range []shellcall.Operation{
		{Type: shellcall.CreateFile, Path: "greet.sh", Diff: "+#!/bin/sh\n+echo hello"},
		{Type: shellcall.UpdateFile, Path: "greet.sh", Diff: "@@ #!/bin/sh\n-echo hello\n+echo \"hello, $1\""},
		{Type: shellcall.UpdateFile, Path: "../greet.sh", Diff: "+echo"},
	} {
		out, err := e.Patch(context.Background(), shellcall.PatchCall{CallID: "call_1", Operation: o})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(out.Status)
	}
	// Output:
	// completed
	// completed
	// failed
}
