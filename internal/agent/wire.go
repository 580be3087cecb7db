package agent

import (
	"sync"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// wire writes a response's events, one at a time whoever calls, and gives each item its place in the output. Once
// the response takes no more events, the rest is dropped and the loop ends: ended says so.
type wire struct {
	run  run
	mu   sync.Mutex
	next int
	err  error
}

// open gives an item the next place in the output and announces it.
func (w *wire) open(item openai.Item) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	index := w.next
	w.next++
	w.write(openai.NewItemEvent(openai.EventItemAdded, index, item))
	return index
}

// openAt announces an item at a place that was taken for it.
func (w *wire) openAt(index int, item openai.Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(openai.NewItemEvent(openai.EventItemAdded, index, item))
}

// places is how many places of the output are taken.
func (w *wire) places() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

// emit writes events, with nothing of anybody else's between them.
func (w *wire) emit(events ...openai.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range events {
		w.write(ev)
	}
}

func (w *wire) write(ev openai.Event) {
	if w.err == nil {
		w.err = w.run.Emit(ev)
	}
}

// stop drops every further event.
func (w *wire) stop(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = why
	}
}

// ended is why the response takes no more events, or nil.
func (w *wire) ended() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
