package sandbox

import (
	"context"

	"golang.org/x/sys/unix"
)

// OpenRung makes a box of a rung, as if none above it could be had.
func OpenRung(ctx context.Context, spec Spec, rung Rung) (*Box, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	return open(ctx, &spec, rung)
}

// Remembering is how Supported remembers.
func Remembering(try func() error) func(context.Context) error { return (&success{try: try}).ask }

// Unheard is how much of what was said to a box its resident has not read.
func Unheard(b *Box) (bytes int) {
	if raw, err := b.conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { bytes, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	}
	return bytes
}
