package egress

import (
	"bytes"
	"io"
	"net/http"
)

// minScrubbed is the shortest form of a value that is looked for in bodies: shorter ones occur by chance.
const minScrubbed = 8

// scrubBody makes an answer's body one in which no known form of a value stands. It covers what a server repeats by
// itself: an error that quotes the key, a page that shows the request. It can't cover a server that repeats a value in
// pieces, turned round or packed: an allowed host that wants to give a secret away can.
//
// What stood there becomes as many asterisks, so that lengths, ranges and framing stay true.
func (w *wallet) scrubBody(resp *http.Response, made []swap) {
	if e := resp.Header.Get("Content-Encoding"); resp.Body == nil || e != "" && e != "identity" {
		return // we asked for none; what is packed against our wish passes as it is
	}
	s := &scrubbed{ReadCloser: resp.Body}
	add := func(v Value) {
		if text := v.reveal(); len(text) >= minScrubbed {
			s.forms = append(s.forms, []byte(text))
			s.longest = max(s.longest, len(text))
		}
	}
	for _, m := range made {
		add(m.put)
	}
	for _, e := range w.entries {
		for _, form := range e.forms {
			add(form)
		}
	}
	if len(s.forms) > 0 {
		resp.Body = s
	}
}

// scrubbed reads a body a piece at a time and keeps back an end that could be the beginning of a form.
type scrubbed struct {
	io.ReadCloser
	forms   [][]byte
	longest int
	buf     []byte
	ready   []byte // clean bytes, a part of buf
	held    []byte // what follows them and is not decided
	err     error
}

const scrubPiece = 32 << 10

// Read gives clean bytes.
func (s *scrubbed) Read(p []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		if s.buf == nil {
			s.buf = make([]byte, scrubPiece+s.longest)
		}
		n := copy(s.buf, s.held)
		var more int
		more, s.err = s.ReadCloser.Read(s.buf[n:])
		all := s.buf[:n+more]
		keep := 0
		if s.mask(all); s.err == nil {
			keep = s.begun(all)
		}
		s.ready, s.held = all[:len(all)-keep], all[len(all)-keep:]
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

func (s *scrubbed) mask(b []byte) {
	for _, form := range s.forms {
		for from := 0; ; {
			i := bytes.Index(b[from:], form)
			if i < 0 {
				break
			}
			from += i
			for j := range form {
				b[from+j] = '*'
			}
		}
	}
}

// begun returns how many bytes at the end of b could begin a form.
func (s *scrubbed) begun(b []byte) int {
	for k := min(s.longest-1, len(b)); k > 0; k-- {
		tail := b[len(b)-k:]
		for _, form := range s.forms {
			if len(form) > k && bytes.HasPrefix(form, tail) {
				return k
			}
		}
	}
	return 0
}
