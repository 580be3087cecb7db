package blob

import (
	"context"
	"fmt"
	"io"

	"github.com/hardshell-dev/hardshell/fault"
)

// Section is a part of a blob, to be read from any place. It opens the blob when it is read, and again after a seek.
type Section struct {
	ctx    context.Context // of the request that reads
	store  Store
	key    string
	offset int64
	size   int64
	at     int64
	open   io.ReadCloser
}

// NewSection returns size bytes of a blob from offset on. The end of ctx ends its reads.
func NewSection(ctx context.Context, store Store, key string, offset, size int64) *Section {
	return &Section{ctx: ctx, store: store, key: key, offset: offset, size: size}
}

// Ready opens the blob now, so that bytes that are not there are known before anything is answered. What an existing row
// names and no store has is our fault, whatever kind the store gave it.
func (s *Section) Ready() error {
	if s.size == 0 || s.open != nil {
		return nil
	}
	r, err := s.store.Open(s.ctx, s.key, s.offset+s.at, s.size-s.at)
	if fault.KindOf(err) == fault.NotFound {
		return fault.Wrap(fault.Internal, err, "The stored bytes are not there.").WithCode("file_content_unavailable")
	}
	s.open = r
	return err
}

// Read reads on. Bytes that are missing are io.ErrUnexpectedEOF.
func (s *Section) Read(p []byte) (int, error) {
	if s.at >= s.size {
		return 0, io.EOF
	}
	if s.open == nil {
		if err := s.Ready(); err != nil {
			return 0, err
		}
	}
	n, err := s.open.Read(p[:min(int64(len(p)), s.size-s.at)])
	s.at += int64(n)
	if err == io.EOF {
		if err = nil; s.at < s.size {
			err = fmt.Errorf("read blob %s at %d of %d: %w", s.key, s.at, s.size, io.ErrUnexpectedEOF)
		}
	}
	return n, err
}

// Seek moves the place of the next read.
func (s *Section) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to %d", offset)
	}
	if offset != s.at {
		s.Close()
		s.at = offset
	}
	return offset, nil
}

// Close lets go of the blob. A later read opens it again.
func (s *Section) Close() error {
	if s.open == nil {
		return nil
	}
	err := s.open.Close()
	s.open = nil
	return err
}
