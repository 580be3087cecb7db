package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// quietRounds of half the idle time end a tunnel. One is not enough: the two directions count at different moments.
	quietRounds = 2
	// stallRounds of it end one whose reader takes nothing.
	stallRounds = 4
	// bulk is how much a direction moves by itself before the kernel is asked to. That needs a pipe, of which a user
	// may have few, and most tunnels move little.
	bulk = 256 << 10
)

// copyBuffers are for tunnels that move little.
var copyBuffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// relay carries bytes both ways until both sides have ended, one breaks, or nothing moves for the idle time. In bulk the
// kernel moves them between TCP connections: they never come up here.
func (s *session) relay(remote net.Conn) {
	early, _ := s.in.Peek(s.in.Buffered())
	remote.SetWriteDeadline(time.Now().Add(s.p.options.Limits.Idle))
	if _, err := remote.Write(early); err != nil {
		s.rec.Verdict, s.rec.Reason = Failed, Unreachable
		return
	}
	s.release()
	var moved atomic.Int64
	up := make(chan struct{})
	go func() {
		defer close(up)
		s.flow(remote, s.conn, &s.wire.read, &moved)
	}()
	s.flow(s.conn, remote, &s.wire.written, &moved)
	<-up
}

// flow copies one direction. A read deadline wakes it to look whether anything moved in either; what was copied until then
// is counted. On an error both ends are closed, at the end of the stream only the writing half.
func (s *session) flow(to, from net.Conn, count, moved *atomic.Int64) {
	round := s.p.options.Limits.Idle / quietRounds
	last, quiet := moved.Load(), 0
	for {
		now := time.Now()
		stall := now.Add(stallRounds * round)
		from.SetReadDeadline(now.Add(round))
		to.SetWriteDeadline(stall)
		n, err := move(to, from)
		count.Add(n)
		moved.Add(n)
		if err == nil {
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				half.CloseWrite()
			} else {
				to.Close()
			}
			return
		}
		if current := moved.Load(); current != last {
			last, quiet = current, 0
		} else {
			quiet++
		}
		// Past the stall it was a write that timed out, and bytes are lost: the stream may not go on without them.
		if !errors.Is(err, os.ErrDeadlineExceeded) || quiet >= quietRounds || !time.Now().Before(stall) || s.ctx.Err() != nil {
			to.Close()
			from.Close()
			return
		}
	}
}

// move copies until the end of the stream, which is no error.
func move(to, from net.Conn) (n int64, err error) {
	buf := copyBuffers.Get().(*[16 << 10]byte)
	for n < bulk {
		k, err := from.Read(buf[:])
		if k > 0 {
			w, bad := to.Write(buf[:k])
			n += int64(w)
			if bad != nil {
				copyBuffers.Put(buf)
				return n, errBroken // whatever it was: not all bytes went
			}
		}
		if err != nil {
			copyBuffers.Put(buf)
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
	}
	copyBuffers.Put(buf)
	rest, err := io.Copy(to, from)
	return n + rest, err
}

var errBroken = errors.New("the tunnel broke")
