package openai

import (
	"slices"
	"testing"
)

// TestReceiptKeys is what clients of ours may rely on.
func TestReceiptKeys(t *testing.T) {
	whole := keysOf(t, Receipt{DurationMS: 1, TimeoutMS: 1, Rung: "jail", Missing: []string{"x"}, StdoutBytes: 1, StderrBytes: 1, StdoutLost: 1,
		StderrLost: 1, StdoutReplaced: 1, StderrReplaced: 1, OutputPath: "/mnt/output/k/0", Restarted: true, Signal: "SIGKILL", Reason: "cancelled"})
	for _, key := range []string{"duration_ms", "timeout_ms", "rung", "missing", "stdout_bytes", "stderr_bytes", "stdout_lost", "stderr_lost",
		"stdout_replaced", "stderr_replaced", "output_path", "restarted", "signal", "reason"} {
		if _, ok := whole[key]; !ok {
			t.Errorf("no key %s in %v", key, whole)
		}
	}
	for key := range keysOf(t, Receipt{}) {
		if !slices.Contains([]string{"duration_ms", "timeout_ms", "rung", "stdout_bytes", "stderr_bytes"}, key) {
			t.Errorf("an empty receipt has %s", key)
		}
	}
}
