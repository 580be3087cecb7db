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
	return appendWords(b, KindSignal, m.Request, m.Job, m.Number)
}

func parseSignal(b []byte) (m Signal, err error) {
	err = readWords(b, &m.Request, &m.Job, &m.Number)
	return m, err
}

// Look asks how a running command stands. It is answered by Seen.
type Look struct {
	Request uint32
	Job     uint32
	Port    uint32 // is it listened on, in the command's network; 0 asks for none
}

// Append encodes the message.
func (m Look) Append(b []byte) []byte {
	return appendWords(b, KindLook, m.Request, m.Job, m.Port)
}

func parseLook(b []byte) (m Look, err error) {
	err = readWords(b, &m.Request, &m.Job, &m.Port)
	return m, err
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
