package audit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// sick is a disk on which a test says what fails.
type sick struct {
	disk
	room     int // bytes of the next write; less than 0 is all
	cut, end error
}

func (s *sick) Write(p []byte) (int, error) {
	if s.room < 0 {
		return s.disk.Write(p)
	}
	n, err := s.disk.Write(p[:min(s.room, len(p))])
	s.room = -1
	return n, errors.Join(err, errors.New("no space"))
}

func (s *sick) Truncate(size int64) error {
	if s.cut != nil {
		return s.cut
	}
	return s.disk.Truncate(size)
}

func (s *sick) Sync() error { return s.end }

func onSick(t *testing.T, o Options) (*Log, *sick, string) {
	dir := filepath.Join(t.TempDir(), "audit")
	l, err := Open(dir, o)
	must(t, err)
	bad := &sick{disk: l.file.f, room: -1}
	l.file.f = bad
	return l, bad, dir
}

// TestAFullDiskLeavesWholeRecords: half a record goes again, and what follows stands behind whole ones.
func TestAFullDiskLeavesWholeRecords(t *testing.T) {
	l, bad, dir := onSick(t, Options{})
	says(t, l, "one")
	bad.room = 20
	if err := l.Append(Entry{Kind: KindEnd, Note: "lost"}); err == nil {
		t.Fatal("it was written")
	}
	says(t, l, "two")
	if err := l.Close(); err == nil {
		t.Error("Close says nothing of the lost record")
	}
	if r := verified(t, dir); !r.Intact() || r.Records != 2 {
		t.Errorf("%+v", r)
	}
}

// TestNothingFollowsHalfARecord: where half a record cannot be taken away, nothing is written behind it.
func TestNothingFollowsHalfARecord(t *testing.T) {
	l, bad, dir := onSick(t, Options{})
	says(t, l, "one")
	bad.room, bad.cut = 20, errors.New("it cannot be cut")
	for range 2 {
		if err := l.Append(Entry{Kind: KindEnd, Note: "lost"}); err == nil || !strings.Contains(err.Error(), "cannot be written") {
			t.Fatalf("%v", err)
		}
	}
	if err := l.Close(); err == nil {
		t.Error("Close says nothing")
	}
	if r := verified(t, dir); !r.Intact() || r.Records != 1 || r.Files[0].Torn != 20 || r.Files[0].Closed {
		t.Errorf("%+v", r)
	}
}

// TestASyncThatFailsIsTold: what a power cut would take is no secret, and is still told at the end.
func TestASyncThatFailsIsTold(t *testing.T) {
	told := make(chan error, 1)
	l, bad, _ := onSick(t, Options{Failed: func(err error) { told <- err }})
	bad.end = errors.New("it is broken")
	says(t, l, "one")
	l.sync() // as the timer does
	if err := <-told; !strings.Contains(err.Error(), "it is broken") {
		t.Error(err)
	}
	if l.Err() == nil || l.Close() == nil {
		t.Error("it is forgotten")
	}
}

// TestWhatReachesTheDisk: the key before it has its name, and a head before its folder.
func TestWhatReachesTheDisk(t *testing.T) {
	var mu sync.Mutex
	var names []string
	settle = func(f *os.File) error {
		mu.Lock()
		defer mu.Unlock()
		names = append(names, filepath.Base(f.Name()))
		return f.Sync()
	}
	t.Cleanup(func() { settle = (*os.File).Sync })
	dir := filepath.Join(t.TempDir(), "audit")
	l := writer(t, dir)
	mu.Lock()
	if len(names) < 3 || !strings.HasPrefix(names[0], ".key.pub-") || !strings.HasPrefix(names[1], ".key-") || names[2] != "audit" {
		t.Errorf("after the key: %q", names)
	}
	names = nil
	mu.Unlock()
	says(t, l, "one")
	must(t, l.Close())
	if want := []string{l.Name() + headSuffix, "audit"}; !slices.Equal(names[max(0, len(names)-2):], want) {
		t.Errorf("%q, not %q", names, want)
	}
}
