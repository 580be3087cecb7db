package resident

// Signal sends a signal to the process group in front of a command's terminal, or without one to the command's own. It
// is answered by Took.
type Signal struct {
	Request uint32
	Job     uint32
	Number  uint32
}

// Append encodes the message.
func (m Signal) Append(b []byte) []byte {
	w := writer(append(b, byte(KindSignal)))
	w.u32(m.Request)
	w.u32(m.Job)
	w.u32(m.Number)
	return w
}

func parseSignal(b []byte) (m Signal, err error) {
	r := reader{b: b}
	m.Request, m.Job, m.Number = r.u32(), r.u32(), r.u32()
	return m, r.err
}

// Look asks how a running command stands. It is answered by Seen.
type Look struct {
	Request uint32
	Job     uint32
	Port    uint32 // is it listened on, in the command's network; 0 asks for none
}

// Append encodes the message.
func (m Look) Append(b []byte) []byte {
	w := writer(append(b, byte(KindLook)))
	w.u32(m.Request)
	w.u32(m.Job)
	w.u32(m.Port)
	return w
}

func parseLook(b []byte) (m Look, err error) {
	r := reader{b: b}
	m.Request, m.Job, m.Port = r.u32(), r.u32(), r.u32()
	return m, r.err
}

// What a Seen says.
const (
	SeenReads   = 1 << iota // a process in front is blocked reading the command's input, in which nothing waits
	SeenPolls               // one is blocked waiting for events, which may be input
	SeenEchoes              // the terminal echoes what is typed
	SeenLines               // the terminal gives whole lines, edited by the kernel
	SeenLeads               // the command itself is in front of its terminal, not one of its children
	SeenListens             // the port is listened on
	SeenClearly             // the kernel let us look at what the processes in front wait for
	SeenUnread              // input waits that nobody has read
)

// Seen answers a Look.
type Seen struct {
	Request uint32
	Refusal Refusal
	Bits    uint32
	Dir     string // where the command itself stands, as it sees it; empty is not known
}

func (m Seen) append(b []byte) []byte {
	w := writer(append(b, byte(KindSeen)))
	w.u32(m.Request)
	w.u8(uint8(m.Refusal))
	w.u32(m.Bits)
	w.text(m.Dir)
	return w
}

// ParseSeen decodes the message.
func ParseSeen(b []byte) (m Seen, err error) {
	r := reader{b: b}
	m.Request, m.Refusal, m.Bits, m.Dir = r.u32(), Refusal(r.u8()), r.u32(), r.text()
	return m, r.err
}
