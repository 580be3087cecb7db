package house

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMigrationsAreNeverEdited holds every migration against the sum it was committed with: a data folder that has run
// one never runs it again, so a change to it reaches new folders alone. The answer to a wish is the next number, and
// its line in testdata/migrations.sum (which this test prints).
func TestMigrationsAreNeverEdited(t *testing.T) {
	recorded, err := os.ReadFile("testdata/migrations.sum")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(recorded)); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			t.Fatalf("migrations.sum: %q is no line of sha256sum's", lines.Text())
		}
		sums[name] = sum
	}
	var paths []string
	for _, rooms := range []string{"internal/*", "internal/*/*"} {
		found, err := filepath.Glob(filepath.Join(root, rooms, "migrations/*.sql"))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	if len(paths) < 10 {
		t.Fatalf("only %d migrations found", len(paths))
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		name = filepath.ToSlash(name)
		digest := sha256.Sum256(text)
		sum := hex.EncodeToString(digest[:])
		switch have, ok := sums[name]; {
		case !ok:
			t.Errorf("%s is new, add to internal/house/testdata/migrations.sum:\n%s", name, sum+"  "+name)
		case have != sum:
			t.Errorf("%s was edited: folders that have run it would never see the change; write the next number instead", name)
		}
		delete(sums, name)
	}
	for name := range sums {
		t.Errorf("%s is gone: folders that have not run it need it", name)
	}
}
