package sandbox_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The suites draw their rounds from a seed, which they log. A normal run plays a twentieth of the rounds of one seed, as
// far as it comes in suiteTime (a fifth of that with -short), so that it says the same of the same program; HARDSHELL_SUITES=all, which `make fuzz` sets,
// plays all rounds of a new one. HARDSHELL_SEED plays a run again.
const (
	suiteTime = 15 * time.Second
	usualSeed = 20261121
)

func suiteAll() bool { return os.Getenv("HARDSHELL_SUITES") == "all" }

// suiteRounds is how many of a suite's rounds this run plays.
func suiteRounds(all int) int {
	if suiteAll() {
		return all
	}
	return max(all/20, 1)
}

func suiteSeed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(usualSeed)
	if suiteAll() {
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv("HARDSHELL_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("HARDSHELL_SEED=%d", seed)
	return seed
}

// play plays a suite's rounds, by some clients at once. Each round draws from a source of its own.
func play(t *testing.T, all, clients int, round func(i int, r *rand.Rand)) {
	t.Helper()
	seed, n := suiteSeed(t), suiteRounds(all)
	var next, played atomic.Int64
	var wg sync.WaitGroup
	limit := suiteTime
	if testing.Short() { // under the race detector
		limit /= 5
	}
	began := time.Now()
	for range clients {
		wg.Go(func() {
			for !t.Failed() && (suiteAll() || time.Since(began) < limit) {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				round(i, rand.New(rand.NewPCG(seed, uint64(i))))
				played.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d of %d rounds in %v", played.Load(), all, time.Since(began).Round(time.Millisecond))
}

// drawn is a length: each doubling is a little rarer than the one before.
func drawn(r *rand.Rand, most int) int {
	n := 1
	for n < most && r.IntN(8) > 0 {
		n *= 2
	}
	return min(n/2+r.IntN(n/2+1)+1, most)
}
