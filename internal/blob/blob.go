// Package blob keeps bytes by key: the contract of the places that files live in, and the sets of them that a row can
// name one of.
//
// It knows no noun and no row: who stores a blob notes its key and its place, and removes it when the row goes. What
// holds: a blob is there whole or not at all; what was put survives a kill; a key is a name of ours, never a client's.
package blob

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// A Store keeps bytes by key.
//
// The law: Put replaces a blob at once or leaves it as it was, whatever happens meanwhile; it reads r to its end in
// bounded memory and answers with the bytes it kept. Open of an absent key is fault.NotFound; a range that begins at
// or behind the end reads nothing. Delete of an absent key is no error. Every store may be used by many goroutines,
// and passes package blobtest.
type Store interface {
	Put(ctx context.Context, key string, r io.Reader) (int64, error)
	// Open reads length bytes from offset on, fewer where the blob ends; a length below 0 is all that follows.
	Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	Delete(ctx context.Context, key string) error
}

// maxKey keeps a key well below what any store can name.
const maxKey = 200

// CheckKey says whether a key can be used: segments of A-Z a-z 0-9 . _ - between slashes, none of them empty or
// beginning with a dot.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("blob key of %d bytes", len(key))
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part[0] == '.' {
			return fmt.Errorf("blob key %q", key)
		}
		for _, c := range []byte(part) {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
				return fmt.Errorf("blob key %q", key)
			}
		}
	}
	return nil
}

// Absent is the error for a key that holds nothing.
func Absent(key string) error {
	return fault.New(fault.NotFound, "The stored bytes are not there.").WithCode("file_content_unavailable").
		WithTry("uploading the file again")
}

// Stores are the places by name. New blobs go to one of them; those that are there stay readable where they are.
type Stores struct {
	current string
	all     map[string]Store
}

// NewStores returns a set. current must be one of all.
func NewStores(current string, all map[string]Store) *Stores {
	if all[current] == nil {
		panic("blob: no store " + current)
	}
	return &Stores{current: current, all: all}
}

// Current is the place that new blobs go to, and its name for the row.
func (s *Stores) Current() (string, Store) { return s.current, s.all[s.current] }

// Named is the place that a row names. One that is not configured any more is fault.Unavailable.
func (s *Stores) Named(name string) (Store, error) {
	if store := s.all[name]; store != nil {
		return store, nil
	}
	return nil, fault.New(fault.Unavailable, "The storage %q of these bytes is not configured.", name).
		WithCode("file_content_unavailable").WithTry("the [storage.container_files] of before")
}
