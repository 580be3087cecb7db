package resident

import "time"

// Version is the protocol's. A resident that outlives an upgrade of its owner still speaks the version it was started
// with, so an owner knows all versions from Oldest on and adopts no older one. What never changes, so that any owner can
// end any resident: the socket's place, the first field of Hello, and KindEnd.
//
// Version 2 has no Lease, Fence and Arg0 in Start, no KindFind, KindKeep, KindEnd, KindRest and KindListen, no LastEnd in Welcome and
// no Limit in the end of a job. Version 3 has no KindSignal and no KindLook.
const (
	Version = 4
	Oldest  = 2
)

// The two names under which our binary is something else.
const (
	Name        = "hardshell-resident"
	SpawnerName = "hardshell-spawner"
	holderName  = "hardshell-holder" // sits in a user namespace until it is killed
)

// Descriptors of a resident. It is started with the first owner's connection only; the others come with the plan.
const (
	fdLog    = 2
	fdOwner  = 3
	fdListen = 4 // where later owners connect
	fdJobs   = 5 // the jobs folder
	fdFree   = 6
)

// MostFiles bounds the descriptors that come with a plan: three, those of the control groups, and its trees.
const MostFiles = 64

// MaxPacket bounds one packet; a longer message travels in parts.
const MaxPacket = 64 << 10

// maxMessage bounds one message: arguments and environment together are bounded by the kernel to less than this.
const maxMessage = 8 << 20

// Kind is the first byte of a packet.
type Kind uint8

// Owner to resident.
const (
	KindPart       Kind = iota + 1 // a piece of a long message
	KindLast                       // its last piece
	KindSetup                      // a Plan; the first message to a new resident
	KindHello                      // Hello; the first message of a later owner
	KindStart                      // Start
	KindKill                       // the job's number: cancel it
	KindShutdown                   // kill everything and exit
	KindInput                      // Input
	KindCloseInput                 // CloseInput
	KindResize                     // Resize
	KindFind                       // Find
	KindKeep                       // from now on the resident outlives its owner, by the plan's grace
	KindEnd                        // End; the only message beside Hello that a guest may send
	KindListen                     // see AppendListen
	KindRest                       // exit if nothing lives; answered by KindRests
	KindSignal                     // Signal
	KindLook                       // Look
)

// kindBecome is a spawner's word to a spare, on the connection that an owner's will replace.
const kindBecome Kind = 48

// Resident to owner.
const (
	KindWelcome Kind = iota + 64 // Welcome, with a pidfd of the resident
	KindRefused                  // a sentence
	KindLive                     // Live; one per job whose call has not ended, between Welcome and Ready
	KindReady                    // the list of live jobs is complete
	KindStarted                  // Started
	KindGrew                     // the job's number, bytes of the order file
	KindEnded                    // the job's number, Exit, and whether nothing can write to its streams any more
	KindSilent                   // the job's number: now nothing can
	KindTook                     // Took
	KindRoom                     // the job's number: it takes input again
	KindRests                    // 1: nothing lived, and the resident ends; 0: something does
	KindSeen                     // Seen
)

// Hello presents an owner.
type Hello struct {
	Version uint32
	Fence   uint64
}

// Append encodes the message.
func (h Hello) Append(b []byte) []byte {
	w := writer(append(b, byte(KindHello)))
	w.u32(h.Version)
	w.u64(h.Fence)
	return w
}

func parseHello(b []byte) (h Hello, err error) {
	r := reader{b: b}
	h.Version, h.Fence = r.u32(), r.u64()
	return h, r.err
}

// End ends a resident whose language its owner does not speak. It is refused like a Hello of its fence.
type End struct{ Fence uint64 }

// Append encodes the message.
func (e End) Append(b []byte) []byte {
	w := writer(append(b, byte(KindEnd)))
	w.u64(e.Fence)
	return w
}

func parseEnd(b []byte) (e End, err error) {
	r := reader{b: b}
	e.Fence = r.u64()
	return e, r.err
}

// Welcome accepts an owner.
type Welcome struct {
	Version uint32
	Notes   []string // what the plan asked for and this kernel has not
	LastEnd int64    // when the last call ended, in Unix nanoseconds; 0 is none
}

func (m Welcome) append(b []byte) []byte {
	w := writer(append(b, byte(KindWelcome)))
	w.u32(m.Version)
	w.list(m.Notes)
	if m.Version > 2 {
		w.i64(m.LastEnd)
	}
	return w
}

// ParseWelcome decodes the message.
func ParseWelcome(b []byte) (m Welcome, err error) {
	r := reader{b: b}
	m.Version, m.Notes = r.u32(), r.list()
	if m.Version > 2 {
		m.LastEnd = r.i64()
	}
	return m, r.err
}

// Start asks for a command. With Stdin, one descriptor travels beside it. With Open or a terminal the stdin is fed by
// Input.
type Start struct {
	Request uint32 // the owner's number, echoed in Started
	Key     string
	Index   uint32
	Dir     string
	Timeout time.Duration
	Argv    []string
	Env     []string
	Stdin   bool
	Open    bool
	Rows    uint32 // of its terminal; 0 is a command without one
	Cols    uint32
	Lease   string // whose fence it is; empty is the key
	Fence   uint64 // lower than the highest one seen of that lease is refused
	Arg0    string // what the program is told as its name; empty is Argv[0]
	Whole   bool   // what its command leaves behind is killed, and then the call ends; encoded only where it is set
}

// Append encodes the message for a resident of a version.
func (s Start) Append(b []byte, version uint32) []byte {
	w := writer(append(b, byte(KindStart)))
	w.u32(s.Request)
	w.text(s.Key)
	w.u32(s.Index)
	w.text(s.Dir)
	w.i64(int64(s.Timeout))
	w.list(s.Argv)
	w.list(s.Env)
	w.flag(s.Stdin)
	w.flag(s.Open)
	w.u32(s.Rows)
	w.u32(s.Cols)
	if version > 2 {
		w.text(s.Lease)
		w.u64(s.Fence)
		w.text(s.Arg0)
		if s.Whole {
			w.flag(true)
		}
	}
	return w
}

func parseStart(b []byte, version uint32) (s Start, err error) {
	r := reader{b: b}
	s.Request, s.Key, s.Index, s.Dir = r.u32(), r.text(), r.u32(), r.text()
	s.Timeout = time.Duration(r.i64())
	s.Argv, s.Env, s.Stdin, s.Open = r.list(), r.list(), r.flag(), r.flag()
	s.Rows, s.Cols = r.u32(), r.u32()
	if version > 2 {
		s.Lease, s.Fence, s.Arg0 = r.text(), r.u64(), r.text()
		s.Whole = len(r.b) > 0 && r.flag()
	}
	return s, r.err
}

// Find asks what became of a command. Its fence is raised as by Start, so that after a "never" no earlier owner of the
// lease can start it. It is answered by Started.
type Find struct {
	Request uint32
	Key     string
	Index   uint32
	Lease   string
	Fence   uint64
}

// Append encodes the message.
func (f Find) Append(b []byte) []byte {
	w := writer(append(b, byte(KindFind)))
	w.u32(f.Request)
	w.text(f.Key)
	w.u32(f.Index)
	w.text(f.Lease)
	w.u64(f.Fence)
	return w
}

func parseFind(b []byte) (f Find, err error) {
	r := reader{b: b}
	f.Request, f.Key, f.Index, f.Lease, f.Fence = r.u32(), r.text(), r.u32(), r.text(), r.u64()
	return f, r.err
}

// State is what a Start or a Find found.
type State uint8

// The states.
const (
	StateNew     State = iota + 1 // it was started now
	StateRunning                  // the key was started before and runs; Job is its number
	StatePast                     // the key was started before; its folder tells how it ended, if it did
	StateFailed                   // nothing was started, and the key is free again; Error says why
	StateNever                    // the key was never started
	StateStale                    // the fence is lower than one that was seen before: nothing was done
)

// Started answers a Start or a Find.
type Started struct {
	Request uint32
	Job     uint32
	State   State
	Order   int64 // bytes of the order file so far
	Error   string
}

func (m Started) append(b []byte) []byte {
	w := writer(append(b, byte(KindStarted)))
	w.u32(m.Request)
	w.u32(m.Job)
	w.u8(uint8(m.State))
	w.i64(m.Order)
	w.text(m.Error)
	return w
}

// ParseStarted decodes the message.
func ParseStarted(b []byte) (m Started, err error) {
	r := reader{b: b}
	m.Request, m.Job, m.State, m.Order, m.Error = r.u32(), r.u32(), State(r.u8()), r.i64(), r.text()
	return m, r.err
}

// Live tells a new owner of a call that goes on.
type Live struct {
	Job   uint32
	Key   string
	Index uint32
	Order int64
}

func (m Live) append(b []byte) []byte {
	w := writer(append(b, byte(KindLive)))
	w.u32(m.Job)
	w.text(m.Key)
	w.u32(m.Index)
	w.i64(m.Order)
	return w
}

// ParseLive decodes the message.
func ParseLive(b []byte) (m Live, err error) {
	r := reader{b: b}
	m.Job, m.Key, m.Index, m.Order = r.u32(), r.text(), r.u32(), r.i64()
	return m, r.err
}

// AppendKill encodes a cancel.
func AppendKill(b []byte, job uint32) []byte {
	return appendWords(b, KindKill, job)
}

func appendGrew(b []byte, job uint32, order int64) []byte {
	w := writer(append(b, byte(KindGrew)))
	w.u32(job)
	w.i64(order)
	return w
}

// ParseGrew decodes the message.
func ParseGrew(b []byte) (job uint32, order int64, err error) {
	r := reader{b: b}
	job, order = r.u32(), r.i64()
	return job, order, r.err
}

func appendEnded(b []byte, job uint32, e Exit, silent bool, version uint32) []byte {
	w := writer(append(b, byte(KindEnded)))
	w.u32(job)
	w.int(e.Code)
	w.text(e.Signal)
	w.flag(e.TimedOut)
	w.flag(e.Cancelled)
	w.flag(e.OutOfMemory)
	w.i64(e.Started)
	w.i64(e.Ended)
	w.i64(e.Stdout)
	w.i64(e.Stderr)
	w.i64(e.StdoutLost)
	w.i64(e.StderrLost)
	w.i64(e.Order)
	w.text(e.Error)
	w.flag(silent)
	if version > 2 {
		w.text(e.Limit)
	}
	return w
}

func appendSilent(b []byte, job uint32) []byte {
	return appendWords(b, KindSilent, job)
}

// ParseSilent decodes the message.
func ParseSilent(b []byte) (job uint32, err error) {
	err = readWords(b, &job)
	return job, err
}

// ParseEnded decodes the message of a resident of a version.
func ParseEnded(b []byte, version uint32) (job uint32, e Exit, silent bool, err error) {
	r := reader{b: b}
	job = r.u32()
	e.Code, e.Signal, e.TimedOut, e.Cancelled, e.OutOfMemory = r.int(), r.text(), r.flag(), r.flag(), r.flag()
	e.Started, e.Ended, e.Stdout, e.Stderr = r.i64(), r.i64(), r.i64(), r.i64()
	e.StdoutLost, e.StderrLost, e.Order, e.Error = r.i64(), r.i64(), r.i64(), r.text()
	silent = r.flag()
	if version > 2 {
		e.Limit = r.text()
	}
	return job, e, silent, r.err
}

// Packets cuts a message into packets of the socket. A long one becomes parts and a last part.
func Packets(message []byte) [][]byte {
	if len(message) <= MaxPacket {
		return [][]byte{message}
	}
	var out [][]byte
	for len(message) > 0 {
		n, kind := min(len(message), MaxPacket-1), KindPart
		if n == len(message) {
			kind = KindLast
		}
		out = append(out, append([]byte{byte(kind)}, message[:n]...))
		message = message[n:]
	}
	return out
}
