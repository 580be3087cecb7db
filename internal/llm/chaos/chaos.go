// Package chaos stands before a model server that is played and misbehaves as real ones do: it is late, refuses with 429
// and 5xx, hangs up, cuts answers anywhere, says things twice, tells usage late or not at all, and tells a call's arguments
// only when they are done.
//
// It knows of the dialects only how their streams are framed and how a few of their frames are called. What holds: it
// never makes up a word or a call, and so never repeats a frame that is text, or a call that nothing tells from a second one;
// what it does follows from its seed and from the number of the request alone; and every answer
// ends.
package chaos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Options says how it misbehaves.
type Options struct {
	Seed     uint64
	MaxDelay time.Duration // of one wait; 0: nothing is late

	// Did is told what is done to the n-th request, from 1, before it is done. nil: nobody is.
	Did func(n uint64, plan string)
}

// Handler misbehaves before another one. It is safe for many requests at once; which of them is the n-th is then theirs
// to say.
type Handler struct {
	next  http.Handler
	o     Options
	asked atomic.Uint64
}

// New makes a Handler.
func New(next http.Handler, o Options) *Handler { return &Handler{next: next, o: o} }

// plan is what is done to one request.
type plan struct {
	random    *rand.Rand
	status    int  // refuse with it; 0: don't
	wait      int  // seconds to ask for in Retry-After, -1: none
	hangUp    bool // before the answer's head
	late      bool // the head is
	cut       int  // behind so many bytes of the answer; 0: don't
	twice     bool // some frames come twice
	lateUsage bool
	noUsage   bool
	doneOnly  bool // arguments come in the event that ends them
	comments  bool // lines that mean nothing stand between frames
	slow      bool // waits stand between frames
}

// refusals are statuses with which servers send clients away for a while.
var refusals = []int{429, 429, 429, 500, 502, 503, 529}

// maxCut bounds where an answer is cut, in bytes. Some answers are shorter: those stay whole.
const maxCut = 6 << 10

func (h *Handler) plan(n uint64) plan {
	r := rand.New(rand.NewPCG(h.o.Seed, n))
	is := func(percent int) bool { return r.IntN(100) < percent }
	p := plan{random: r, wait: -1, late: is(20), twice: is(35), lateUsage: is(25), doneOnly: is(35), comments: is(25), slow: is(30), noUsage: is(10)}
	switch {
	case is(18):
		p.status = refusals[r.IntN(len(refusals))]
		if p.status == http.StatusTooManyRequests {
			p.wait = r.IntN(2)
		}
	case is(7):
		p.hangUp = true
	case is(14):
		p.cut = 1 + r.IntN(maxCut)
	}
	return p
}

func (p plan) String() string {
	var said []string
	add := func(is bool, word string) {
		if is {
			said = append(said, word)
		}
	}
	add(p.late, "late")
	add(p.status != 0, strconv.Itoa(p.status))
	add(p.wait >= 0, "Retry-After "+strconv.Itoa(p.wait))
	add(p.hangUp, "hangs up")
	if p.status == 0 && !p.hangUp {
		add(p.cut > 0, fmt.Sprintf("cut behind %d bytes", p.cut))
		add(p.twice, "frames twice")
		add(p.lateUsage, "late usage")
		add(p.noUsage, "no usage")
		add(p.doneOnly, "arguments only when done")
		add(p.comments, "comments")
		add(p.slow, "slow")
	}
	if len(said) == 0 {
		return "nothing"
	}
	return strings.Join(said, ", ")
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := h.asked.Add(1)
	p := h.plan(n)
	if h.o.Did != nil {
		h.o.Did(n, p.String())
	}
	s := &stream{ResponseWriter: w, request: r, plan: p, delay: h.o.MaxDelay}
	if p.late {
		s.wait()
	}
	switch {
	case p.hangUp:
		panic(http.ErrAbortHandler) // what net/http breaks a connection off by
	case p.status != 0:
		refuse(w, p)
		return
	}
	h.next.ServeHTTP(s, r)
	s.end()
}

// refuse answers as most servers do; each dialect's client finds what it looks for.
func refuse(w http.ResponseWriter, p plan) {
	kind, code := "server_error", "server_error"
	switch p.status {
	case http.StatusTooManyRequests:
		kind, code = "rate_limit_error", "rate_limit_exceeded"
	case 529:
		kind, code = "overloaded_error", "overloaded"
	}
	if p.wait >= 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.wait))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.status)
	fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"code":%q,"message":"chaos"}}`, kind, code)
}

// stream is an answer on its way out, frame by frame.
type stream struct {
	http.ResponseWriter
	request *http.Request
	plan    plan
	delay   time.Duration

	status int
	split  func([]byte) int // how long the first frame is, 0 while it is not whole; nil: the answer is no stream
	sse    bool
	buf    []byte
	sent   int
}

// WriteHeader implements [http.ResponseWriter].
func (s *stream) WriteHeader(status int) {
	s.status = status
	s.Header().Del("Content-Length") // it may become another one
	media, _, _ := strings.Cut(s.Header().Get("Content-Type"), ";")
	switch strings.TrimSpace(media) {
	case "text/event-stream":
		s.split, s.sse = splitEvents, true
	case "application/vnd.amazon.eventstream":
		s.split = splitMessages
	}
	s.ResponseWriter.WriteHeader(status)
	s.flush()
}

// Write implements [http.ResponseWriter]. Frames go out when they are whole.
func (s *stream) Write(b []byte) (int, error) {
	if s.status == 0 {
		s.WriteHeader(http.StatusOK)
	}
	if s.split == nil {
		s.send(b)
		return len(b), nil
	}
	s.buf = append(s.buf, b...)
	for {
		n := s.split(s.buf)
		if n == 0 {
			return len(b), nil
		}
		s.frame(s.buf[:n])
		s.buf = s.buf[n:]
	}
}

// Flush implements [http.Flusher]: what may go out has gone out.
func (s *stream) Flush() {}

// FlushError is what an [http.ResponseController] asks for.
func (s *stream) FlushError() error { return nil }

// end sends what was no whole frame.
func (s *stream) end() { s.send(s.buf); s.buf = nil }

// splitEvents finds the end of a server-sent event.
func splitEvents(b []byte) int {
	end := 0
	for _, blank := range []string{"\n\n", "\r\n\r\n"} {
		if at := bytes.Index(b, []byte(blank)); at >= 0 && (end == 0 || at+len(blank) < end) {
			end = at + len(blank)
		}
	}
	return end
}

// splitMessages finds the end of a message of AWS's framing. What is none is left for the end.
func splitMessages(b []byte) int {
	if len(b) < 12 {
		return 0
	}
	n := binary.BigEndian.Uint32(b)
	if n < 16 || uint64(n) > uint64(len(b)) {
		return 0
	}
	return int(n)
}

// Frames that are known by what stands in them.
var (
	argumentDelta = []byte(`response.function_call_arguments.delta`)
	usage         = []byte(`"usage`) // usage, usageMetadata
)

// repeatable says whether a frame that comes twice says no more than one. A piece of text or of arguments that comes
// twice is another text: no client can know, and none is asked to.
func repeatable(f []byte) bool {
	if nameless(f) {
		return false
	}
	for _, piece := range []string{`.delta"`, `"delta":{`, `"text":"`, `_delta"`} {
		if bytes.Contains(f, []byte(piece)) {
			return endsTurn(f)
		}
	}
	return true
}

// nameless says whether a frame is a call in one piece that cannot be told from a second one: Gemini's often has no id.
func nameless(f []byte) bool {
	return bytes.Contains(f, []byte(`"functionCall"`))
}

// endsTurn says whether a frame is one in which a model's turn ends, which says no text in any dialect.
func endsTurn(f []byte) bool {
	for _, end := range []string{`"message_delta"`, `"delta":{},`, `"response.completed"`} {
		if bytes.Contains(f, []byte(end)) {
			return true
		}
	}
	return false
}

// frame misbehaves with one.
func (s *stream) frame(f []byte) {
	p, r := s.plan, s.plan.random
	if p.doneOnly && bytes.Contains(f, argumentDelta) {
		return
	}
	if counts := bytes.Contains(f, usage); counts && p.lateUsage {
		s.wait()
	} else if counts && p.noUsage && onlyUsage(f) {
		return
	}
	if p.slow && r.IntN(8) == 0 {
		s.wait()
	}
	if p.comments && s.sse && r.IntN(4) == 0 {
		s.send([]byte(": chaos\n\n"))
	}
	s.send(f)
	if p.twice && repeatable(f) && r.IntN(2) == 0 {
		s.send(f)
	}
}

// onlyUsage says that nothing but numbers would be lost with a frame.
func onlyUsage(f []byte) bool {
	return bytes.Contains(f, []byte(`"choices":[]`)) || bytes.Contains(f, []byte(`"latencyMs"`))
}

// maxPiece bounds what goes out at once, so that lines and characters are torn apart.
const maxPiece = 211

// send sends bytes in pieces, and breaks off where the plan says.
func (s *stream) send(b []byte) {
	for len(b) > 0 {
		n := min(1+s.plan.random.IntN(maxPiece), len(b))
		cut := s.plan.cut > 0 && s.sent+n >= s.plan.cut
		if cut {
			n = s.plan.cut - s.sent
		}
		if _, err := s.ResponseWriter.Write(b[:n]); err != nil || cut {
			s.flush()
			panic(http.ErrAbortHandler)
		}
		s.flush()
		s.sent += n
		b = b[n:]
	}
}

func (s *stream) flush() {
	_ = http.NewResponseController(s.ResponseWriter).Flush() // who cannot flush sends all the same
}

// wait waits for up to the longest time, or until the client has gone.
func (s *stream) wait() {
	if s.delay <= 0 {
		return
	}
	timer := time.NewTimer(time.Duration(s.plan.random.Int64N(int64(s.delay)) + 1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.request.Context().Done():
	}
}
