package openai

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/skill"
)

// TestSpecListsTheRoutesThatExist reads api/openapi.yaml by its indentation: paths stand at two spaces, methods at
// four.
func TestSpecListsTheRoutesThatExist(t *testing.T) {
	raw, err := os.ReadFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	path, inPaths := "", false
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case !strings.HasPrefix(line, " "):
			inPaths = line == "paths:"
		case !inPaths || !strings.HasSuffix(line, ":"):
		case strings.HasPrefix(line, "  /"):
			path = strings.TrimSuffix(strings.TrimSpace(line), ":")
		case strings.HasPrefix(path, "/v1/messages"), strings.HasPrefix(path, "/v1/chat/"): // of other doors
		case strings.HasPrefix(line, "    ") && line[4] != ' ':
			written = append(written, strings.ToUpper(strings.TrimSuffix(strings.TrimSpace(line), ":"))+" "+path)
		}
	}
	served := []string{"GET /healthz", "GET /metrics", "GET /mcp", "POST /mcp", "DELETE /mcp"} // the last three are assembled beside the door
	for _, rt := range slices.Concat(openFiles(t, file.Limits{}).gateway.Routes(), openSkills(t, skill.Limits{}).gateway.Routes(), openDesk(t).gateway.Routes(), openCompaction(t, &fakeCompaction{}).gateway.Routes()) {
		if strings.HasPrefix(rt.Path, "/v1/") {
			served = append(served, rt.Method+" "+strings.ReplaceAll(rt.Path, "...}", "}"))
		}
	}
	slices.Sort(written)
	slices.Sort(served)
	served = slices.Compact(served)
	if !slices.Equal(written, served) {
		t.Errorf("api/openapi.yaml lists\n%s\nthe server has\n%s", strings.Join(written, "\n"), strings.Join(served, "\n"))
	}
}

// TestEveryDifferenceNamesItsTest reads api/differences.md: the last column of each row is a package and a test of it.
func TestEveryDifferenceNamesItsTest(t *testing.T) {
	raw, err := os.ReadFile("../../../api/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	holder := regexp.MustCompile("`([a-z/]+)` (Test[A-Za-z]+) \\|$")
	rows := 0
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what |") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		m := holder.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("this row names no test: %s", line)
			continue
		}
		files, _ := filepath.Glob("../../" + m[1] + "/*_test.go") // a room of internal, or a public one
		public, _ := filepath.Glob("../../../" + m[1] + "/*_test.go")
		files = append(files, public...)
		if !slices.ContainsFunc(files, func(file string) bool {
			src, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(src), "\nfunc "+m[2]+"(")
		}) {
			t.Errorf("%s is not a test of %s: %s", m[2], m[1], line)
		}
	}
	if rows < 10 {
		t.Errorf("only %d rows: the table is not read", rows)
	}
}
