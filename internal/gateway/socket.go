package gateway

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

// maxWaiting bounds the messages that wait while one is answered. Who sends more is cut off: nothing is left to say that
// would be read.
const maxWaiting = 32

// Why a socket is closed.
const (
	ClosePolicy  = int(websocket.StatusPolicyViolation)
	CloseRestart = int(websocket.StatusServiceRestart) // the SDKs connect again
)

var (
	// ErrStopping is what Next says when the server stops and every message that came before has been handed out.
	ErrStopping = fault.New(fault.Unavailable, "The server is stopping.")

	errGone    = fault.New(fault.Cancelled, "The client closed the connection.")
	errBroken  = fault.New(fault.Internal, "Something went wrong in the server.")
	errStalled = fault.New(fault.Cancelled, "The client stopped in the middle of a message.")
)

// Message is what the other side sent: a text, or why what it sent is refused. A refused message ends nothing.
type Message struct {
	Text []byte
	Err  error
}

// Socket is a WebSocket. One goroutine, its handler's, asks for messages and sends; what comes meanwhile waits, in order.
// A client that goes away, stalls within a message, takes nothing that is sent to it or answers no ping for the gateway's
// patience ends the socket's context.
type Socket struct {
	g      *Gateway
	w      *responseWriter
	r      *http.Request
	conn   *websocket.Conn
	ctx    context.Context
	gone   context.CancelCauseFunc
	closes chan struct{} // closed when the server stops
	tasks  sync.WaitGroup

	open func(error) // says how the message that is being answered ended; nil between messages

	writing atomic.Bool
	sent    atomic.Int64 // messages

	mu      sync.Mutex
	waiting []Message
	bytes   int64         // of those
	news    chan struct{} // has a token when something waits
}

func newSocket(g *Gateway, w *responseWriter, r *http.Request) *Socket {
	s := &Socket{g: g, w: w, r: r, closes: make(chan struct{}), news: make(chan struct{}, 1)}
	s.ctx, s.gone = context.WithCancelCause(r.Context())
	return s
}

// Context ends when the client is gone.
func (s *Socket) Context() context.Context { return s.ctx }

// Limit is how many bytes a message may have: as many as a request's body.
func (s *Socket) Limit() int64 { return s.g.maxBody }

// Stopping says whether the server stops: what is being answered may end, nothing more should begin.
func (s *Socket) Stopping() bool {
	select {
	case <-s.closes:
		return true
	default:
		return false
	}
}

// Principal reads the key of the connection again: it may have been revoked since, and every message is a request of its own.
func (s *Socket) Principal() (tenant.Principal, error) { return s.w.route.admit(s.r) }

// Next waits for a message. It says [ErrStopping] when the server stops, and why when the client is gone.
func (s *Socket) Next() (Message, error) {
	for {
		if s.ctx.Err() != nil {
			return Message{}, context.Cause(s.ctx)
		}
		stopping := s.Stopping() // before the look: what came before the stop is handed out
		if m, ok := s.take(); ok {
			return m, nil
		}
		if stopping {
			return Message{}, ErrStopping
		}
		select {
		case <-s.news:
		case <-s.closes:
		case <-s.ctx.Done():
		}
	}
}

func (s *Socket) take() (Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return Message{}, false
	}
	m := s.waiting[0]
	s.waiting = append([]Message(nil), s.waiting[1:]...)
	s.bytes -= int64(len(m.Text))
	return m, true
}

// put has a message wait. It says no when too many do.
func (s *Socket) put(m Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) >= maxWaiting {
		return false
	}
	if len(s.waiting) > 0 && s.bytes+int64(len(m.Text)) > s.Limit() {
		m = Message{Err: fault.New(fault.RateLimited, "More than %d bytes of messages wait to be answered.", s.Limit()).
			WithCode("too_many_messages").WithTry("sending a message when the one before is answered")}
	}
	s.waiting = append(s.waiting, m)
	s.bytes += int64(len(m.Text))
	select {
	case s.news <- struct{}{}:
	default:
	}
	return true
}

// read takes messages in until the connection ends, whatever is being answered: so a client that goes away is seen at
// once, and pings are answered.
func (s *Socket) read() {
	for {
		m, err := s.receive()
		if err != nil {
			s.gone(errGone)
			return
		}
		if !s.put(m) {
			s.Close(ClosePolicy, "too many messages wait")
			s.gone(errGone)
			return
		}
	}
}

// receive reads a message. It waits for its beginning for as long as that takes, and then for each further piece as long
// as for one of a body. What is refused is read to its end.
func (s *Socket) receive() (Message, error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	kind, body, err := s.conn.Reader(ctx)
	if err != nil {
		return Message{}, err
	}
	stalled := time.AfterFunc(s.w.wait, func() { cancel(errStalled) })
	defer stalled.Stop()
	rest := &pieces{body, stalled, s.w.wait}
	var text bytes.Buffer
	var refused error
	if kind != websocket.MessageText {
		refused = fault.New(fault.Invalid, "A message must be text.").WithCode("invalid_message")
	} else if n, err := text.ReadFrom(io.LimitReader(rest, s.Limit()+1)); err != nil {
		return Message{}, err
	} else if n > s.Limit() {
		refused = fault.New(fault.TooLarge, "The message is larger than %d bytes.", s.Limit()).
			WithTry("a smaller message, or a higher server.max_body_bytes")
	} else if !utf8.Valid(text.Bytes()) {
		refused = fault.New(fault.Invalid, "The message is not UTF-8.").WithCode("invalid_message")
	}
	if _, err := io.Copy(io.Discard, rest); err != nil {
		return Message{}, err
	}
	if refused != nil {
		return Message{Err: refused}, nil
	}
	return Message{Text: text.Bytes()}, nil
}

// pieces reads a message and waits anew for each piece.
type pieces struct {
	io.Reader
	stalled *time.Timer
	wait    time.Duration
}

func (p *pieces) Read(b []byte) (int, error) {
	p.stalled.Reset(p.wait)
	return p.Reader.Read(b)
}

// ping asks the other side whether it is there: proxies keep a connection on which something happens, and a client that
// vanished without a word is missed.
func (s *Socket) ping(every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticks.C:
		}
		sent := s.sent.Load()
		ctx, cancel := context.WithTimeout(s.ctx, s.w.wait)
		err := s.conn.Ping(ctx)
		cancel()
		// What is being sent holds a ping up and has a deadline of its own; what has been sent meanwhile was taken by somebody.
		if err != nil && !s.writing.Load() && sent == s.sent.Load() {
			s.gone(errGone)
			return
		}
	}
}

// Send sends a text. An error means that the client is gone.
func (s *Socket) Send(text []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.w.wait)
	defer cancel()
	s.writing.Store(true)
	err := s.conn.Write(ctx, websocket.MessageText, text)
	s.writing.Store(false)
	if err != nil {
		s.gone(errGone)
		return fault.Wrap(fault.Cancelled, err, "The client closed the connection.")
	}
	s.sent.Add(1)
	s.w.bytes += int64(len(text))
	return nil
}

// Close says why and closes the connection. The other side has five seconds to answer.
func (s *Socket) Close(code int, reason string) {
	s.conn.Close(websocket.StatusCode(code), reason) // one that is gone can't be told
}

// end is called when the handler has returned.
func (s *Socket) end() {
	if s.open != nil { // its handler panicked
		s.open(errBroken)
	}
	s.gone(nil)
	s.conn.CloseNow() // does nothing to a connection that is closed
	s.tasks.Wait()
	s.g.sockets.leave(s)
}

// Begin says that a message is being answered, which to the log and to what is counted is a request of its own. The
// function says how that ended.
func (s *Socket) Begin() (requestID string, ended func(error)) {
	requestID = id.New(id.Request)
	began, bytes := time.Now(), s.w.bytes
	_, path, _ := strings.Cut(s.w.route.name, " ")
	name := "WS " + path
	if s.g.observer != nil {
		s.g.observer.RequestBegan()
	}
	s.open = func(err error) {
		s.open = nil
		status := http.StatusOK
		if err != nil {
			status = Describe(err, requestID).Status
		}
		if s.ctx.Err() != nil {
			status = StatusClientClosed
		}
		took := time.Since(began)
		if s.g.observer != nil {
			s.g.observer.RequestEnded(name, status, took)
		}
		if status >= 500 {
			s.g.log.LogAttrs(s.ctx, slog.LevelError, "request failed", slog.String("request_id", requestID),
				slog.String("route", name), slog.Any("error", err))
		}
		s.g.log.LogAttrs(s.ctx, slog.LevelInfo, "request", slog.String("request_id", requestID), slog.String("method", "WS"),
			slog.String("route", name), slog.Int("status", status), slog.Duration("took", took), slog.Int64("bytes", s.w.bytes-bytes),
			slog.String("org", s.w.org), slog.String("remote", s.r.RemoteAddr), slog.String("socket", s.w.id))
	}
	return requestID, s.open
}

// sockets are those that are open.
type sockets struct {
	mu       sync.Mutex
	open     map[*Socket]bool
	stopping bool
	empty    chan struct{} // closed when the last one is gone; nil while nobody waits
}

// enter says no when the server stops.
func (all *sockets) enter(s *Socket) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.stopping {
		return false
	}
	if all.open == nil {
		all.open = map[*Socket]bool{}
	}
	all.open[s] = true
	return true
}

func (all *sockets) leave(s *Socket) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, s)
	if len(all.open) == 0 && all.empty != nil {
		close(all.empty)
		all.empty = nil
	}
}

// CloseSockets refuses new sockets and has those that are there end with what they are answering; an idle one ends now.
// The function waits for that, and cuts what is left when its context ends.
func (g *Gateway) CloseSockets() (wait func(context.Context) error) {
	all := &g.sockets
	all.mu.Lock()
	defer all.mu.Unlock()
	done := make(chan struct{})
	if all.stopping || len(all.open) == 0 {
		close(done)
	} else {
		all.empty = done
	}
	if !all.stopping {
		all.stopping = true
		for s := range all.open {
			close(s.closes)
		}
	}
	return func(ctx context.Context) error {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
		}
		all.mu.Lock()
		defer all.mu.Unlock()
		for s := range all.open {
			s.gone(ErrStopping)
		}
		return context.Cause(ctx)
	}
}
