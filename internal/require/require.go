// Package require turns what a machine cannot do into a named skip, and into a failure where it must be possible.
//
// HARDSHELL_REQUIRE lists the features that the machine is known to have, with commas ("jail,git,cgroup"). A test
// that needs a feature says so; without it the test is skipped under that name, unless the list demands it. Tests only.
package require

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// Feature goes on when err is nil. Otherwise it skips the test by the feature's name, or fails it if
// HARDSHELL_REQUIRE names the feature.
func Feature(t testing.TB, name string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if Demanded(name) {
		t.Fatalf("required feature %q is not to be had: %v", name, err)
	}
	t.Skipf("SKIPPED feature=%s: %v", name, err)
}

// Root goes on for root, who alone can do what the reason says.
func Root(t testing.TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Feature(t, "root", errors.New(why))
	}
}

// Demanded says whether HARDSHELL_REQUIRE names the feature.
func Demanded(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("HARDSHELL_REQUIRE"), ","), name)
}
