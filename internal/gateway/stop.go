package gateway

import "strings"

// Stops looks for stop sequences in text that comes in pieces, as few upstreams are asked for them. It holds back what may
// be the beginning of one.
type Stops struct {
	Sequences []string
	Found     string // the sequence that was met
	held      string
}

// Feed takes a piece of text and returns what may be told; over says that a stop sequence follows it.
func (s *Stops) Feed(piece string) (told string, over bool) {
	if len(s.Sequences) == 0 {
		return piece, false
	}
	all := s.held + piece
	at := -1
	for _, stop := range s.Sequences {
		if i := strings.Index(all, stop); i >= 0 && (at < 0 || i < at) {
			at, s.Found = i, stop
		}
	}
	if at >= 0 {
		s.held = ""
		return all[:at], true
	}
	keep := 0
	for _, stop := range s.Sequences {
		for n := min(len(stop)-1, len(all)); n > keep; n-- {
			if strings.HasSuffix(all, stop[:n]) {
				keep = n
				break
			}
		}
	}
	s.held = all[len(all)-keep:]
	return all[:len(all)-keep], false
}

// Rest is what was held back, at the end of a text.
func (s *Stops) Rest() string {
	held := s.held
	s.held = ""
	return held
}
