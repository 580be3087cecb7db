package response

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// witness is an observer that remembers.
type witness struct {
	mu     sync.Mutex
	told   []string
	events int64
	logged int
}

func (w *witness) tell(words ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, strings.Join(words, " "))
}

func (w *witness) ResponseBegan(background bool) {
	w.tell(map[bool]string{true: "began behind", false: "began"}[background])
}
func (w *witness) FirstDelta(bool, time.Duration) { w.tell("spoke") }
func (w *witness) ResponseEnded(status string, _ time.Duration, events int64) {
	w.tell("ended", status)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events += events
}
func (w *witness) LogFlushed(events int, _ time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logged += events
}

func TestTheObserverIsToldOfEveryResponse(t *testing.T) {
	w := &witness{}
	path := filepath.Join(t.TempDir(), "hardshell.db")
	s := serve(t, openDB(t, path), Options{Observer: w})
	for _, store := range []bool{false, true} {
		r := begin(t, s, Begin{Store: store})
		announce(t, r)
		say(t, r, "a")
		say(t, r, "b")
		finish(t, r, openai.Completed)
		if err := r.Finish(within(t), End{Status: openai.Failed}); err == nil {
			t.Error("it ended twice")
		}
	}
	silent := begin(t, s, Begin{Store: true, Background: true})
	announce(t, silent)
	if err := silent.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := silent.Release(within(t)); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	want := []string{"began", "spoke", "ended completed", "began", "spoke", "ended completed", "began behind", "ended "}
	if !slices.Equal(w.told, want) {
		t.Errorf("told %q", w.told)
	}
	if w.events != 2*5+3 || w.logged < 3 {
		t.Errorf("%d events, %d in the log", w.events, w.logged)
	}
}
