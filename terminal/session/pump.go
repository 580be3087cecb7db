package session

import (
	"bytes"
	"regexp"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// pump takes the session's output until its end.
func (s *Session) pump() {
	defer s.giveUp(nil)
	var lost error
	for chunk, err := range s.job.Follow(s.life) { // the command's end ends it, and every way to let go of a session kills it
		if err != nil {
			lost = err
			break
		}
		s.take(chunk)
	}
	exit, err := s.job.Wait(s.life)
	if lost == nil {
		lost = err
	}
	s.finish(exit, lost)
	if s.spec.Ended != nil {
		s.spec.Ended(s.id, exit, lost)
	}
	s.store.o.Observer.Ended(s.id, exit, lost)
	close(s.done)
}

// take takes a chunk.
func (s *Session) take(chunk process.Chunk) {
	s.mu.Lock()
	if gap := chunk.Offset - s.next[chunk.Stream]; gap > 0 { // we were too slow for the spool
		s.total += gap
		s.screen.Write([]byte("\r\n" + process.LeftOut(gap) + "\r\n"))
	}
	s.next[chunk.Stream] = chunk.Offset + int64(len(chunk.Data))
	s.total += int64(len(chunk.Data))
	s.newest = s.store.o.Clock.Now()
	s.deaf = false
	told, fresh := s.masks.take(chunk.Stream, chunk.Data)
	s.screen.Write(fresh)
	s.sniff.Write(chunk.Stream, told)
	s.match()
	s.mu.Unlock()
	s.wake()
	s.tell(chunk.Stream, told)
}

// tell passes output on, passwords masked.
func (s *Session) tell(stream int, p []byte) {
	if len(p) == 0 {
		return
	}
	if s.spec.Output != nil {
		s.spec.Output(stream, p)
	}
	s.store.o.Observer.Output(s.id, stream, p)
}

func (s *Session) finish(exit process.Exit, lost error) {
	var rest [3][]byte
	s.mu.Lock()
	for stream := range rest {
		var fresh []byte
		rest[stream], fresh = s.masks.release(stream)
		s.screen.Write(fresh)
		s.sniff.Write(stream, rest[stream])
	}
	s.masks.wipe()
	s.sniff.End()
	s.screen.End()
	s.match()
	s.ended, s.exit, s.lost = true, exit, lost
	s.stand = stand{state: Exited}
	if s.spec.Background {
		s.ready = JobExited
	}
	s.mu.Unlock()
	for stream, p := range rest {
		s.tell(stream, p)
	}
	s.wake()
}

func (s *Session) wake() {
	select {
	case s.grew <- struct{}{}:
	default:
	}
}

// heard is called, under the lock, with what the command tells its terminal.
func (s *Session) heard(osc string) {
	kind, code, ok := s.marks.mark(osc)
	if !ok {
		return
	}
	s.marks.seen = true
	switch kind {
	case 'C':
		s.marks.prompt = false
		s.screen.Mark()
	case 'D':
		s.marks.prompt = true
		if text, ok := s.screen.Marked(); ok {
			s.body, s.code = text.String(), &code
		}
	}
}

// match is what a Collect waits to see.
type match struct {
	pattern *regexp.Regexp
	found   bool
	text    string
}

func (m *match) try(line []byte) {
	if m == nil || m.found {
		return
	}
	if at := m.pattern.FindIndex(line); at != nil {
		const most = 500
		m.found, m.text = true, string(bytes.ToValidUTF8(line[at[0]:min(at[1], at[0]+most)], nil))
	}
}

// match looks for patterns in the lines that stand on the screen. It needs the lock.
func (s *Session) match() {
	if s.wanted == nil && !s.awaitsReady() {
		return
	}
	s.screen.Lines(func(line []byte) bool { s.lineLeft(line); return true })
}

func (s *Session) awaitsReady() bool { return s.ready == JobRunning && s.spec.Ready.Pattern != nil }

// lineLeft is called, under the lock, with each line that will not change any more.
func (s *Session) lineLeft(line []byte) {
	s.wanted.try(line)
	if s.awaitsReady() && s.spec.Ready.Pattern.Match(line) {
		s.ready = JobReady
	}
}
