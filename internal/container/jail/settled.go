package jail

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// What is kept of commands whose end is journaled, in each container: so much can still be searched by later commands
// and people. Beyond it the oldest go, folder and all.
const (
	maxSettled      = 200
	maxSettledBytes = 256 << 20
)

// mark is an empty file in the folder of a job whose end is journaled.
const mark = "settled"

// settled are the jobs that may go, of the containers that were asked about since we began.
type settled struct {
	mu  sync.Mutex
	of  map[string]*past // by the container's folder
	max int              // maxSettled; a test sets less
}

type past struct {
	mu    sync.Mutex
	jobs  []pastJob // the oldest first
	bytes int64
}

type pastJob struct {
	dir   string
	bytes int64
	ended time.Time
}

func (s *settled) forget(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, dir)
}

// Settle marks a job, and makes room.
func (r *runtime) Settle(_ context.Context, spec container.Spec, key string, index int) error {
	if err := resident.CheckKey(key); err != nil || index < 0 {
		return fault.New(fault.Invalid, "A command's key or index is not one of ours.")
	}
	dir := jobDir(spec, key, index)
	f, err := os.OpenFile(filepath.Join(dir, mark), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist):
		return nil // it never ran or is gone; it is marked already
	case err != nil && !errors.Is(err, syscall.ENOSPC):
		return fault.Wrap(fault.Unavailable, err, "The command's folder could not be marked.")
	case err == nil:
		f.Close()
	}
	p := r.past.at(spec.Dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(measure(dir))
	p.evict(cmp.Or(r.past.max, maxSettled))
	return nil
}

// at returns what is known of a container. The first time it looks at the folders that an earlier process has marked.
func (s *settled) at(dir string) *past {
	s.mu.Lock()
	p := s.of[dir]
	if p != nil {
		s.mu.Unlock()
		return p
	}
	if s.of == nil {
		s.of = map[string]*past{}
	}
	p = &past{}
	s.of[dir] = p
	p.mu.Lock()
	defer p.mu.Unlock()
	s.mu.Unlock()
	marks, _ := filepath.Glob(filepath.Join(escape(dir), "box", "jobs", "*", "*", mark))
	for _, m := range marks {
		p.add(measure(filepath.Dir(m)))
	}
	slices.SortFunc(p.jobs, func(a, b pastJob) int { return a.ended.Compare(b.ended) })
	return p
}

// escape keeps a folder's name from being read as a pattern.
func escape(dir string) string {
	var b []byte
	for i := range len(dir) {
		switch dir[i] {
		case '*', '?', '[', '\\':
			b = append(b, '\\')
		}
		b = append(b, dir[i])
	}
	return string(b)
}

// measure says what a job's folder takes on the disk.
func measure(dir string) pastJob {
	j := pastJob{dir: dir}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		j.bytes += taken(info)
		if info.ModTime().After(j.ended) {
			j.ended = info.ModTime()
		}
	}
	return j
}

func (p *past) add(j pastJob) {
	if slices.ContainsFunc(p.jobs, func(k pastJob) bool { return k.dir == j.dir }) {
		return
	}
	p.jobs = append(p.jobs, j)
	p.bytes += j.bytes
}

// evict removes the oldest jobs until the rest is within bounds. The key's folder stays while it has other commands.
func (p *past) evict(most int) {
	n := 0
	for ; n < len(p.jobs) && (len(p.jobs)-n > most || p.bytes > maxSettledBytes); n++ {
		os.RemoveAll(p.jobs[n].dir)
		os.Remove(filepath.Dir(p.jobs[n].dir))
		p.bytes -= p.jobs[n].bytes
	}
	p.jobs = slices.Delete(p.jobs, 0, n)
}
