package openai

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
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
		case strings.HasPrefix(line, "    ") && line[4] != ' ':
			written = append(written, strings.ToUpper(strings.TrimSuffix(strings.TrimSpace(line), ":"))+" "+path)
		}
	}
	served := []string{"GET /healthz"}
	for _, rt := range open(t, time.Minute).gateway.Routes() {
		if strings.HasPrefix(rt.Path, "/v1/") {
			served = append(served, rt.Method+" "+strings.ReplaceAll(rt.Path, "...}", "}"))
		}
	}
	slices.Sort(written)
	slices.Sort(served)
	if !slices.Equal(written, served) {
		t.Errorf("api/openapi.yaml lists\n%s\nthe server has\n%s", strings.Join(written, "\n"), strings.Join(served, "\n"))
	}
}
