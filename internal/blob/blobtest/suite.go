// Package blobtest is the suite that every blob store must pass; a store's own test is a factory.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
)

// Run holds a store to the contract. factory makes one that holds nothing the suite would trip over.
func Run(t *testing.T, factory func(t testing.TB) blob.Store) {
	s := factory(t)
	prefix := fmt.Sprintf("suite-%d/", time.Now().UnixNano()) // a bucket may be shared with an earlier run
	for i, c := range []struct {
		name string
		run  func(t *testing.T, s blob.Store, key string)
	}{
		{"what is put is read", roundTrip}, {"ranges", ranges}, {"replace", replace}, {"absent", absent},
		{"a reader that fails leaves what was there", failingReader}, {"a context that ends", endedContext},
		{"a section", section}, {"large", large}, {"at the same time", concurrent}, {"bad keys", badKeys},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s, fmt.Sprintf("%s%d", prefix, i)) })
	}
}

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, s blob.Store, key string, data []byte) {
	t.Helper()
	n, err := s.Put(background(t), key, iotest.HalfReader(bytes.NewReader(data)))
	if err != nil || n != int64(len(data)) {
		t.Fatalf("put %d bytes: %d, %v", len(data), n, err)
	}
	t.Cleanup(func() { s.Delete(context.Background(), key) })
}

func get(t *testing.T, s blob.Store, key string, offset, length int64) []byte {
	t.Helper()
	r, err := s.Open(background(t), key, offset, length)
	if err != nil {
		t.Fatalf("open %d+%d: %v", offset, length, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read %d+%d: %v", offset, length, err)
	}
	return data
}

func random(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

func roundTrip(t *testing.T, s blob.Store, key string) {
	for _, n := range []int{0, 1, 4095, 1 << 20, 1<<20 + 1} {
		data := random(n)
		put(t, s, key, data)
		if got := get(t, s, key, 0, -1); !bytes.Equal(got, data) {
			t.Errorf("%d bytes come back as %d others", n, len(got))
		}
	}
}

func ranges(t *testing.T, s blob.Store, key string) {
	data := random(700_000)
	put(t, s, key, data)
	for _, c := range [][2]int64{{0, 10}, {5, 1}, {0, 0}, {262_143, 3}, {262_144, 262_144}, {699_999, 1}, {699_999, 100}, {1, -1},
		{700_000, -1}, {700_000, 5}, {900_000, 5}} {
		from := min(c[0], int64(len(data)))
		want := data[from:]
		if c[1] >= 0 {
			want = want[:min(c[1], int64(len(want)))]
		}
		if got := get(t, s, key, c[0], c[1]); !bytes.Equal(got, want) {
			t.Errorf("%d+%d: %d bytes, want %d", c[0], c[1], len(got), len(want))
		}
	}
}

func section(t *testing.T, s blob.Store, key string) {
	data := random(1000)
	put(t, s, key, data)
	r := blob.NewSection(background(t), s, key, 100, 500)
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data[100:600]) {
		t.Errorf("whole: %d bytes, %v", len(got), err)
	}
	for _, c := range []struct {
		offset int64
		whence int
		at     int64
	}{{10, io.SeekStart, 10}, {5, io.SeekCurrent, 18}, {-7, io.SeekEnd, 493}} {
		at, err := r.Seek(c.offset, c.whence)
		if err != nil || at != c.at {
			t.Fatalf("seek: %d, %v, want %d", at, err, c.at)
		}
		three := make([]byte, 3)
		if _, err := io.ReadFull(r, three); err != nil || !bytes.Equal(three, data[100+at:][:3]) {
			t.Errorf("at %d: %v, %v", at, three, err)
		}
	}
	short := blob.NewSection(background(t), s, key, 990, 50)
	defer short.Close()
	if _, err := io.ReadAll(short); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("more than there is: %v", err)
	}
}

func replace(t *testing.T, s blob.Store, key string) {
	put(t, s, key, random(300_000))
	put(t, s, key, []byte("short"))
	if got := get(t, s, key, 0, -1); string(got) != "short" {
		t.Errorf("after the second put: %d bytes", len(got))
	}
}

func absent(t *testing.T, s blob.Store, key string) {
	if _, err := s.Open(background(t), key, 0, -1); fault.KindOf(err) != fault.NotFound {
		t.Errorf("open: %v, want not found", err)
	}
	if err := s.Delete(background(t), key); err != nil {
		t.Errorf("delete: %v", err)
	}
	put(t, s, key, []byte("x"))
	if err := s.Delete(background(t), key); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := s.Open(background(t), key, 0, -1); fault.KindOf(err) != fault.NotFound {
		t.Errorf("open after delete: %v, want not found", err)
	}
}

func failingReader(t *testing.T, s blob.Store, key string) {
	broken := errors.New("the client went away")
	r := func() io.Reader { return io.MultiReader(bytes.NewReader(random(600_000)), iotest.ErrReader(broken)) }
	if _, err := s.Put(background(t), key, r()); !errors.Is(err, broken) {
		t.Errorf("put: %v, want the reader's error", err)
	}
	if _, err := s.Open(background(t), key, 0, -1); fault.KindOf(err) != fault.NotFound {
		t.Errorf("half a blob is there: %v", err)
	}
	put(t, s, key, []byte("whole"))
	if _, err := s.Put(background(t), key, r()); !errors.Is(err, broken) {
		t.Errorf("put: %v, want the reader's error", err)
	}
	if got := get(t, s, key, 0, -1); string(got) != "whole" {
		t.Errorf("what was there became %d bytes", len(got))
	}
}

func endedContext(t *testing.T, s blob.Store, key string) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Put(ctx, key, bytes.NewReader(random(100))); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if _, err := s.Open(background(t), key, 0, -1); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it is there: %v", err)
	}
}

func large(t *testing.T, s blob.Store, key string) {
	const size = 40 << 20 // more than one part, one chunk, one buffer
	sum := sha256.New()
	source := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{7}), size), sum)
	if n, err := s.Put(background(t), key, source); err != nil || n != size {
		t.Fatalf("put: %d, %v", n, err)
	}
	t.Cleanup(func() { s.Delete(context.Background(), key) })
	r, err := s.Open(background(t), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	back := sha256.New()
	if n, err := io.Copy(back, r); err != nil || n != size || !bytes.Equal(back.Sum(nil), sum.Sum(nil)) {
		t.Errorf("%d bytes come back, %v, the same: %t", n, err, bytes.Equal(back.Sum(nil), sum.Sum(nil)))
	}
}

func concurrent(t *testing.T, s blob.Store, key string) {
	a, b := bytes.Repeat([]byte("a"), 300_000), bytes.Repeat([]byte("b"), 200_000)
	put(t, s, key, a)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 5 {
				if _, err := s.Put(context.Background(), key, bytes.NewReader([][]byte{a, b}[i%2])); err != nil {
					t.Errorf("put: %v", err)
				}
			}
		})
		wg.Go(func() {
			for range 5 {
				r, err := s.Open(context.Background(), key, 0, -1)
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				got, err := io.ReadAll(r)
				r.Close()
				if err != nil || !bytes.Equal(got, a) && !bytes.Equal(got, b) {
					t.Errorf("a reader saw %d bytes that nobody put, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
}

func badKeys(t *testing.T, s blob.Store, _ string) {
	for _, key := range []string{"", "../up", "/abs", "a//b", "nul\x00"} {
		if _, err := s.Put(background(t), key, bytes.NewReader(nil)); err == nil {
			t.Errorf("put of %q", key)
		}
		if _, err := s.Open(background(t), key, 0, -1); err == nil {
			t.Errorf("open of %q", key)
		}
		if err := s.Delete(background(t), key); err == nil {
			t.Errorf("delete of %q", key)
		}
	}
}
