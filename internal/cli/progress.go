package cli

import (
	"fmt"
	"io"
	"time"
)

const (
	// patience is how long nothing is said on a terminal before the progress line appears.
	patience = 400 * time.Millisecond
	// silence is how long nothing is said elsewhere before a plain line tells that something goes on; each further
	// one waits twice as long.
	silence = 10 * time.Second
)

// progress says how long something has been going on: a line that redraws itself on a terminal, a plain line now and
// then elsewhere. It belongs to one goroutine.
type progress struct {
	to    io.Writer
	tty   bool
	what  string
	since time.Time
	next  time.Duration // not on a terminal: when to speak
	drawn bool
	now   func() time.Time
}

func newProgress(to io.Writer) *progress {
	return &progress{to: to, tty: terminal(to), now: time.Now}
}

// start says what goes on from here.
func (p *progress) start(what string) {
	p.clear()
	p.what, p.since, p.next = what, p.now(), silence
}

// show draws the line when it is time. The cursor is at the beginning of a line.
func (p *progress) show() {
	elapsed := p.now().Sub(p.since)
	if p.what == "" || elapsed < patience {
		return
	}
	if p.tty {
		frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
		fmt.Fprintf(p.to, "\r\x1b[K%c %s · %s", frames[int(elapsed/tick)%len(frames)], p.what, elapsed.Truncate(time.Second))
		p.drawn = true
		return
	}
	if elapsed >= p.next {
		fmt.Fprintf(p.to, "… %s · %s\n", p.what, elapsed.Truncate(time.Second))
		p.next *= 2
	}
}

// clear takes the line away.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.drawn = false
	}
}
