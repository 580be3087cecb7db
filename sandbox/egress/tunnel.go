package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// quietRounds of half the idle time end a tunnel. One is not enough: the two directions count at different moments.
const quietRounds = 2

// relay carries bytes both ways until both sides have ended, one breaks, or nothing moves for the idle time. Between TCP
// connections the kernel moves them: they never come up here.
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

// flow copies one direction. A read deadline wakes it to look whether anything moved in either; what the copy returned
// until then is counted. On an error both ends are closed, at the end of the stream only the writing half.
func (s *session) flow(to, from net.Conn, count, moved *atomic.Int64) {
	round := s.p.options.Limits.Idle / quietRounds
	last, quiet := moved.Load(), 0
	for {
		now := time.Now()
		from.SetReadDeadline(now.Add(round))
		to.SetWriteDeadline(now.Add(4 * round))
		n, err := io.Copy(to, from)
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
		if !errors.Is(err, os.ErrDeadlineExceeded) || quiet >= quietRounds || s.ctx.Err() != nil {
			to.Close()
			from.Close()
			return
		}
	}
}
