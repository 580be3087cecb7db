package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// TestTheGuideToCassettes lays down the files that the guide shows and runs its commands.
func TestTheGuideToCassettes(t *testing.T) {
	guide, err := os.ReadFile("../../docs/cassettes.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, ran := t.TempDir(), 0
	for _, block := range regexp.MustCompile("(?s)```(\\w+)(?: name=(\\S+))?\n(.*?)```").FindAllStringSubmatch(string(guide), -1) {
		if name := block[2]; name != "" {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(block[3]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		command, shown, ok := strings.Cut(strings.TrimPrefix(block[3], "$ "), "\n")
		if block[1] != "console" || !ok {
			continue
		}
		ran++
		t.Run(command, func(t *testing.T) {
			if strings.Contains(shown, "…") { // it runs a command
				require.Feature(t, "jail", sandbox.Supported(t.Context()))
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, "sh", "-c", command)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir, "HARDSHELL_DATA="+filepath.Join(dir, "data"), "HARDSHELL_CONFIG=", "XDG_CONFIG_HOME=", "XDG_DATA_HOME=",
				"HARDSHELL_API_KEY=", "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "OLLAMA_HOST=127.0.0.1:1")
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			want := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(shown)), "…", "(?s:.*)")
			if err != nil || !regexp.MustCompile("^"+want+"\\s*$").Match(out) {
				t.Errorf("%v; the guide shows\n%s\nbut it prints\n%s\n%s", err, shown, out, said.String())
			}
		})
	}
	if ran != 3 {
		t.Errorf("%d commands, want 3", ran)
	}
}
