package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// A Box is a sandbox with its resident, seen by its owner. Its methods may be called from any goroutine.
type Box struct {
	dir    string
	jail   bool
	uid    int // of the commands, on the host
	conn   *net.UnixConn
	report Report
	notes  []string
	child  int // the resident's pid, if it is our own child
	groups *groups
	fresh  bool // we made the resident; it did not live before us
	done   chan struct{}

	version uint32    // of the protocol that the resident speaks
	pid     int       // the resident's; 0 if we did not make it
	self    processID // the resident, as its report names it
	lasting bool      // it outlives us
	once    bool      // it ends with its only call
	lastEnd time.Time // of a call, when we came to own it
	tmp     string    // TMPDIR of commands, where /tmp is not the box's own; removed with the box

	sending sync.Mutex
	closing sync.Once

	mu      sync.Mutex
	pidfd   int   // of the resident; -1 once it is reaped or let go
	gone    error // why no command can be started any more
	dead    bool  // the resident is known to have ended, and not only to have left us
	request uint32
	asked   map[uint32]question
	told    map[uint32]chan resident.Took
	looks   map[uint32]chan resident.Seen
	resting chan bool        // the answer to a question for rest; nil when there is none
	calls   map[uint32]*call // by the resident's number, until ended and silent
	keys    map[string]*call // calls that go on, by path
	guards  []guard
	removed []string
}

// question is a Start that was not answered yet.
type question struct {
	answer chan resident.Started
	call   *call
}

func newBox(dir string, conn *net.UnixConn, jail bool, uid int) *Box {
	return &Box{dir: dir, conn: conn, jail: jail, uid: uid, version: resident.Version, pidfd: -1, groups: &groups{}, done: make(chan struct{}),
		asked: map[uint32]question{}, told: map[uint32]chan resident.Took{}, looks: map[uint32]chan resident.Seen{}, calls: map[uint32]*call{}, keys: map[string]*call{}}
}

// Report says what was asked of the box and what was got.
func (b *Box) Report() Report { return b.report }

// Done is closed when the resident is gone, and with it every command; or when this box was detached from it, by
// Detach or by a newer owner.
func (b *Box) Done() <-chan struct{} { return b.done }

// Start runs a command, at most once for each key and index: when they were started before, it returns that call's
// job, running or ended. Its error means that nothing was started.
func (b *Box) Start(ctx context.Context, c process.Command) (*process.Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	stdin := c.Stdin
	if c.TTY != nil {
		stdin = nil // it is typed
	}
	in, err := openInput(stdin, b.uid)
	if err != nil {
		return nil, err
	}
	defer in.close()
	at := at(c.Key, uint32(c.Index))
	number, q, err := b.ask(at)
	if err != nil {
		return nil, err
	}
	message := resident.Start{Request: number, Key: c.Key, Index: uint32(c.Index), Dir: c.Dir, Timeout: c.Timeout,
		Argv: c.Argv, Arg0: c.Arg0, Env: b.environment(c.Env), Stdin: stdin != nil, Open: c.OpenStdin, Lease: c.Lease, Fence: c.Fence, Whole: c.Whole}
	if c.TTY != nil {
		size := c.TTY.OrDefault()
		message.Rows, message.Cols = uint32(size.Rows), uint32(size.Cols)
	}
	if err := b.send(message.Append(nil, b.version), in.rights()); err != nil {
		b.drop(number, at, q.call)
		return nil, err
	}
	// The answer is one fork away. The context does not cut it short: the command would run unseen.
	reply, ok := <-q.answer
	switch {
	case !ok:
		return nil, b.why()
	case reply.State == resident.StateFailed:
		b.drop(number, at, q.call)
		return nil, fault.New(fault.Unavailable, "the command was not started: %s", reply.Error)
	case reply.State == resident.StateStale:
		b.drop(number, at, q.call)
		return nil, stale()
	case reply.State == resident.StatePast:
		b.drop(number, at, q.call)
		recall(b.folder(at), q.call.job)
	case reply.State == resident.StateNew:
		in.feed(stdin)
		if c.TTY != nil && c.Stdin != nil {
			go q.call.typeIn(c.Stdin)
		}
	}
	return q.call.job, nil
}

// ask registers a request for a path. Requests for the same path share a call while it goes on.
func (b *Box) ask(at string) (uint32, question, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone != nil {
		return 0, question{}, b.gone
	}
	c := b.keys[at]
	if c == nil {
		c = b.newCall(at)
		b.keys[at] = c
	}
	b.request++
	q := question{answer: make(chan resident.Started, 1), call: c}
	b.asked[b.request] = q
	return b.request, q, nil
}

// drop forgets a request that led to no running call.
func (b *Box) drop(number uint32, at string, c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.asked, number)
	if b.keys[at] == c {
		delete(b.keys, at)
	}
}

func at(key string, index uint32) string { return key + "/" + strconv.FormatUint(uint64(index), 10) }

// Detach lets go of the resident, which lives on for the grace time that the box was opened with. Running calls are
// lost to this box, not ended: whoever attaches finds them.
func (b *Box) Detach() error {
	b.end(handedOver("it was detached"))
	return nil
}

// Close kills every process of the box, waits until none is left and removes its control groups and its socket. The
// state folder and its jobs stay. A box that was detached, or that a newer owner has taken, is left alone.
//
// The resident is asked to end and not killed: what it hears from an owner is fenced, a signal would not be. Only one
// that still calls us its owner and does not answer is killed.
func (b *Box) Close() (err error) {
	b.closing.Do(func() {
		if b.send([]byte{byte(resident.KindShutdown)}, nil) == nil && !b.await(5*time.Second) {
			b.signal()
		}
		if !b.await(10 * time.Second) {
			err = fault.New(fault.Internal, "the sandbox's processes did not end")
		}
		b.mu.Lock()
		dead := b.dead
		b.mu.Unlock()
		b.dropGuards()
		if dead {
			b.clearScratch()
			b.groups.remove()
			os.Remove(filepath.Join(b.dir, controlName))
		}
	})
	return err
}

// signal kills the resident. In a jail the kernel kills everything with it.
func (b *Box) signal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pidfd >= 0 {
		if err := unix.PidfdSendSignal(b.pidfd, unix.SIGKILL, nil, 0); err == unix.ENOSYS && b.child > 0 {
			unix.Kill(b.child, unix.SIGKILL) // in a box without a jail, whose filter has not that call; it is ours and not reaped
		}
	}
}

func (b *Box) await(limit time.Duration) bool {
	select {
	case <-b.done:
		return true
	case <-time.After(limit):
		return false
	}
}

// abort ends a resident that nobody listens to yet.
func (b *Box) abort() {
	b.signal()
	b.reap()
	b.letGo()
}

// reap waits for the resident's end and lets go of it. A process namespace is empty before its first process is gone.
func (b *Box) reap() {
	if b.pidfd < 0 || !isOver(b.pidfd, reapLimit) {
		return
	}
	if b.child > 0 {
		unix.Wait4(b.child, nil, 0, nil)
	}
	b.mu.Lock()
	b.dead = true
	b.mu.Unlock()
}

// reapLimit is how long a resident that has left us may take to end. One that lives on has another owner.
const reapLimit = 10 * time.Second

// isOver waits until a process has ended, and says whether it has.
func isOver(pidfd int, limit time.Duration) bool {
	for end := time.Now().Add(limit); ; {
		wait := max(time.Until(end), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(wait/time.Millisecond))
		if n > 0 || err != unix.EINTR && wait == 0 {
			return n > 0
		}
	}
}

func (b *Box) letGo() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pidfd >= 0 {
		unix.Close(b.pidfd)
		b.pidfd = -1
	}
}

// send gives a message to the resident.
func (b *Box) send(message, rights []byte) error {
	b.sending.Lock()
	defer b.sending.Unlock()
	for _, packet := range resident.Packets(message) {
		if _, _, err := b.conn.WriteMsgUnix(packet, rights, nil); err != nil {
			return fault.Wrap(fault.Unavailable, err, "the sandbox is gone")
		}
		rights = nil
	}
	return nil
}

// greeted reads what the resident says first, up to the list of its living calls.
func (b *Box) greeted(ctx context.Context) error {
	if d, ok := ctx.Deadline(); ok {
		b.conn.SetReadDeadline(d)
	}
	stop := context.AfterFunc(ctx, func() { b.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer func() {
		if stop() {
			b.conn.SetReadDeadline(time.Time{})
		}
	}()
	buf, oob := make([]byte, resident.MaxPacket), make([]byte, 256)
	for {
		n, oobn, _, _, err := b.conn.ReadMsgUnix(buf, oob)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil || n == 0 {
			return fault.Wrap(fault.Isolation, err, "the sandbox ended before it began").WithTry("hardshell doctor")
		}
		body := buf[1:n]
		switch resident.Kind(buf[0]) {
		case resident.KindRefused:
			if !b.fresh {
				return fault.New(fault.Conflict, "the sandbox refused: %s", body)
			}
			return refusal(errors.New(string(body)))
		case resident.KindWelcome:
			m, err := resident.ParseWelcome(body)
			if err != nil {
				return fault.Wrap(fault.Internal, err, "the sandbox speaks another language")
			}
			b.notes = m.Notes
			if m.LastEnd > 0 {
				b.lastEnd = time.Unix(0, m.LastEnd)
			}
			b.takePidfd(oob[:oobn])
		case resident.KindLive:
			if m, err := resident.ParseLive(body); err == nil {
				path := at(m.Key, m.Index)
				c := b.newCall(path)
				c.number = m.Job
				b.keys[path], b.calls[m.Job] = c, c
				c.job.Grew(m.Order)
			}
		case resident.KindReady:
			return nil
		}
	}
}

func (b *Box) takePidfd(oob []byte) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 {
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return
	}
	for _, fd := range fds {
		if b.pidfd < 0 {
			b.pidfd = fd
			continue
		}
		unix.Close(fd)
	}
}

// listen hears the resident until it is gone or let go.
func (b *Box) listen() {
	defer close(b.done)
	buf := make([]byte, 4096)
	for {
		n, err := b.conn.Read(buf)
		if err != nil || n == 0 {
			break
		}
		b.hear(resident.Kind(buf[0]), buf[1:n])
	}
	b.mu.Lock()
	gone := b.gone
	b.mu.Unlock()
	if gone == nil {
		b.reap()
		gone = fault.New(fault.Unavailable, "the sandbox ended")
		if !b.dead {
			gone = handedOver("its resident has left us")
		}
		b.end(gone)
	}
	if !b.dead && b.child > 0 {
		go unix.Wait4(b.child, nil, 0, nil) // detached, and still our child
	}
	b.letGo()
}

func (b *Box) hear(kind resident.Kind, body []byte) {
	switch kind {
	case resident.KindStarted:
		if m, err := resident.ParseStarted(body); err == nil {
			b.started(m)
		}
	case resident.KindGrew:
		if number, order, err := resident.ParseGrew(body); err == nil {
			if job := b.job(number); job != nil {
				job.Grew(order)
			}
		}
	case resident.KindEnded:
		if number, e, silent, err := resident.ParseEnded(body, b.version); err == nil {
			b.ended(number, e, silent)
		}
	case resident.KindRefused:
		b.end(handedOver(string(body)))
	case resident.KindSilent:
		if number, err := resident.ParseSilent(body); err == nil {
			b.mu.Lock()
			delete(b.calls, number)
			b.mu.Unlock()
		}
	case resident.KindTook:
		if m, err := resident.ParseTook(body); err == nil {
			b.took(m)
		}
	case resident.KindSeen:
		if m, err := resident.ParseSeen(body); err == nil {
			b.seen(m)
		}
	case resident.KindRests:
		b.rests(len(body) > 0 && body[0] == 1)
	case resident.KindRoom:
		if number, err := resident.ParseRoom(body); err == nil {
			b.hasRoom(number)
		}
	}
}

func (b *Box) job(number uint32) *process.Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.calls[number]; c != nil {
		return c.job
	}
	return nil
}

func (b *Box) started(m resident.Started) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.asked[m.Request]
	if !ok {
		return
	}
	delete(b.asked, m.Request)
	if m.State == resident.StateNew || m.State == resident.StateRunning {
		b.calls[m.Job], q.call.number = q.call, m.Job
		q.call.job.Grew(m.Order)
	}
	q.answer <- m
}

func (b *Box) ended(number uint32, e resident.Exit, silent bool) {
	b.mu.Lock()
	c := b.calls[number]
	if silent {
		delete(b.calls, number)
	}
	for at, k := range b.keys {
		if k == c {
			delete(b.keys, at)
		}
	}
	b.mu.Unlock()
	b.clearGuards()
	if c != nil {
		c.job.Grew(e.Order)
		c.job.End(exitOf(e))
	}
}

// end closes the connection: no answer will come any more. The first reason counts.
func (b *Box) end(why error) {
	b.mu.Lock()
	var calls []*call
	if b.gone == nil {
		b.gone = why
		for _, q := range b.asked {
			close(q.answer)
		}
		for _, answer := range b.told {
			close(answer)
		}
		for _, answer := range b.looks {
			close(answer)
		}
		if b.resting != nil {
			close(b.resting)
			b.resting = nil
		}
		for _, c := range b.keys {
			calls = append(calls, c)
		}
		clear(b.asked)
		clear(b.told)
		clear(b.looks)
		clear(b.keys)
		clear(b.calls)
	}
	b.mu.Unlock()
	b.conn.Close()
	for _, c := range calls {
		c.job.Lost(why)
	}
}
