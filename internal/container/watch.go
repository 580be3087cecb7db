package container

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

const (
	// maxSpan bounds the paths that one command is remembered by, and maxNews those that wait for the next listing.
	// Beyond it the list is partial, or the next listing walks.
	maxSpan = 10_000
	maxNews = maxKnown
	// maxWatches bounds the folders of a workspace that are watched. The kernel's own bound is per user, and one
	// container must not take all of it.
	maxWatches = 16_384
	// maxScan bounds the entries that are looked at for one command's end. The rest is looked at in the background.
	maxScan = 4_096
)

// tree is a watched workspace. A nil tree watches nothing and says so.
type tree struct {
	n    *notifier
	root *os.Root

	scanning sync.Mutex // one scan at a time

	// Under n.mu:
	dirs    map[string]int32 // watched folders and their watch
	spans   map[*span]struct{}
	fresh   map[string]struct{} // changed since the last listing
	missing bool                // fresh does not hold all of it
	blind   bool                // some folder is not watched
	todo    []scan
	queued  bool // for the background
	removed bool
}

// scan is a folder to watch and look through.
type scan struct {
	rel   string
	since time.Time // files changed since then are news; the zero time is all, noNews none
}

var noNews = time.Unix(math.MaxInt32, 0)

// span is the time of one command: what changes in it is the command's. A command that runs at the same time as
// another shares the changes with it, since files do not say who wrote them.
type span struct {
	tree    *tree
	begun   time.Time
	paths   map[string]struct{}
	partial bool
}

// changes are what a span saw.
type changes struct {
	paths   []string
	partial bool
}

// clockGrain is what a file's change time may lie behind the clock: file systems stamp with the timer's tick.
const clockGrain = 20 * time.Millisecond

// open begins a span.
func (t *tree) open() *span {
	p := &span{tree: t, begun: time.Now().Add(-clockGrain), paths: map[string]struct{}{}}
	if t == nil {
		p.partial = true
		return p
	}
	t.settle(maxScan)
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	t.spans[p] = struct{}{}
	return p
}

// close ends a span and returns what changed in it. Everything that had happened by now is in it.
func (p *span) close() changes {
	t := p.tree
	if t == nil {
		return changes{partial: true}
	}
	t.settle(maxScan)
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	delete(t.spans, p)
	c := changes{partial: p.partial || t.blind || len(t.todo) > 0 || t.removed}
	for rel := range p.paths {
		c.paths = append(c.paths, rel)
	}
	return c
}

// own takes a path out of the changes: we wrote it ourselves.
func (t *tree) own(rel string) {
	if t == nil {
		return
	}
	t.settle(maxScan)
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	delete(t.fresh, rel)
	for p := range t.spans {
		delete(p.paths, rel)
	}
}

// news returns what changed since it was asked last, so many paths at most and whether there are more. It is complete
// where nothing else can have changed.
func (t *tree) news(most int) (paths []string, complete, more bool) {
	if t == nil {
		return nil, true, false // nothing ran: what there is we wrote ourselves, or an earlier walk has seen
	}
	t.settle(maxScan)
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	for rel := range t.fresh {
		if len(paths) == most {
			break
		}
		paths = append(paths, rel)
		delete(t.fresh, rel)
	}
	complete = !t.missing && !t.blind && len(t.todo) == 0
	t.missing = false
	return paths, complete, len(t.fresh) > 0
}

// missed makes the next news incomplete: those of the last time were not kept.
func (t *tree) missed() {
	if t == nil {
		return
	}
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	t.missing = true
}

// note adds a change. It needs n.mu.
func (t *tree) note(rel string) {
	if strings.HasPrefix(path.Base(rel), incomingPrefix) {
		return
	}
	if len(t.fresh) < maxNews {
		t.fresh[rel] = struct{}{}
	} else {
		t.missing = true
	}
	for p := range t.spans {
		if len(p.paths) < maxSpan {
			p.paths[rel] = struct{}{}
		} else if _, ok := p.paths[rel]; !ok {
			p.partial = true
		}
	}
}

// overflowed notes that the kernel dropped events. One walk finds the folders that are not watched yet and the files
// that have changed since the oldest span began. It needs n.mu.
func (t *tree) overflowed() {
	t.missing = true
	since := noNews
	for p := range t.spans {
		p.partial = true
		if p.begun.Before(since) {
			since = p.begun
		}
	}
	t.todo = []scan{{rel: ".", since: since}}
	t.n.queue(t)
}

// settle takes in every event that has happened, and looks through new folders, up to a number of entries. What is
// left is done in the background.
func (t *tree) settle(most int) {
	t.scanning.Lock()
	defer t.scanning.Unlock()
	for {
		t.n.drain()
		t.n.mu.Lock()
		if len(t.todo) == 0 || t.removed {
			t.n.mu.Unlock()
			return
		}
		if most <= 0 {
			t.n.mu.Unlock()
			t.n.background(t)
			return
		}
		next := t.todo[0]
		t.todo = t.todo[1:]
		t.n.mu.Unlock()
		most -= t.look(next)
	}
}

// look watches a folder and notes what is in it; folders below it are to be looked at next. It returns how many
// entries it saw. The watch comes first: what is made after it makes an event, what was made before is seen.
func (t *tree) look(s scan) int {
	dir, err := t.root.Open(s.rel)
	if err != nil {
		if !os.IsNotExist(err) {
			t.n.mu.Lock()
			t.blind = true
			t.n.mu.Unlock()
		}
		return 1
	}
	defer dir.Close()
	t.n.mu.Lock()
	if t.removed {
		t.n.mu.Unlock()
		return 1
	}
	if !t.n.watchDir(t, dir, s.rel) {
		t.blind = true
	}
	t.n.mu.Unlock()
	seen := 1
	for {
		entries, err := dir.ReadDir(512)
		seen += len(entries)
		t.notice(s, entries)
		if len(entries) == 0 || err != nil {
			return seen
		}
	}
}

func (t *tree) notice(s scan, entries []fs.DirEntry) {
	var files, folders []string
	for _, e := range entries {
		switch rel := path.Join(s.rel, e.Name()); {
		case e.IsDir():
			folders = append(folders, rel)
		case e.Type().IsRegular() && s.since != noNews && changedSince(e, s.since):
			files = append(files, rel)
		}
	}
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	for _, rel := range files {
		t.note(rel)
	}
	for _, rel := range folders {
		t.todo = append(t.todo, scan{rel: rel, since: s.since})
	}
}

func changedSince(e fs.DirEntry, since time.Time) bool {
	if since.IsZero() {
		return true
	}
	info, err := e.Info()
	return err == nil && !changeTime(info).Before(since)
}
