package resident

// A terminal's size when none is asked for.
const (
	DefaultRows = 24
	DefaultCols = 80
)

// MaxInput bounds the data of one Input, so that it fits a packet.
const MaxInput = 32 << 10

// Input gives bytes to a command that was started with a terminal, or with its stdin open. It is answered by Took.
type Input struct {
	Request uint32 // the owner's number, echoed in Took
	Job     uint32
	Data    []byte
}

// Append encodes the message.
func (m Input) Append(b []byte) []byte {
	w := writer(append(b, byte(KindInput)))
	w.u32(m.Request)
	w.u32(m.Job)
	w.bytes(m.Data)
	return w
}

// parseInput decodes the message; its data is a part of b.
func parseInput(b []byte) (m Input, err error) {
	r := reader{b: b}
	m.Request, m.Job, m.Data = r.u32(), r.u32(), r.bytes()
	return m, r.err
}

// CloseInput ends the stdin of a command without a terminal, after what was given before. It is answered by Took.
type CloseInput struct {
	Request uint32
	Job     uint32
}

// Append encodes the message.
func (m CloseInput) Append(b []byte) []byte {
	return appendWords(b, KindCloseInput, m.Request, m.Job)
}

func parseCloseInput(b []byte) (m CloseInput, err error) {
	err = readWords(b, &m.Request, &m.Job)
	return m, err
}

// Resize gives a command's terminal another size. It is answered by Took.
type Resize struct {
	Request uint32
	Job     uint32
	Rows    uint32
	Cols    uint32
}

// Append encodes the message.
func (m Resize) Append(b []byte) []byte {
	return appendWords(b, KindResize, m.Request, m.Job, m.Rows, m.Cols)
}

func parseResize(b []byte) (m Resize, err error) {
	err = readWords(b, &m.Request, &m.Job, &m.Rows, &m.Cols)
	return m, err
}

// Refusal says why the resident did not do what an Input, a CloseInput, a Resize, a Signal or a Look asked.
type Refusal uint8

// The refusals.
const (
	RefusedNot    Refusal = iota // it did
	RefusedEnded                 // the call has ended
	RefusedNever                 // the command was started without a terminal and without an open stdin
	RefusedClosed                // its stdin is closed: by the owner, or by the command
	RefusedPipe                  // only a terminal has a size
	RefusedTTY                   // a terminal cannot be closed, only typed at
)

// Took answers an Input, a CloseInput, a Resize or a Signal. An Input of which less was taken than it holds is no refusal: the
// command does not read, and Room follows once the rest may be tried again.
type Took struct {
	Request uint32
	Bytes   uint32
	Refusal Refusal
}

func (m Took) append(b []byte) []byte {
	w := writer(append(b, byte(KindTook)))
	w.u32(m.Request)
	w.u32(m.Bytes)
	w.u8(uint8(m.Refusal))
	return w
}

// ParseTook decodes the message.
func ParseTook(b []byte) (m Took, err error) {
	r := reader{b: b}
	m.Request, m.Bytes, m.Refusal = r.u32(), r.u32(), Refusal(r.u8())
	return m, r.err
}

func appendRoom(b []byte, job uint32) []byte {
	return appendWords(b, KindRoom, job)
}

// ParseRoom decodes the message.
func ParseRoom(b []byte) (job uint32, err error) {
	err = readWords(b, &job)
	return job, err
}
