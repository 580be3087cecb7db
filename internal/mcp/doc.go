// Package mcp serves the terminal's tools to any MCP client: exec_command and write_stdin, restart, and the older one-shot
// tools if asked. It decides nothing: what runs, who is asked and in what sandbox is package terminal's.
//
// # What holds
//
// No call blocks longer than [Bound]. A command that lives on answers by then with its session; a call that is not done
// for another reason (a person has not answered, a one-shot command runs, a sandbox is slow) answers with a number, and
// write_stdin with that number waits on. A client that asked for progress is told every few seconds.
//
// What a person must be asked is asked by elicitation, whole, where the client has it: by a request of ours up to protocol
// 2025-11-25, by an input-required result from 2026-07-28 on. Where it has not, the policy alone decides, and what would be
// asked is refused with that reason. An answer counts for the question that was shown and for no other.
//
// A cancelled call is killed with its command, unless [Config.Detach] says otherwise, and a connection that ends takes
// every command with it. An error of the machinery is told apart from the command's: failure "io" and the stage.
//
// # Over HTTP
//
// A [Hall] serves any number of clients at a server, by streamable HTTP up to protocol 2025-11-25: a client of a later one is
// told so, and falls back. Each session has a container of its key's organisation, where all its commands run, in a terminal
// or not; nothing starts on the host, and nobody is asked. A session is its key's alone: any other gets 404 for it. It ends
// by the client's word, after half an hour in which nothing is asked, or with the server, and its commands end with it; the
// container stays for its own idle time. A client that listened and goes away without a word is given five minutes to come
// back; one that never listened is one that asks nothing.
package mcp
