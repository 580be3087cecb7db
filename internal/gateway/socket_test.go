package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

// patient is how long a test waits for what must happen. Reaching it is the failure.
const patient = 30 * time.Second

// hall serves one socket route; ended has why each handler's socket ended.
type hall struct {
	fixture
	ended chan error
}

// talk serves sockets that are handled by each.
func talk(t *testing.T, o gateway.Options, every time.Duration, each func(*gateway.Socket) error) hall {
	t.Helper()
	h := hall{start(t, o, nil), make(chan error, 10)}
	h.g.Handle("GET /v1/talk", tenant.ScopeRun, func(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
		s, err := gateway.Upgrade(w, r, every)
		if err != nil {
			return err
		}
		h.ended <- each(s)
		return nil
	}, nil)
	return h
}

// repeat answers each message with itself, or with the code of its refusal.
func repeat(s *gateway.Socket) error {
	for {
		m, err := s.Next()
		if err == gateway.ErrStopping {
			s.Close(gateway.CloseRestart, "stopping")
		}
		if err != nil {
			return err
		}
		text := m.Text
		if m.Err != nil {
			text = []byte(gateway.Describe(m.Err, "").Code)
		}
		if err := s.Send(text); err != nil {
			return err
		}
	}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	t.Cleanup(cancel)
	return ctx
}

func (h hall) dial(t *testing.T, pinged ...func(context.Context, []byte) bool) *websocket.Conn {
	t.Helper()
	o := &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer run-key"}}}
	if len(pinged) > 0 {
		o.OnPingReceived = pinged[0]
	}
	c, _, err := websocket.Dial(soon(t), h.base+"/v1/talk", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseNow() })
	return c
}

func say(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(soon(t), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c *websocket.Conn) string {
	t.Helper()
	_, text, err := c.Read(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (h hall) over(t *testing.T) error {
	t.Helper()
	select {
	case err := <-h.ended:
		return err
	case <-time.After(patient):
		t.Fatal("the socket goes on")
		return nil
	}
}

func TestMessagesAreAnsweredInOrder(t *testing.T) {
	h := talk(t, gateway.Options{}, time.Minute, repeat)
	c := h.dial(t)
	var said, heard []string
	for i := range 20 {
		said = append(said, fmt.Sprint("message ", i))
		say(t, c, said[i])
	}
	for range said {
		heard = append(heard, hear(t, c))
	}
	if !slices.Equal(said, heard) {
		t.Errorf("heard %q", heard)
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("the goodbye is not returned: %v", err)
	}
	if err := h.over(t); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("a client that closed: %v", err)
	}
}

func TestARefusedMessageEndsNothing(t *testing.T) {
	h := talk(t, gateway.Options{MaxBody: 1000}, time.Minute, repeat)
	c := h.dial(t)
	for _, m := range []struct {
		name string
		kind websocket.MessageType
		text []byte
		want string
	}{
		{"as large as may be", websocket.MessageText, bytes.Repeat([]byte("x"), 1000), strings.Repeat("x", 1000)},
		{"binary", websocket.MessageBinary, []byte("{}"), "invalid_message"},
		{"large", websocket.MessageText, bytes.Repeat([]byte("x"), 1001), "request_too_large"},
		{"very large", websocket.MessageText, bytes.Repeat([]byte("x"), 1<<20), "request_too_large"},
		{"large and binary", websocket.MessageBinary, bytes.Repeat([]byte("x"), 1<<20), "invalid_message"},
		{"no UTF-8", websocket.MessageText, []byte("\xff\xfe"), "invalid_message"},
		{"empty", websocket.MessageText, nil, ""},
		{"after all that", websocket.MessageText, []byte("still there"), "still there"},
	} {
		if err := c.Write(soon(t), m.kind, m.text); err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
		if got := hear(t, c); got != m.want {
			t.Errorf("%s: %q, want %q", m.name, got, m.want)
		}
	}
	w, err := c.Writer(soon(t), websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"in ", "many ", "frames"} {
		fmt.Fprint(w, piece)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, c); got != "in many frames" {
		t.Errorf("a message in frames: %q", got)
	}
}

// listen hands out what a connection says, and how it ends.
func listen(c *websocket.Conn) <-chan string {
	heard := make(chan string, 100)
	go func() {
		for {
			_, text, err := c.Read(context.Background())
			if err != nil {
				heard <- fmt.Sprint("closed ", int(websocket.CloseStatus(err)))
				return
			}
			heard <- string(text)
		}
	}()
	return heard
}

func next(t *testing.T, heard <-chan string) string {
	t.Helper()
	select {
	case text := <-heard:
		return text
	case <-time.After(patient):
		t.Fatal("nothing is said")
		return ""
	}
}

// takenIn waits until what was sent so far waits at the other side, which answers a ping in its turn. Somebody must listen.
func takenIn(t *testing.T, c *websocket.Conn) {
	t.Helper()
	if err := c.Ping(soon(t)); err != nil {
		t.Fatal(err)
	}
}

// busy answers after its gate has opened, and tells when it has taken the first message.
func busy(gate chan struct{}) func(*gateway.Socket) error {
	return func(s *gateway.Socket) error {
		if _, err := s.Next(); err != nil {
			return err
		}
		if err := s.Send([]byte("taken")); err != nil {
			return err
		}
		select {
		case <-gate:
			return repeat(s)
		case <-s.Context().Done():
			return context.Cause(s.Context())
		}
	}
}

func TestWhatWaitsIsBounded(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		gate := make(chan struct{})
		h := talk(t, gateway.Options{MaxBody: 1000}, time.Minute, busy(gate))
		c := h.dial(t)
		say(t, c, "first")
		hear(t, c)
		for range 3 {
			say(t, c, strings.Repeat("x", 600))
		}
		heard := listen(c)
		takenIn(t, c)
		close(gate)
		for _, want := range []string{strings.Repeat("x", 600), "too_many_messages", "too_many_messages"} {
			if got := next(t, heard); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
	t.Run("messages", func(t *testing.T) {
		h := talk(t, gateway.Options{}, time.Minute, busy(nil))
		c := h.dial(t)
		say(t, c, "first")
		hear(t, c)
		for range 33 {
			say(t, c, "x")
		}
		if _, _, err := c.Read(soon(t)); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("a flood: %v", err)
		}
		h.over(t)
	})
}

// dialRaw opens a socket by hand, whose client does nothing by itself.
func (h hall) dialRaw(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	req, err := http.NewRequest("GET", h.base+"/v1/talk", nil)
	if err != nil {
		t.Fatal(err)
	}
	handshake(req)
	req.Header.Set("Authorization", "Bearer run-key")
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(patient))
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), req) // small: what follows the answer stays in the connection
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	return conn
}

func TestWhoIsGoneIsMissed(t *testing.T) {
	brief := gateway.Options{Patience: 200 * time.Millisecond}
	waiting := func(s *gateway.Socket) error {
		_, err := s.Next()
		return err
	}
	t.Run("a client that goes away", func(t *testing.T) {
		h := talk(t, gateway.Options{}, time.Minute, busy(nil))
		c := h.dial(t)
		say(t, c, "first")
		hear(t, c)
		began := time.Now()
		c.CloseNow()
		err := h.over(t)
		t.Logf("seen after %v", time.Since(began))
		if fault.KindOf(err) != fault.Cancelled {
			t.Error(err)
		}
	})
	t.Run("a client that answers no ping", func(t *testing.T) {
		h := talk(t, brief, 20*time.Millisecond, waiting)
		h.dialRaw(t)
		h.over(t)
	})
	t.Run("one that answers stays", func(t *testing.T) {
		h := talk(t, gateway.Options{}, time.Millisecond, repeat)
		pings := make(chan bool)
		c := h.dial(t, func(context.Context, []byte) bool {
			select {
			case pings <- true:
			default:
			}
			return true
		})
		heard := listen(c)
		for range 3 {
			select {
			case <-pings:
			case <-time.After(patient):
				t.Fatal("nobody asks")
			}
		}
		say(t, c, "here")
		if got := next(t, heard); got != "here" {
			t.Error(got)
		}
	})
	t.Run("a client that stops within a message", func(t *testing.T) {
		h := talk(t, brief, time.Minute, waiting)
		// A text of 100 bytes, of which 10 come.
		h.dialRaw(t).Write(append([]byte{0x81, 0x80 | 100, 1, 2, 3, 4}, make([]byte, 10)...))
		h.over(t)
	})
	t.Run("a client that takes nothing", func(t *testing.T) {
		h := talk(t, brief, time.Minute, func(s *gateway.Socket) error {
			for {
				if err := s.Send(make([]byte, 1<<20)); err != nil {
					return err
				}
			}
		})
		h.dialRaw(t)
		if err := h.over(t); fault.KindOf(err) != fault.Cancelled {
			t.Error(err)
		}
	})
	t.Run("a frame that is none", func(t *testing.T) {
		h := talk(t, gateway.Options{}, time.Minute, waiting)
		h.dialRaw(t).Write([]byte{0x81, 0x01, 'x'}) // a client's must be masked
		h.over(t)
	})
}
