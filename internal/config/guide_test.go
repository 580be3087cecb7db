package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The guide names every key, and no key that is not there.
func TestGuideNamesEveryKey(t *testing.T) {
	raw, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if !ok || !strings.HasPrefix(cell, "`") {
			continue
		}
		for key := range strings.SplitSeq(cell, ", ") {
			told[strings.Trim(key, "`")] = true
		}
	}
	keys := schema(reflect.TypeFor[Config](), "")
	for i, key := range keys {
		if i+1 < len(keys) && strings.HasPrefix(keys[i+1], key+".") {
			continue // a table
		}
		if !told[key] {
			t.Errorf("docs/configuration.md does not name %s", key)
		}
		delete(told, key)
	}
	for key := range told {
		t.Errorf("docs/configuration.md names %s, which is no key", key)
	}
}
