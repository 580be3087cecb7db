package session

import (
	"context"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/terminal/screen"
)

// How often a session is looked at while somebody waits: soon after the last output, then ever more rarely.
const (
	lookFirst = 40 * time.Millisecond
	lookLast  = 500 * time.Millisecond
	lookPort  = 100 * time.Millisecond
	// deafFor is for how long a session that was written to, and shows no sign of it, is not believed to wait for more.
	deafFor = 400 * time.Millisecond
	// surely is how long somebody must be blocked reading before that ends a wait for something else: a program may read
	// its terminal in one thread while it works in others.
	surely = time.Second
)

// Collect waits as asked and returns what is new. The error is the context's, or says that the sandbox does not answer;
// whatever became of the command is in the snapshot. One call at a time collects; others wait for it.
func (s *Session) Collect(ctx context.Context, w Wait) (Snapshot, error) {
	select {
	case s.calling <- struct{}{}:
		defer func() { <-s.calling }()
	case <-ctx.Done():
		return Snapshot{}, context.Cause(ctx)
	}
	s.store.use(s)
	c := s.collector(w)
	fired, err := c.wait(ctx)
	s.mu.Lock()
	s.wanted = nil
	s.mu.Unlock()
	if err != nil {
		return Snapshot{}, err
	}
	snapshot := s.snapshot(ctx, c, fired)
	s.store.use(s)
	return snapshot, nil
}

// collector is one call's wait.
type collector struct {
	s        *Session
	until    Until
	from     time.Time
	deadline time.Time
	capped   time.Duration
	over     Fired // what it is when the deadline comes
	fresh    bool  // it answers a start or a write
	before   State // where the session stood before
	want     *match
	cwd      string

	interval time.Duration
	nextLook time.Time
	seen     stand // by the last look
	since    time.Time
	total    int64 // bytes at that look
}

func (s *Session) collector(w Wait) *collector {
	now := s.store.o.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &collector{s: s, until: w.Until, from: now, over: FiredYield, before: s.stand.state, cwd: s.dir}
	if !s.asked.IsZero() {
		c.from, c.fresh, c.before = s.asked, true, Running
		s.asked = time.Time{}
	}
	limit := w.Yield
	background := s.first && s.spec.Background
	if background {
		c.until, limit = s.spec.Ready, s.spec.Settle
		c.until.Exit = true
		if limit <= 0 {
			limit = DefaultSettle
		}
		c.over = FiredCeiling
	} else if w.Until.something() {
		c.over = FiredCeiling
		if limit = w.Ceiling; limit <= 0 {
			limit = DefaultCeiling
		}
		if limit > MaxCeiling {
			limit, c.capped = MaxCeiling, MaxCeiling
		}
	}
	s.first = false
	if w.Longest > 0 && limit > w.Longest {
		limit, c.capped = w.Longest, w.Longest
	}
	if c.deadline = c.from.Add(limit); c.over == FiredCeiling && !background {
		c.deadline = now.Add(limit) // what is waited for may have been asked for long ago
	}
	c.interval, c.nextLook = lookFirst, c.from.Add(lookFirst)
	if c.until.Pattern != nil {
		c.want = &match{pattern: c.until.Pattern}
		s.wanted = c.want
		pending := s.screen.Peek()
		for _, part := range []string{pending.Head, pending.Tail} {
			for line := range strings.Lines(part) {
				c.want.try([]byte(strings.TrimSuffix(line, "\n")))
			}
		}
	}
	return c
}

// wait waits until something that ends it has happened.
func (c *collector) wait(ctx context.Context) (Fired, error) {
	for {
		now := c.s.store.o.Clock.Now()
		fired, next, err := c.check(ctx, now)
		if fired != "" || err != nil {
			return fired, err
		}
		fire, stop := c.s.store.o.Clock.Timer(next.Sub(now))
		select {
		case <-fire:
		case <-c.s.grew:
		case <-c.s.done:
		case <-ctx.Done():
			stop()
			return "", context.Cause(ctx)
		}
		stop()
	}
}

// check says what has happened, or when to look again.
func (c *collector) check(ctx context.Context, now time.Time) (fired Fired, next time.Time, err error) {
	s := c.s
	s.mu.Lock()
	ended, total, newest, deaf := s.ended, s.total, s.newest, s.deaf
	ready := s.spec.Background && s.ready == JobReady && c.over == FiredCeiling
	found := c.want != nil && c.want.found
	s.mu.Unlock()
	switch {
	case found:
		return FiredPattern, now, nil
	case ended:
		return FiredExit, now, nil
	case ready && c.until.Pattern != nil && c.until.Pattern == s.spec.Ready.Pattern:
		return FiredPattern, now, nil
	}
	next = c.deadline
	if c.until.Quiet > 0 {
		at := later(newest, c.from).Add(c.until.Quiet)
		if !now.Before(at) {
			return FiredQuiet, now, nil
		}
		next = earlier(next, at)
	}
	if total != c.total { // it prints: what was seen before is old
		c.total, c.seen, c.interval = total, stand{}, lookFirst
		if c.until.Port == 0 {
			c.nextLook = newest.Add(lookFirst)
		}
	}
	if !now.Before(c.nextLook) && now.Before(c.deadline) {
		if fired, err := c.look(ctx, now, deaf); fired != "" || err != nil {
			return fired, now, err
		}
	}
	if !now.Before(c.deadline) {
		return c.over, now, nil
	}
	return "", earlier(next, c.nextLook), nil
}

// look looks once, and says whether that ends the wait: a state that was seen before, without a word between, and that
// is news.
func (c *collector) look(ctx context.Context, now time.Time, deaf bool) (Fired, error) {
	got, err := c.s.look(ctx, c.until.Port)
	if err != nil {
		return "", err
	}
	if got.listens && c.until.Port != 0 {
		return FiredPort, nil
	}
	if got.state != c.seen.state || got.password != c.seen.password {
		c.seen, c.since, c.interval = got, now, lookFirst
	} else {
		c.seen = got
		c.interval = min(2*c.interval, lookLast)
	}
	if c.until.Port != 0 {
		c.interval = min(c.interval, lookPort)
	}
	c.nextLook = now.Add(c.interval)
	lasts := now.Sub(c.since)
	if got.state == Running {
		return "", nil
	}
	c.s.mu.Lock()
	deaf = deaf && c.s.deaf
	c.s.mu.Unlock()
	if lasts == 0 || deaf && lasts < deafFor {
		return "", nil
	}
	c.s.mu.Lock()
	c.s.stand = got
	c.s.mu.Unlock()
	if got.state == c.before || c.until.something() && (!got.sure || got.state == AwaitingInput && !got.password && lasts < surely) {
		return "", nil
	}
	if got.state == Idle {
		return FiredIdle, nil
	}
	return FiredAwaiting, nil
}

// snapshot is what the call answers.
func (s *Session) snapshot(ctx context.Context, c *collector, fired Fired) Snapshot {
	if fired != FiredExit { // where it stands now; a word that it cannot have heard yet makes any look worthless
		if got, err := s.look(ctx, 0); err == nil {
			s.mu.Lock()
			if got.state == Running || !s.deaf {
				s.stand = got
			}
			s.mu.Unlock()
		}
	}
	now := s.store.o.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && s.total == s.from.total { // asked again
		again := *s.last
		again.Notices, s.notices = s.notices, nil
		return again
	}
	for stream := range s.masks.held {
		s.screen.Write(s.masks.reveal(stream))
	}
	text := s.screen.Take()
	data, binary := s.sniff.Binary()
	if binary {
		text = screen.Text{Head: data.String(), Total: int64(len(data.String()))}
	}
	out := Snapshot{Data: data, Replaced: s.sniff.Replaced(),
		ID: s.id, Name: s.spec.Name, Head: text.Head, Tail: text.Tail, Omitted: text.Omitted, TextBytes: text.Total,
		Bytes: s.total - s.from.total, Total: s.total,
		Raw:   Raw{StdoutFrom: s.from.raw[1], StdoutTo: s.next[1], StderrFrom: s.from.raw[2], StderrTo: s.next[2]},
		State: s.stand.state, Password: s.stand.password, CwdBefore: c.cwd, CwdAfter: s.dir, Wall: now.Sub(c.from), Fired: fired,
		Capped: c.capped, Ready: s.ready, Notices: s.notices}
	if fired != FiredCeiling && fired != FiredYield {
		out.Capped = 0
	}
	if c.want != nil {
		out.Match = c.want.text
	}
	s.sniff.Reset()
	s.from, s.notices = cursor{s.total, s.next}, nil
	switch {
	case s.ended:
		out.State, out.Password, out.Exit, out.Lost = Exited, false, s.exit, s.lost
		kept := out
		kept.Notices = nil
		s.last = &kept
	case out.State == AwaitingInput:
		out.Prompt = promptLine(s.screen.Line())
	case out.State == Idle && s.marks != nil && s.marks.seen && s.code != nil:
		out.Command, out.Body = s.code, s.body
		s.code, s.body = nil, ""
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
