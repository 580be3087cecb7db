package session_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// exampleBox is a box for an example; its sessions are not confined.
func exampleBox() (box *sandbox.Box, done func()) {
	dir, err := os.MkdirTemp("", "hardshell-example-")
	if err != nil {
		log.Fatal(err)
	}
	box, err = sandbox.Open(context.Background(), sandbox.Spec{Dir: dir, Cwd: "/", Policy: sandbox.Policy{Mode: sandbox.DangerFullAccess}})
	if err != nil {
		log.Fatal(err)
	}
	return box, func() { box.Close(); os.RemoveAll(dir) }
}

// A shell lives on between calls, and keeps what it was told.
func ExampleStore_Start() {
	box, done := exampleBox()
	defer done()
	store, ctx := session.New(session.Options{}), context.Background()
	defer store.Close()
	shell, err := store.Start(ctx, session.Spec{Starter: box, Command: process.Command{
		Argv: []string{"bash", "--norc", "--noprofile", "-i"}, Env: []string{"PATH=/usr/bin:/bin", "TERM=dumb"}, Dir: "/", TTY: &process.Size{}}})
	if err != nil {
		log.Fatal(err)
	}
	shell.Collect(ctx, session.Wait{Yield: time.Minute}) // ends as soon as the prompt is there
	for _, line := range []string{"export FOO=bar; cd /usr", "echo $FOO"} {
		if err := shell.Write(ctx, []byte(line+"\n")); err != nil {
			log.Fatal(err)
		}
		got, err := shell.Collect(ctx, session.Wait{Yield: time.Minute})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v in %s: %q\n", got.State, got.CwdAfter, got.Body)
	}
	// Output:
	// idle in /usr: ""
	// idle in /usr: "bar\n"
}

// One call waits until a server is up, or has failed; nobody polls.
func ExampleSession_Collect() {
	box, done := exampleBox()
	defer done()
	store, ctx := session.New(session.Options{}), context.Background()
	defer store.Close()
	server, err := store.Start(ctx, session.Spec{Starter: box, Command: process.Command{
		Argv: []string{"sh", "-c", "echo starting; sleep 0.1; echo listening on 8080; sleep 1000"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/"}})
	if err != nil {
		log.Fatal(err)
	}
	got, err := server.Collect(ctx, session.Wait{Until: session.Until{Pattern: regexp.MustCompile(`listening on \d+`)}, Ceiling: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Fired, "-", got.Match)
	server.Kill()
	<-server.Done()
	got, _ = server.Collect(ctx, session.Wait{})
	fmt.Println(got.State, strings.TrimSpace(got.Text()))
	// Output:
	// pattern - listening on 8080
	// exited
}
