package resident

import "golang.org/x/sys/unix"

// maxLeases bounds how many leases' fences are remembered, and how many ends that the disk did not take. The oldest
// are forgotten first: whoever has been silent for so many others comes too late for more than a key's folder tells him.
const maxLeases = 1024

// leases is what later owners must find although no file holds it.
type leases struct {
	fences  map[string]uint64
	names   []string        // of fences, the oldest first
	ends    map[string]Exit // by path, of calls whose exit file could not be written
	endings []string        // their paths, the oldest first
}

// raise notes a fence. It answers false when a higher one of this lease has been seen. A lease without a name is its key's.
func (l *leases) raise(lease, key string, fence uint64) bool {
	name := "l/" + lease
	if lease == "" {
		if fence == 0 {
			return true
		}
		name = "k/" + key
	}
	highest, known := l.fences[name]
	if fence < highest {
		return false
	}
	if !known {
		if l.fences == nil {
			l.fences = map[string]uint64{}
		}
		if len(l.names) >= maxLeases {
			delete(l.fences, l.names[0])
			l.names = append(l.names[:0], l.names[1:]...)
		}
		l.names = append(l.names, name)
	}
	l.fences[name] = fence
	return true
}

// keep remembers the end of a call.
func (l *leases) keep(at string, e Exit) {
	if l.ends == nil {
		l.ends = map[string]Exit{}
	}
	if len(l.endings) >= maxLeases {
		delete(l.ends, l.endings[0])
		l.endings = append(l.endings[:0], l.endings[1:]...)
	}
	l.endings = append(l.endings, at)
	l.ends[at] = e
}

// find answers an owner's Find.
func (s *server) find(m *Find) {
	reply := Started{Request: m.Request}
	at := path(m.Key, m.Index)
	var st unix.Stat_t
	err := CheckKey(m.Key)
	switch {
	case err != nil:
		reply.State, reply.Error = StateFailed, err.Error()
	case !s.leases.raise(m.Lease, m.Key, m.Fence):
		reply.State = StateStale
	default:
		switch err := unix.Fstatat(fdJobs, at, &st, unix.AT_SYMLINK_NOFOLLOW); err {
		case nil:
			s.found(reply, at)
			return
		case unix.ENOENT:
			reply.State = StateNever
		default:
			reply.State, reply.Error = StateFailed, failed("look for the job's folder", err).Error()
		}
	}
	s.say(reply.append(nil))
}

// found tells of a job whose folder is there.
func (s *server) found(reply Started, at string) {
	reply.State = StatePast
	end, unwritten := s.leases.ends[at]
	if j := s.keys[at]; j != nil {
		reply.State, reply.Job, reply.Order = StateRunning, j.id, j.order
	} else if unwritten { // its folder does not know: it is told as one that ends right now
		s.lastJob++
		reply.State, reply.Job, reply.Order = StateRunning, s.lastJob, end.Order
	}
	s.say(reply.append(nil))
	if unwritten {
		s.say(appendEnded(nil, reply.Job, end, true, s.version))
	}
}

// rest ends us if there is nothing that we are needed for: no call goes on, no process lives, and every end is on the
// disk.
func (s *server) rest() {
	s.reap()
	var info unix.Siginfo
	alone := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
	if !alone || len(s.keys) > 0 || len(s.leases.ends) > 0 {
		s.say([]byte{byte(KindRests), 0})
		return
	}
	s.say([]byte{byte(KindRests), 1})
	s.shutDown()
}
