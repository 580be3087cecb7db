package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The checks say what they say of exact versions: a minor release of a client has broken whole gateways before. What is
// installed is what was pinned.
func TestTheNpmClientsAreTheOnesThatArePinned(t *testing.T) {
	var asked struct{ Dependencies map[string]string }
	read(t, "npm/package.json", &asked)
	var locked struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	read(t, "npm/package-lock.json", &locked)
	exact := regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	if len(asked.Dependencies) == 0 {
		t.Error("no client at all")
	}
	for name, version := range asked.Dependencies {
		if !exact.MatchString(version) {
			t.Errorf("%s is asked for as %q: not one version", name, version)
		}
		if got := locked.Packages["node_modules/"+name]; got.Version != version || got.Integrity == "" {
			t.Errorf("%s %s is locked as %+v", name, version, got)
		}
		var installed struct{ Version string }
		if read(t, "npm/node_modules/"+name+"/package.json", &installed) && installed.Version != version {
			t.Errorf("%s %s is installed as %s", name, version, installed.Version)
		}
	}
}

// read reads a JSON file, and says whether there is one. Only what npm installs may be missing.
func read(t *testing.T, path string, into any) bool {
	t.Helper()
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(path, "npm/node_modules/") {
		return false
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return true
}
