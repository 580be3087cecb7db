package container

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// notifier is one inotify instance for all workspaces: the kernel allows a user 128 of them. Its queue is read as it
// fills, and at a command's end to its end, so that nothing that has happened is missing then.
type notifier struct {
	log  *slog.Logger
	file *os.File // nil when the kernel gave none
	fd   int      // file's: its own Fd would make it block
	conn syscall.RawConn
	wg   sync.WaitGroup
	wake chan struct{} // a tree has more to look at than a command's end has time for

	mu     sync.Mutex
	closed bool
	buf    []byte
	dirs   map[int32]watched
	trees  map[*tree]struct{}
	behind []*tree
}

// watched is a watched folder.
type watched struct {
	tree *tree
	rel  string
}

// events are what a folder is watched for. A file counts as changed when it appears, and when somebody who could write
// closes it; single writes would be an event each, and a program that writes byte by byte would flood the queue.
const events = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

func newNotifier(log *slog.Logger) *notifier {
	n := &notifier{log: log, wake: make(chan struct{}, 1), buf: make([]byte, 64<<10), dirs: map[int32]watched{}, trees: map[*tree]struct{}{}}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		log.Warn("workspaces cannot be watched, lists of changed files will be partial", "error", err)
		n.closed = true
		return n
	}
	n.fd, n.file = fd, os.NewFile(uintptr(fd), "inotify")
	if n.conn, err = n.file.SyscallConn(); err != nil {
		n.file.Close()
		n.closed = true
		return n
	}
	n.wg.Go(n.readUntilClosed)
	n.wg.Go(n.lookUntilClosed)
	return n
}

func (n *notifier) close() {
	n.mu.Lock()
	closed := n.closed
	n.closed = true
	n.mu.Unlock()
	if closed {
		return
	}
	n.file.Close()
	close(n.wake)
	n.wg.Wait()
}

// add watches a folder. It answers nil when nothing can be watched.
func (n *notifier) add(dir string) *tree {
	root, err := os.OpenRoot(dir)
	if err != nil {
		n.log.Warn("a workspace cannot be watched", "error", err)
		return nil
	}
	t := &tree{n: n, root: root, dirs: map[string]int32{}, spans: map[*span]struct{}{}, fresh: map[string]struct{}{},
		todo: []scan{{rel: ".", since: noNews}}}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		root.Close()
		return nil
	}
	n.trees[t] = struct{}{}
	n.mu.Unlock()
	t.settle(1) // the folder itself, before anything runs in it
	return t
}

// remove ends the watching of a tree. What spans of it are open become partial.
func (n *notifier) remove(t *tree) {
	if t == nil {
		return
	}
	t.scanning.Lock()
	defer t.scanning.Unlock()
	n.drain()
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.removed {
		return
	}
	t.removed = true
	n.forget(t, ".")
	delete(n.trees, t)
	t.root.Close()
}

// watchDir watches an open folder under its name. It needs n.mu. The folder is named by its descriptor, so that a
// link that was put in its place leads nowhere.
func (n *notifier) watchDir(t *tree, dir *os.File, rel string) bool {
	if n.closed {
		return false
	}
	if _, ok := t.dirs[rel]; !ok && len(t.dirs) >= maxWatches {
		return false
	}
	wd, err := unix.InotifyAddWatch(n.fd, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), events)
	if err != nil {
		return false
	}
	id := int32(wd)
	if old, ok := n.dirs[id]; ok && (old.tree != t || old.rel != rel) {
		delete(old.tree.dirs, old.rel) // it was moved here
	}
	if old, ok := t.dirs[rel]; ok && old != id {
		delete(n.dirs, old)
		unix.InotifyRmWatch(n.fd, uint32(old))
	}
	n.dirs[id], t.dirs[rel] = watched{t, rel}, id
	return true
}

// forget stops watching a folder and what is below it. It needs n.mu.
func (n *notifier) forget(t *tree, rel string) {
	for dir, wd := range t.dirs {
		if rel == "." || dir == rel || strings.HasPrefix(dir, rel+"/") {
			delete(t.dirs, dir)
			delete(n.dirs, wd)
			if !n.closed {
				unix.InotifyRmWatch(n.fd, uint32(wd))
			}
		}
	}
}

// background has a tree looked through off the request path.
func (n *notifier) background(t *tree) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue(t)
}

// queue is background under n.mu.
func (n *notifier) queue(t *tree) {
	if n.closed || t.queued {
		return
	}
	t.queued = true
	n.behind = append(n.behind, t)
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notifier) lookUntilClosed() {
	for range n.wake {
		for {
			n.mu.Lock()
			if len(n.behind) == 0 || n.closed {
				n.mu.Unlock()
				break
			}
			t := n.behind[0]
			n.behind = n.behind[1:]
			t.queued = false
			n.mu.Unlock()
			t.settle(maxScan) // queues itself again while there is more
		}
	}
}

func (n *notifier) readUntilClosed() {
	for {
		if n.conn.Read(func(uintptr) bool { return n.drain() }) != nil {
			return // closed
		}
	}
}

// drain takes in all events that are queued, and says whether there were any.
func (n *notifier) drain() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	some := false
	for !n.closed {
		c, err := unix.Read(n.fd, n.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || c <= 0 {
			return some
		}
		some = true
		for p := n.buf[:c]; len(p) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(p))
			mask := binary.NativeEndian.Uint32(p[4:])
			length := binary.NativeEndian.Uint32(p[12:])
			name, _, _ := bytes.Cut(p[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], []byte{0})
			n.event(wd, mask, string(name))
			p = p[unix.SizeofInotifyEvent+length:]
		}
	}
	return true // nothing will come any more
}

// event takes in one event. It needs n.mu.
func (n *notifier) event(wd int32, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		n.log.Warn("too many changes at once in the workspaces, lists of changed files will be partial")
		for t := range n.trees {
			t.overflowed()
		}
		return
	}
	w, ok := n.dirs[wd]
	if !ok {
		return
	}
	if mask&unix.IN_IGNORED != 0 { // the folder is gone
		delete(n.dirs, wd)
		delete(w.tree.dirs, w.rel)
		return
	}
	if name == "" {
		return
	}
	rel := path.Join(w.rel, name)
	switch folder := mask&unix.IN_ISDIR != 0; {
	case folder && mask&unix.IN_MOVED_FROM != 0:
		n.forget(w.tree, rel)
	case folder && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		w.tree.todo = append(w.tree.todo, scan{rel: rel})
		n.queue(w.tree)
	case !folder && mask&(unix.IN_CREATE|unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO) != 0:
		w.tree.note(rel)
	}
}

// changeTime is when the kernel last saw the file change; no program can set it.
func changeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}
