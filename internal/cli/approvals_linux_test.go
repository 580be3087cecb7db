package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// hardshell runs a command line on the daemon's data folder with a key, and returns what it says.
func (d *daemon) hardshell(key string, args ...string) (out, said string, err error) {
	d.t.Helper()
	c := exec.CommandContext(d.t.Context(), "hardshell", append(args, "--data", d.data)...)
	c.Env = append(os.Environ(), "HARDSHELL_CONFIG=", "HARDSHELL_API_KEY="+key)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err = c.Run()
	return stdout.String(), stderr.String(), err
}

// TestAnApprovalSurvivesKill takes the server away while a question waits, and again right after its answer: the question
// stays, and what was approved runs once.
func TestAnApprovalSurvivesKill(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	t.Setenv("HARDSHELL_FEATURES__SHELL__APPROVAL__POLICY", "on-request")
	data := filepath.Join(t.TempDir(), "data")
	d := startDaemon(t, data)
	key, said, err := d.hardshell("", "key", "create", "--scope", "approve")
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	key = strings.TrimSpace(key)
	answer := d.request(t.Context(), "POST", "/v1/responses", map[string]any{"model": "scripted", "background": true,
		"input": "$ echo once >>log; rm -rf build; cat log", "tools": []any{map[string]any{"type": "shell"}}})
	var begun struct{ ID string }
	must(t, json.NewDecoder(answer.Body).Decode(&begun))
	answer.Body.Close()

	var question struct {
		ID, Status string
		ResponseID string `json:"response_id"`
		Commands   []struct{ Command string }
	}
	pending := func() bool {
		out, said, err := d.hardshell(key, "approvals", "--json")
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		return strings.Count(out, "\n") == 1 && json.Unmarshal([]byte(out), &question) == nil
	}
	d.until("the question", pending)
	if question.ResponseID != begun.ID || len(question.Commands) != 1 || question.Commands[0].Command != "echo once >>log; rm -rf build; cat log" {
		t.Errorf("the question: %+v", question)
	}
	if _, said, err := d.hardshell("", "approvals"); err == nil || !strings.Contains(said, "hardshell key create --scope approve") {
		t.Errorf("with the key that runs: %v: %s", err, said)
	}
	d.kill()
	d = startDaemon(t, data)
	first := question.ID
	d.until("the question after a kill", pending)
	if out, _, _ := d.hardshell(key, "approvals"); question.ID != first || !strings.Contains(out, "because rm -rf build: it removes files") {
		t.Errorf("after a kill: %+v\n%s", question, out)
	}
	if out, said, err := d.hardshell(key, "approvals", "answer", first, "approve", "--reason", "fine"); err != nil || out != first+" approved\n" {
		t.Fatalf("%v: %s%s", err, out, said)
	}
	d.kill()
	d = startDaemon(t, data)
	var whole string
	d.until("the end", func() (over bool) {
		var status string
		status, whole = d.row(begun.ID)
		return status == "completed"
	})
	if !strings.Contains(whole, `"stdout":"once\n"`) || !strings.Contains(whole, `"approval":{"id":"`+first+`","status":"approved"}`) {
		t.Errorf("it ended as %s", whole)
	}
	if _, said, err := d.hardshell(key, "approvals", "answer", first, "deny"); err == nil || !strings.Contains(said, "answered once") {
		t.Errorf("answered again: %v: %s", err, said)
	}
	if out, said, err := d.hardshell("", "audit", "show"); err != nil || !strings.Contains(out, "approval") || !strings.Contains(out, "approved") || !strings.Contains(out, "key_") {
		t.Errorf("the audit: %v: %s%s", err, out, said)
	}
}
