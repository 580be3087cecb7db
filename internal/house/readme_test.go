package house

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// transcript is one console block of the README: a command and the output that it shows.
type transcript struct{ command, output string }

// transcripts reads the console blocks. A command begins with "$ " and goes on until its quotes are closed; in the
// output "…" stands for anything, whole lines included.
func transcripts(t *testing.T) []transcript {
	t.Helper()
	data, err := os.ReadFile(root + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []transcript
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(data), -1) {
		command, rest, _ := strings.Cut(strings.TrimPrefix(block[1], "$ "), "\n")
		for strings.Count(command, "'")%2 == 1 {
			var line string
			line, rest, _ = strings.Cut(rest, "\n")
			command += "\n" + line
		}
		all = append(all, transcript{command, rest})
	}
	return all
}

// pattern turns shown output into an expression that the real output must match. A line of dots is any number of lines,
// none too: of what goes to standard output and to standard error either may come first.
func pattern(shown string) *regexp.Regexp {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(shown)), "\n…\n", "\n(.*\n)?")
	return regexp.MustCompile(`(?s)` + strings.ReplaceAll(quoted, "…", ".*"))
}

// TestReadme runs what the README shows, but for the suite that this test is part of.
func TestReadme(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	ran := 0
	for _, tr := range transcripts(t) {
		if strings.HasPrefix(tr.command, "make ") {
			continue
		}
		t.Run(strings.Join(strings.Fields(tr.command)[:4], " "), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			command := tr.command
			serving := strings.HasSuffix(command, " serve")
			if serving { // it runs until it is told to stop
				command = strings.Replace(command, "go run ./cmd/hardshell", "go build -o $BIN ./cmd/hardshell && timeout -s INT 3 $BIN", 1)
				command += " --listen 127.0.0.1:0"
				tr.output = strings.Replace(tr.output, ":7070", ":…", 1)
			}
			cmd := exec.CommandContext(ctx, "bash", "-c", command)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "HARDSHELL_DATA="+t.TempDir(), "BIN="+t.TempDir()+"/hardshell", "OPENAI_API_KEY=", "CGO_ENABLED=0")
			out, err := cmd.CombinedOutput()
			if err != nil && !serving {
				t.Errorf("%v", err)
			}
			if !pattern(tr.output).Match(out) {
				t.Errorf("the README shows\n%s\nbut it prints\n%s", tr.output, out)
			}
		})
		ran++
	}
	if ran < 3 {
		t.Fatalf("only %d commands found in the README", ran)
	}
}
