package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// lacks is require.Feature in this module, which cannot import what is internal to the other: it skips a test by the name of
// what is not there, or fails it if HARDSHELL_REQUIRE demands that.
func lacks(t testing.TB, feature, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("HARDSHELL_REQUIRE"), ","), feature) {
		t.Fatalf("required feature %q is not to be had: %s", feature, why)
	}
	t.Skipf("SKIPPED feature=%s: %s", feature, why)
}
