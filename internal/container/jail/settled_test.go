package jail

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
)

// TestSettledJobsMakeRoom keeps the newest settled jobs, whoever settled them, and every job that is not settled.
func TestSettledJobsMakeRoom(t *testing.T) {
	spec := container.Spec{Dir: filepath.Join(t.TempDir(), "odd [name]*")}
	job := func(i int) string { return jobDir(spec, "k"+strconv.Itoa(i), 0) }
	for i := range 12 {
		if err := os.MkdirAll(job(i), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(job(i), "stdout"), []byte("out"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(jobDir(spec, "k0", 1), 0o700); err != nil { // another command of the same call
		t.Fatal(err)
	}
	settle := func(r *runtime, i int) {
		t.Helper()
		if err := r.Settle(t.Context(), spec, "k"+strconv.Itoa(i), 0); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-100) * time.Minute)
		for _, name := range []string{"stdout", mark} {
			os.Chtimes(filepath.Join(job(i), name), old, old) // gone already, or not
		}
	}
	first := &runtime{past: settled{max: 4}}
	for i := range 6 {
		settle(first, i)
	}
	second := &runtime{past: settled{max: 4}} // a later process
	for i := 6; i < 9; i++ {
		settle(second, i)
	}
	for i := range 12 {
		_, err := os.Stat(job(i))
		if kept := err == nil; kept != (i >= 5) {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if _, err := os.Stat(jobDir(spec, "k0", 1)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(job(1))); err == nil {
		t.Error("an empty key's folder was left")
	}
}
