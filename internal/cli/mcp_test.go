package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// TestMCPOverStdio is the program itself at a client of the official SDK: Python is typed at, what a person must be
// asked is asked, what decides about the agent is hidden from it, and all of it is in the audit.
func TestMCPOverStdio(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	_, err := os.Stat("/usr/bin/python3")
	require.Feature(t, "python", err)
	for _, protocol := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(protocol, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			home, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			outside := filepath.Join(t.TempDir(), "outside")
			hardshell, err := exec.LookPath("hardshell")
			if err != nil {
				t.Fatal(err)
			}
			environ := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "HARDSHELL_DATA=" + filepath.Join(home, "data"), "TMPDIR=" + os.TempDir()}
			const rules = "# the user's own\n"
			ours := filepath.Join(home, ".config/hardshell/rules.toml")
			if err := os.MkdirAll(filepath.Dir(ours), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(ours, []byte(rules), 0o600); err != nil {
				t.Fatal(err)
			}
			// The home itself is the workspace: the worst place.
			cmd := exec.Command(hardshell, "mcp", "--cwd", home, "--no-login")
			cmd.Env, cmd.Dir = environ, home
			var said strings.Builder
			cmd.Stderr = &said
			asked := 0
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked++
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "once"}}, nil
				}})
			session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
			if err != nil {
				t.Fatalf("%v: %s", err, said.String())
			}
			defer session.Close()
			type answer struct {
				Output   string `json:"output"`
				ExitCode *int   `json:"exit_code"`
				Session  int    `json:"session_id"`
			}
			call := func(tool, arguments string) (a answer) {
				t.Helper()
				result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
				if err != nil {
					t.Fatalf("%s: %v: %s", arguments, err, said.String())
				}
				text, err := json.Marshal(result.StructuredContent)
				if err != nil || json.Unmarshal(text, &a) != nil {
					t.Fatalf("%s: %s", arguments, text)
				}
				return a
			}
			first := call("exec_command", `{"cmd":"exec /usr/bin/python3 -q","tty":true,"yield_time_ms":250}`)
			id := strconv.Itoa(first.Session)
			until := func(all, want string) {
				t.Helper()
				for end := time.Now().Add(patience); !strings.Contains(all, want); {
					if time.Now().After(end) {
						t.Fatalf("%q is not in %q", want, all)
					}
					all += call("write_stdin", `{"session_id":`+id+`,"yield_time_ms":250}`).Output
				}
			}
			until(first.Output, ">>> ")
			until(call("write_stdin", `{"session_id":`+id+`,"chars":"print(6*7)\n"}`).Output, "\n42")
			if last := call("write_stdin", `{"session_id":`+id+`,"chars":"exit(3)\n","wait_for":{"exit":true}}`); last.ExitCode == nil || *last.ExitCode != 3 {
				t.Errorf("%+v", last)
			}
			call("exec_command", `{"cmd":"echo x > `+outside+`","sandbox_permissions":"require_escalated","wait_for":{"exit":true}}`)
			if _, err := os.Stat(outside); err != nil || asked != 1 {
				t.Errorf("asked %d times: %v", asked, err)
			}
			for _, attempt := range []string{"mkdir -p .config/hardshell data/audit; echo '[[rule]]' > .config/hardshell/rules.toml", "rm -rf data/audit .config/hardshell",
				"mv .config away; mkdir -p .config/hardshell; echo '[[rule]]' > .config/hardshell/rules.toml"} {
				call("exec_command", `{"cmd":"`+attempt+`","wait_for":{"exit":true}}`)
				if text, err := os.ReadFile(ours); err != nil || string(text) != rules {
					t.Errorf("after %s: %q %v", attempt, text, err)
				}
			}
			call("exec_command", `{"cmd":"echo Authorization: Bearer `+bearer+`; exit 4","wait_for":{"exit":true}}`)
			if err := session.Close(); err != nil {
				t.Errorf("%v: %s", err, said.String())
			}
			if said.String() != "" {
				t.Errorf("it said %s", said.String())
			}
			show := exec.CommandContext(ctx, hardshell, "audit", "show")
			show.Env = environ
			text, err := show.CombinedOutput()
			if strings.Contains(string(text), bearer) || !strings.Contains(string(text), "Authorization") {
				t.Errorf("a key is in the audit: %s", text)
			}
			if kept := textOf(t, filepath.Join(home, "data", "audit")); strings.Contains(kept, bearer) || !strings.Contains(kept, "Authorization") {
				t.Errorf("a key is in the audit's files: %s", kept)
			}
			if err != nil || !strings.Contains(string(text), "python3") || !strings.Contains(string(text), "person at the MCP client") || !strings.Contains(string(text), outside) {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}

// bearer looks like a key.
const bearer = "sk-abcdefghijklmnopqrstuvwxyz012345"

// textOf is all that a folder's files hold.
func textOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
