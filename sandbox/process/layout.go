package process

import "encoding/binary"

// Names in a job folder that the owner reads.
const (
	stdoutFile = "stdout"
	stderrFile = "stderr"
	orderFile  = "order"
)

// orderRecord is the size of one record of the order file: little endian, bit 63 set for stderr, the rest a length.
const orderRecord = 8

func decodeOrder(p []byte) (stream int, length int64) {
	v := binary.LittleEndian.Uint64(p)
	if v>>63 != 0 {
		return Stderr, int64(v &^ (1 << 63))
	}
	return Stdout, int64(v)
}
