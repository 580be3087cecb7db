package egress

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"
)

// A watch sees whether the client goes away while its answer is awaited, as that of a killed command does: what was begun
// for it upstream ends then. It looks for the next byte, which it leaves where it is.
type watch struct {
	in   *bufio.Reader
	conn net.Conn // the client, to wake a read
	gone context.CancelFunc

	mu      sync.Mutex
	stopped bool
	done    chan struct{} // nil until it was begun
}

// begin is called when the request was read to its end; before that its body is what is read.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.done != nil {
		return
	}
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		_, err := w.in.Peek(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil && !w.stopped {
			w.gone()
		}
	}()
}

// stop returns when nobody watches any more.
func (w *watch) stop() {
	w.mu.Lock()
	w.stopped = true
	done := w.done
	w.mu.Unlock()
	for done != nil {
		w.conn.SetReadDeadline(time.Unix(1, 0))
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
