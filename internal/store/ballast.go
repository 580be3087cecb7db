package store

import (
	"os"
	"sync"
)

// A ballast is a file beside the database that holds room for nothing but bad days. When the disk is full it is given
// back, so that what frees space can still be written: a deletion, the end of a response. It is taken again when there
// is room for it several times over.
type ballast struct {
	path   string
	folder string

	mu   sync.Mutex
	held bool
}

const (
	// mostBallast is enough for thousands of small transactions.
	mostBallast = 8 << 20
	// leastBallast is where holding room back begins to help; on a disk so small that an eighth of it is less, there
	// is none.
	leastBallast = 1 << 20
	// ballastRoom is how many times the ballast must fit into the free space before it is taken.
	ballastRoom = 4
)

func newBallast(database, folder string) *ballast {
	b := &ballast{path: database + ".ballast", folder: folder}
	if info, err := os.Lstat(b.path); err == nil && info.Size() > 0 {
		b.held = true
	}
	return b
}

// take holds room back, if there is plenty. That it cannot is nobody's error: the day is bad already.
func (b *ballast) take() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held {
		return
	}
	total, free, ok := space(b.folder)
	size := min(total/8, mostBallast)
	if !ok || size < leastBallast || free < ballastRoom*size {
		return
	}
	f, err := os.OpenFile(b.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	if err := allocate(f, size); err != nil {
		os.Remove(b.path)
		return
	}
	b.held = true
}

// give frees the room. It answers false when there was none to free.
func (b *ballast) give() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.held {
		return false
	}
	b.held = false
	return os.Remove(b.path) == nil
}

func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 64<<10)
	for size > 0 {
		n, err := f.Write(zeros[:min(size, int64(len(zeros)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}
