package container

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// catching is how far the rows of a workspace's files have come.
type catching struct {
	mu      sync.Mutex // one look at the workspace at a time, but for the one behind the requests
	walked  bool       // what the workspace held before it was watched is known
	partial bool       // the last list may lack files
	capped  bool       // so the last look behind the requests found
	behind  bool       // somebody looks through it, behind the requests
	next    time.Time  // nobody does so again before
}

// Partial says whether the last list of a container's files may lack some: its tree is large and still looked through,
// cannot be watched, or holds more files than get an id.
func (s *Service) Partial(id string) bool {
	p := s.known(id)
	if p == nil {
		return false
	}
	p.catching.mu.Lock()
	defer p.catching.mu.Unlock()
	return p.catching.partial
}

// catchUp gives an id to every file that came to be since the last look. A request looks at maxScan entries at most;
// what is left is looked at behind it.
func (s *Service) catchUp(ctx context.Context, p *place, root *os.Root) error {
	c := &p.catching
	c.mu.Lock()
	defer c.mu.Unlock()
	t := p.watched()
	news, complete, more := t.news(maxScan)
	p.mu.Lock()
	unwatched := t == nil && p.boot != nil
	p.mu.Unlock()
	walks := !complete || unwatched || !c.walked
	all := true
	if walks {
		var files []string
		var err error
		if files, all, err = walk(ctx, root, maxScan); err != nil {
			t.missed()
			return fmt.Errorf("look through workspace: %w", err)
		}
		news = append(news, files...)
	}
	if err := s.mintAll(ctx, p.id, root, news); err != nil {
		t.missed()
		return err
	}
	switch {
	case walks && all:
		c.walked, c.capped, c.partial = true, false, false
	case walks, more:
		c.walked, c.partial = c.walked && !walks, true
		if c.behind && !complete {
			t.missed() // the look that is under way may be past what nobody saw
		}
		s.lookBehind(p)
	default:
		c.partial = c.behind || c.capped
	}
	return nil
}

// mintAll gives ids to those paths that are regular files.
func (s *Service) mintAll(ctx context.Context, id string, root *os.Root, paths []string) error {
	slices.Sort(paths) // so that ids are in an order
	paths = slices.DeleteFunc(slices.Compact(paths), func(rel string) bool { _, ok := regular(root, rel); return !ok })
	for batch := range slices.Chunk(paths, mintBatch) {
		if _, err := s.mint(ctx, id, batch, ""); err != nil {
			return err
		}
	}
	return nil
}

// mintBatch bounds the rows that one transaction writes: others wait for it.
const mintBatch = 1000

// later runs something behind the requests, unless the service is closing. Close waits for it.
func (s *Service) later(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// lookBehind looks through a whole workspace behind the requests. It needs catching.mu.
func (s *Service) lookBehind(p *place) {
	c := &p.catching
	if c.behind || time.Now().Before(c.next) {
		return
	}
	c.behind = s.later(func() {
		begun := time.Now()
		all, complete, err := s.lookThrough(s.ctx, p)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.behind, c.next = false, time.Now().Add(10*time.Since(begun)) // a tenth of a core at most
		switch {
		case err == nil:
			c.walked, c.capped = complete, !all || !complete
		case s.ctx.Err() == nil:
			s.log.Warn("a workspace could not be looked through", "container", p.id, "error", err)
		}
	})
}

// lookThrough gives an id to every file of a workspace, up to maxKnown of them: all says whether there are no more. It
// is complete where the watch knows all that changes meanwhile.
func (s *Service) lookThrough(ctx context.Context, p *place) (all, complete bool, err error) {
	root, err := p.workspace()
	if err != nil {
		return false, false, err
	}
	defer root.Close()
	files, all, err := walk(ctx, root, maxKnown)
	if err == nil {
		err = s.mintAll(ctx, p.id, root, files)
	}
	complete = true
	t := p.watched()
	for n, more := 0, true; err == nil && more && n < maxNews; n += maxScan {
		news, whole, rest := t.news(maxScan)
		complete, more = complete && whole, rest
		if err = s.mintAll(ctx, p.id, root, news); err != nil {
			t.missed()
		}
	}
	return all, complete, err
}

// workspace opens the folder of a container that is not being removed.
func (p *place) workspace() (*os.Root, error) {
	p.mu.Lock()
	ws, gone := p.ws, p.gone
	p.mu.Unlock()
	if gone != nil {
		return nil, gone
	}
	if ws == nil {
		return nil, fs.ErrNotExist
	}
	return os.OpenRoot(ws.Dir)
}

// tidyBehind removes the rows of files that are gone, where there are so many that lists are held up by them. A file
// that comes back after that is a new one.
func (s *Service) tidyBehind(id string) {
	p := s.known(id)
	if p == nil {
		return
	}
	s.later(func() {
		root, err := p.workspace()
		if err != nil {
			return
		}
		defer root.Close()
		for after := ""; err == nil; {
			var rows []fileRow
			rows, err = s.fileRows(s.ctx, fmt.Sprintf(`container = $1 AND id > $2 ORDER BY id LIMIT %d`, mintBatch), p.id, after)
			if len(rows) == 0 {
				break
			}
			after = rows[len(rows)-1].id
			rows = slices.DeleteFunc(rows, func(f fileRow) bool { _, ok := regular(root, f.path); return ok })
			if err == nil && len(rows) > 0 {
				err = s.dropFileRows(s.ctx, root, rows)
			}
		}
		if err != nil && s.ctx.Err() == nil {
			s.log.Warn("the rows of files that are gone could not be removed", "container", p.id, "error", err)
		}
	})
}

// walk returns the regular files of a workspace, the shallow ones first. It looks at so many entries at most, and says
// whether those were all.
func walk(ctx context.Context, root *os.Root, most int) (files []string, all bool, err error) {
	level := []string{"."}
	for len(level) > 0 {
		var below []string
		for _, dir := range level {
			if err := context.Cause(ctx); err != nil {
				return nil, false, err
			}
			err := eachEntry(root, dir, func(e fs.DirEntry) bool {
				if most--; most < 0 {
					return false
				}
				rel := path.Join(dir, e.Name())
				switch {
				case strings.HasPrefix(e.Name(), incomingPrefix):
				case e.IsDir():
					below = append(below, rel)
				case e.Type().IsRegular():
					files = append(files, rel)
				}
				return true
			})
			if err != nil && dir == "." {
				return nil, false, err
			}
			if most < 0 {
				return files, false, nil
			}
		}
		level = below
	}
	return files, true, nil
}

// eachEntry reads a folder piece by piece, until each says that it is enough. The folder is opened inside the root
// without following what it has become meanwhile out of it.
func eachEntry(root *os.Root, dir string, each func(fs.DirEntry) bool) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(512)
		for _, e := range entries {
			if !each(e) {
				return nil
			}
		}
		if len(entries) == 0 || err != nil {
			return nil // a folder that goes away while it is read is an empty one
		}
	}
}
