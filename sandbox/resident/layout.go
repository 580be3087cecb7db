package resident

import (
	"encoding/binary"
	"errors"
)

// The names in a job folder, jobs/<key>/<index>/, which only the resident writes.
const (
	FileRequest = "request" // what was asked, for people
	FileStdout  = "stdout"  // the spool; made on the stream's first byte
	FileStderr  = "stderr"
	FileOrder   = "order" // records of arrival order; see AppendOrder
	FileExit    = "exit"  // Exit as JSON, written last, by one write; empty until then, and for ever if that write failed
)

// Stream numbers, as in the order file.
const (
	Stdout = 1
	Stderr = 2
)

// OrderSize is the length of one order record.
const OrderSize = 8

const orderStderr = uint64(1) << 63

// AppendOrder appends the record of one drain: n bytes of a stream came next. A record is written after its bytes
// are in the spool, and never changes.
func AppendOrder(b []byte, stream int, n int64) []byte {
	v := uint64(n)
	if stream == Stderr {
		v |= orderStderr
	}
	return binary.LittleEndian.AppendUint64(b, v)
}

// ParseOrder reads one record; b must hold OrderSize bytes.
func ParseOrder(b []byte) (stream int, n int64) {
	v := binary.LittleEndian.Uint64(b)
	if v&orderStderr != 0 {
		return Stderr, int64(v &^ orderStderr)
	}
	return Stdout, int64(v)
}

// A spool keeps at most spoolCap bytes of a stream on disk: the first SpoolHead and the last ones. What lies between is
// punched out, so that the size of the file is still the offset in the stream.
const (
	SpoolHead = 8 << 20
	spoolTail = 56 << 20
	spoolCap  = SpoolHead + spoolTail
	spoolStep = 1 << 20 // holes grow in steps of this, so that punching is rare
)

// Gap returns the part [from, to) of a stream of the given size that is no longer kept and reads as zeros. It is empty,
// 0 to 0, while the stream is small. Readers skip it and count it as left out.
func Gap(size int64) (from, to int64) {
	if size <= spoolCap {
		return 0, 0
	}
	if to = (size - spoolTail) / spoolStep * spoolStep; to <= SpoolHead {
		return 0, 0
	}
	return SpoolHead, to
}

// Exit is how a call ended: the content of the exit file, and its JSON.
type Exit struct {
	Code        int    `json:"code"`             // the command's; 128+n for signal n; 124 for a time-out
	Signal      string `json:"signal,omitempty"` // "SIGKILL"
	TimedOut    bool   `json:"timed_out,omitempty"`
	Cancelled   bool   `json:"cancelled,omitempty"`
	OutOfMemory bool   `json:"out_of_memory,omitempty"`
	Started     int64  `json:"started"` // Unix nanoseconds
	Ended       int64  `json:"ended"`
	Stdout      int64  `json:"stdout"` // bytes of each stream when the call ended; later bytes belong to what it left behind
	Stderr      int64  `json:"stderr"`
	StdoutLost  int64  `json:"stdout_lost,omitempty"` // bytes after those that the disk did not take
	StderrLost  int64  `json:"stderr_lost,omitempty"`
	Order       int64  `json:"order"`           // valid bytes of the order file at that moment
	Error       string `json:"error,omitempty"` // why the command could not be started; Code is then 126 or 127
	Limit       string `json:"limit,omitempty"` // the limit of the box that ended it, if one did
}

// maxKey bounds a job's key: it is a folder name.
const maxKey = 100

// ErrKey says that a job's key cannot be a folder name.
var ErrKey = errors.New("a job key is 1 to 100 of the characters A-Z a-z 0-9 _ . - and does not begin with a dot")

// CheckKey refuses a key that is not a plain folder name.
func CheckKey(key string) error {
	if len(key) == 0 || len(key) > maxKey || key[0] == '.' {
		return ErrKey
	}
	for _, c := range []byte(key) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
		default:
			return ErrKey
		}
	}
	return nil
}
