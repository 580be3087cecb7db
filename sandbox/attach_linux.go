package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// record is the content of the report file: what a later owner must know.
type record struct {
	Report  Report    `json:"report"`
	Jail    bool      `json:"jail"`
	UID     int       `json:"uid"`
	Groups  []string  `json:"groups,omitempty"`
	Tmp     string    `json:"tmp,omitempty"` // TMPDIR of the commands
	Version uint32    `json:"version"`       // of the protocol; 0 is 2, which did not write it
	Process processID `json:"process"`
	Lasting bool      `json:"lasting"` // it outlives its owner
}

// processID names a process for good: its number may come to be another's.
type processID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // ticks after the machine's start
	Boot  string `json:"boot"`
}

func readRecord(dir string) (r record, err error) {
	text, err := os.ReadFile(filepath.Join(dir, reportName))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if r.Version == 0 {
		r.Version = resident.Oldest
	}
	return r, err
}

// draft writes the report beside its place, while the resident comes up.
func (b *Box) draft(l *layout, undo *cleanup.Stack) error {
	if b.once {
		return nil
	}
	undo.Add(func() { os.Remove(filepath.Join(b.dir, draftName)) })
	return b.write(l)
}

// save puts the report into its place, with what the resident had to say.
func (b *Box) save(l *layout) error {
	b.report.Missing = append(b.report.Missing, b.notes...)
	if b.once {
		return nil
	}
	if len(b.notes) > 0 {
		if err := b.write(l); err != nil {
			return err
		}
	}
	err := os.Rename(filepath.Join(b.dir, draftName), filepath.Join(b.dir, reportName))
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the box's report cannot be written")
	}
	return nil
}

func (b *Box) write(l *layout) error {
	b.self = identifyProcess(b.pid)
	r := record{Lasting: b.lasting, Report: b.report, Jail: l.Jail, UID: l.id.host, Groups: b.groups.dirs, Tmp: b.tmp, Version: b.version, Process: b.self}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = writeOwn(filepath.Join(b.dir, draftName), append(text, '\n'))
	}
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the box's report cannot be written")
	}
	return nil
}

// keep tells the resident that it may outlive us now: a later owner finds what it needs. Until then it ends with us, so
// that half of a box is never left behind.
func (b *Box) keep() error {
	if b.version < 3 || !b.lasting {
		return nil
	}
	return b.send([]byte{byte(resident.KindKeep)}, nil)
}

func (s *Spec) protocol() uint32 {
	if s.Protocol != 0 {
		return s.Protocol
	}
	return resident.Version
}

// Attach connects to a living resident of a state folder, as its new owner. What became of a call is asked by
// [Box.Find]; those that go on are in [Box.Live]. The error is a [fault.NotFound] when the resident is gone, a
// [fault.Conflict] when an owner with a higher fence has been there, a [fault.Unsupported] when it speaks a version of
// the protocol that we don't: then [End] can end it.
func Attach(ctx context.Context, dir string, fence uint64) (*Box, error) {
	fd, err := dialControl(dir)
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "no sandbox lives in %s", dir)
	}
	conn, err := asConn(fd)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the control socket is not to be used")
	}
	saved, err := readRecord(dir)
	switch {
	case err != nil:
		err = fault.Wrap(fault.Unsupported, err, "the box's report is not to be read")
	case saved.Version < resident.Oldest || saved.Version > resident.Version:
		err = fault.New(fault.Unsupported, "the sandbox in %s speaks version %d of the protocol, and we speak %d to %d", dir,
			saved.Version, resident.Oldest, resident.Version)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	b := newBox(dir, conn, saved.Jail, saved.UID)
	b.report, b.groups.dirs, b.version, b.tmp, b.self = saved.Report, saved.Groups, saved.Version, saved.Tmp, saved.Process
	if err = b.send(resident.Hello{Version: b.version, Fence: fence}.Append(nil), nil); err == nil {
		limited, cancel := context.WithTimeoutCause(ctx, startLimit, fault.New(fault.Unavailable, "the sandbox did not answer within %v", startLimit))
		defer cancel()
		err = b.greeted(limited)
	}
	if err != nil {
		conn.Close()
		b.letGo()
		return nil, err
	}
	go b.listen()
	return b, nil
}

// Live returns the calls that go on.
func (b *Box) Live() []*process.Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs := make([]*process.Job, 0, len(b.keys))
	for _, c := range b.keys {
		jobs = append(jobs, c.job)
	}
	return jobs
}

// LastEnd is when the last call had ended that ended before we came to own the box; zero is none, or not known.
func (b *Box) LastEnd() time.Time { return b.lastEnd }

// Rest ends the box if nothing lives in it: no call goes on, and no call left a process behind. It says whether it did.
// Nothing is lost then, and [Known] forgets the box. The caller starts nothing meanwhile.
func (b *Box) Rest() (bool, error) {
	answer := make(chan bool, 1)
	b.mu.Lock()
	if b.gone != nil || b.version < 3 || len(b.keys) > 0 || b.resting != nil {
		defer b.mu.Unlock()
		return false, nil
	}
	b.resting = answer
	b.mu.Unlock()
	if err := b.send([]byte{byte(resident.KindRest)}, nil); err != nil || !<-answer {
		return false, err
	}
	err := b.Close()
	if err == nil {
		err = b.unknow()
	}
	return true, err
}

// unknow removes the report of this box, which has ended. Another box may live in the folder by now, or have lived: its
// report stays. None comes while we look, for we hold what it would need.
func (b *Box) unknow() error {
	log, err := unix.Open(filepath.Join(b.dir, logName), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err == nil {
		defer unix.Close(log)
		err = unix.Flock(log, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == unix.ENOENT || err == unix.EWOULDBLOCK {
		return nil // the folder is gone, or somebody's
	}
	saved, unread := readRecord(b.dir)
	if err = cmp.Or(err, unread); err == nil && saved.Process == b.self {
		err = os.Remove(filepath.Join(b.dir, reportName))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// rests takes the answer to Rest's question.
func (b *Box) rests(yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.resting != nil {
		b.resting <- yes
		b.resting = nil
	}
}

// Find says what became of a command, of which it reads Key, Index, Lease and Fence only, and returns its job if it was
// ever started. It starts nothing. After a Never no earlier owner of the lease can start it, for their fence is lower.
func (b *Box) Find(ctx context.Context, c process.Command) (*process.Job, Found, error) {
	if err := resident.CheckKey(c.Key); err != nil {
		return nil, Never, fault.Wrap(fault.Invalid, err, "the command has no usable key")
	}
	if err := context.Cause(ctx); err != nil {
		return nil, Never, err
	}
	path := at(c.Key, uint32(c.Index))
	if b.version < 3 { // it has no word for that, and its folders are enough for one owner
		b.mu.Lock()
		living := b.keys[path]
		b.mu.Unlock()
		if living != nil {
			return living.job, Running, nil
		}
		return Recall(b.dir, c.Key, c.Index)
	}
	number, q, err := b.ask(path)
	if err != nil {
		return nil, Never, err
	}
	message := resident.Find{Request: number, Key: c.Key, Index: uint32(c.Index), Lease: c.Lease, Fence: c.Fence}
	if err := b.send(message.Append(nil), nil); err != nil {
		b.drop(number, path, q.call)
		return nil, Never, err
	}
	reply, ok := <-q.answer // a resident waits for nobody
	if ok && reply.State == resident.StateRunning {
		return q.call.job, Running, nil
	}
	b.drop(number, path, q.call)
	switch {
	case !ok:
		return nil, Never, b.why()
	case reply.State == resident.StateStale:
		return nil, Never, stale()
	case reply.State == resident.StatePast:
		return Recall(b.dir, c.Key, c.Index)
	case reply.State == resident.StateNever:
		return nil, Never, nil
	}
	return nil, Never, fault.New(fault.Unavailable, "the command was not looked for: %s", reply.Error)
}

// why is the reason for which no answer comes any more.
func (b *Box) why() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gone
}

// Recall looks for a command in the state folder of a box that nobody lives in any more, or that says that the command
// has ended. It is [Box.Find] without a resident, and cannot hold off an earlier owner.
func Recall(dir, key string, index int) (*process.Job, Found, error) {
	if err := resident.CheckKey(key); err != nil {
		return nil, Never, fault.Wrap(fault.Invalid, err, "the command has no usable key")
	}
	folder := filepath.Join(dir, jobsName, at(key, uint32(index)))
	if _, err := os.Lstat(folder); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, Never, nil
		}
		return nil, Never, fault.Wrap(fault.Internal, err, "the job's folder cannot be looked at")
	}
	job := process.New(folder, func() {})
	return job, recall(folder, job), nil
}

// recall tells a job how a call ended that the resident has forgotten: its folder knows. Of one that was interrupted
// it knows what was written until then.
func recall(dir string, job *process.Job) Found {
	var e resident.Exit
	text, err := os.ReadFile(filepath.Join(dir, resident.FileExit))
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		if info, err := os.Stat(filepath.Join(dir, resident.FileOrder)); err == nil {
			job.Grew(info.Size() / resident.OrderSize * resident.OrderSize)
		}
		job.Lost(fault.Wrap(fault.Unavailable, err, "the command was interrupted"))
		return Interrupted
	}
	job.Grew(e.Order)
	job.End(exitOf(e))
	return Ended
}

func exitOf(e resident.Exit) process.Exit {
	return process.Exit{Code: e.Code, Error: e.Error, Signal: e.Signal, TimedOut: e.TimedOut, Cancelled: e.Cancelled,
		OutOfMemory: e.OutOfMemory, Limit: e.Limit, Started: time.Unix(0, e.Started), Ended: time.Unix(0, e.Ended), Stdout: e.Stdout, Stderr: e.Stderr,
		StdoutLost: e.StdoutLost, StderrLost: e.StderrLost}
}

// End ends a resident of a state folder that nobody can or wants to attach to, and all that it runs, whatever version of
// the protocol it speaks. Without one it does nothing. An owner with a higher fence is a [fault.Conflict], and so is the
// owner of a box without grace: both still care for it.
func End(ctx context.Context, dir string, fence uint64) error {
	saved, unread := readRecord(dir)
	living := saved.Process.open()
	if living >= 0 {
		defer unix.Close(living)
	}
	fd, err := dialControl(dir)
	if err == nil {
		conn, err := asConn(fd)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the control socket is not to be used")
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(endLimit))
		defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
		goodbye := resident.End{Fence: fence}.Append(nil)
		if saved.Version == 2 && unread == nil { // which has no word for it that a guest may say
			goodbye = resident.Hello{Version: 2, Fence: fence}.Append(nil)
		}
		conn.Write(goodbye)
		buf := make([]byte, resident.MaxPacket)
		for {
			n, err := conn.Read(buf)
			if err != nil || n == 0 {
				break
			}
			switch resident.Kind(buf[0]) {
			case resident.KindRefused:
				return fault.New(fault.Conflict, "the sandbox refused to end: %s", buf[1:n]).WithCode(codeHandedOver)
			case resident.KindReady:
				conn.Write([]byte{byte(resident.KindShutdown)})
			}
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
	}
	if living >= 0 && saved.Lasting && !isOver(living, endLimit) {
		unix.PidfdSendSignal(living, unix.SIGKILL, nil, 0)
		if !isOver(living, endLimit) {
			return fault.New(fault.Internal, "the sandbox's processes did not end")
		}
	}
	for end := time.Now().Add(endLimit); !deserted(dir); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return inhabited(dir)
		}
	}
	(&groups{dirs: saved.Groups}).remove()
	os.Remove(filepath.Join(dir, controlName))
	return nil
}

// deserted says that no process has the box's socket or its log, which are let go of one after the other.
func deserted(dir string) bool {
	if fd, err := dialControl(dir); err == nil {
		unix.Close(fd)
		return false
	}
	log, err := unix.Open(filepath.Join(dir, logName), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return true
	}
	defer unix.Close(log)
	return unix.Flock(log, unix.LOCK_EX|unix.LOCK_NB) != unix.EWOULDBLOCK
}

// endLimit bounds each step of End. A resident that hears it needs milliseconds.
const endLimit = 5 * time.Second

const (
	codeHandedOver = "handed_over"
	codeStale      = "stale_owner"
)

// handedOver says that this box is no longer ours; what ran in it goes on.
func handedOver(how string) error {
	return fault.New(fault.Conflict, "the sandbox is no longer ours: %s", how).WithCode(codeHandedOver)
}

func stale() error {
	return fault.New(fault.Conflict, "a newer owner has taken this command over; nothing was started").WithCode(codeStale)
}

// identifyProcess names a process that lives now.
func identifyProcess(pid int) processID {
	if pid <= 0 {
		return processID{}
	}
	return processID{PID: pid, Start: startOf(pid), Boot: bootID()}
}

// open returns a pidfd of the process if it still lives, else -1.
func (p processID) open() int {
	if p.PID <= 0 || p.Start == 0 || p.Boot != bootID() {
		return -1
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return -1
	}
	if startOf(p.PID) != p.Start || isOver(fd, 0) {
		unix.Close(fd)
		return -1
	}
	return fd
}

// startOf reads when a process was started; 0 is unknown.
func startOf(pid int) uint64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 { // the 22nd of all
		return 0
	}
	start, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	return start
}

// bootID names this run of the machine.
func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(text))
}

// Known says that a box has lived in a state folder, and did not end by [Box.Rest].
func Known(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, reportName))
	return err == nil
}
