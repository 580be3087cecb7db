package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
)

// Options are what a Service is made of. DB and Blobs are required.
type Options struct {
	DB     *store.DB
	Blobs  *blob.Stores
	Limits Limits
	Clock  func() time.Time // nil is time.Now
	Logger *slog.Logger     // nil discards
}

// Service keeps the files of one database.
type Service struct {
	db     *store.DB
	blobs  *blob.Stores
	limits Limits
	now    func() time.Time
	log    *slog.Logger

	stop context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex
	open map[string]struct{} // uploads of this process
}

// New opens the files. Uploads that an earlier process did not finish are removed.
func New(ctx context.Context, o Options) (*Service, error) {
	s := &Service{db: o.DB, blobs: o.Blobs, limits: o.Limits, now: o.Clock, log: o.Logger, open: map[string]struct{}{}}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.limits.MaxBytes <= 0 {
		s.limits.MaxBytes = 512 << 20
	}
	if err := s.db.Migrate(ctx, "file", migrations); err != nil {
		return nil, fmt.Errorf("open files: %w", err)
	}
	// The service outlives the context that opened it: Close ends it.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.wg.Go(func() { s.sweepUntil(running) })
	return s, nil
}

// Close ends the sweeper and waits for it.
func (s *Service) Close() {
	s.stop()
	s.wg.Wait()
}

// Upload is what a client says of a file. The zero time never expires.
type Upload struct {
	Name    string
	Purpose string
	Expires time.Duration // after it was created; 0 is never
}

// maxName is the longest name of a file, in bytes: a file system's own bound.
const maxName = 255

// The vendor's bounds of a file's life.
const (
	minLife = time.Hour
	maxLife = 30 * 24 * time.Hour
)

// Check says what is wrong with an upload before its bytes are read.
func (u Upload) Check() error {
	invalid := func(param, format string, args ...any) error {
		return fault.New(fault.Invalid, format, args...).WithParam(param)
	}
	switch {
	case u.Purpose == "":
		return fault.New(fault.Invalid, "An upload needs a purpose.").WithCode("missing_required_parameter").WithParam("purpose").
			WithTry("user_data")
	case !slices.Contains(Purposes, u.Purpose):
		return invalid("purpose", "purpose must be one of %s, not %q.", strings.Join(Purposes, ", "), u.Purpose)
	case u.Name == "":
		return invalid("file", "The file has no name.")
	case len(u.Name) > maxName:
		return invalid("file", "The file's name has %d bytes; %d are possible.", len(u.Name), maxName)
	case !utf8.ValidString(u.Name) || strings.IndexByte(u.Name, 0) >= 0:
		return invalid("file", "The file's name must be valid UTF-8 without NUL.")
	case u.Expires != 0 && (u.Expires < minLife || u.Expires > maxLife):
		return invalid("expires_after.seconds", "expires_after.seconds must be from %d to %d.", minLife/time.Second, maxLife/time.Second)
	}
	return nil
}

// A Draft is an upload whose bytes are kept and which is no file yet: a form may tell the purpose after the bytes.
type Draft struct {
	s    *Service
	file File
	done bool
}

// Begin keeps the bytes of an upload. Commit makes them a file; Discard, which may always be called, removes what was
// not committed.
func (s *Service) Begin(ctx context.Context, org string, r io.Reader) (*Draft, error) {
	room, err := s.room(ctx, org)
	if err != nil {
		return nil, err
	}
	backend, bytes := s.blobs.Current()
	f := File{ID: id.At(id.File, s.now()), Org: org, Created: time.UnixMilli(s.now().UnixMilli()), backend: backend}
	s.mark(f.ID, true)
	if err := s.insert(ctx, f); err != nil {
		s.mark(f.ID, false)
		return nil, err
	}
	d := &Draft{s: s, file: f}
	counted := &bounded{r: r, left: min(s.limits.MaxBytes, room)}
	f.Bytes, err = bytes.Put(ctx, key(f.ID), counted)
	switch {
	case counted.over && room < s.limits.MaxBytes:
		err = overQuota(s.limits.MaxOrgBytes)
	case counted.over:
		err = fault.New(fault.TooLarge, "The file has more than the %d bytes that are allowed.", s.limits.MaxBytes).WithCode("file_too_large")
	}
	if err != nil {
		d.Discard(ctx)
		return nil, err
	}
	d.file = f
	return d, nil
}

// bounded reads at most so many bytes, and fails beyond them.
type bounded struct {
	r    io.Reader
	left int64
	over bool
}

var errOver = errors.New("the limit on bytes was passed")

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if int64(n) > b.left {
		b.over = true
		return int(b.left), errOver
	}
	b.left -= int64(n)
	return n, err
}

func overQuota(limit int64) error {
	return fault.New(fault.RateLimited, "The files of this organisation may take %d bytes in all.", limit).
		WithCode("organization_bytes_exceeded").WithTry("delete files that are not needed")
}

// room is what an organisation may still upload.
func (s *Service) room(ctx context.Context, org string) (int64, error) {
	if s.limits.MaxOrgBytes <= 0 {
		return 1<<62 - 1, nil
	}
	used, err := s.used(ctx, org)
	if err != nil {
		return 0, err
	}
	if used >= s.limits.MaxOrgBytes {
		return 0, overQuota(s.limits.MaxOrgBytes)
	}
	return s.limits.MaxOrgBytes - used, nil
}

// Commit makes the draft a file.
func (d *Draft) Commit(ctx context.Context, u Upload) (File, error) {
	if err := u.Check(); err != nil {
		return File{}, err
	}
	f := d.file
	f.Name, f.Purpose = u.Name, u.Purpose
	if u.Expires > 0 {
		f.Expires = f.Created.Add(u.Expires)
	}
	if err := d.s.keep(ctx, f); err != nil {
		return File{}, err
	}
	d.done = true
	d.s.mark(f.ID, false)
	return f, nil
}

// Discard removes a draft that was not committed.
func (d *Draft) Discard(ctx context.Context) {
	if d.done {
		return
	}
	d.done = true
	d.s.mark(d.file.ID, false)
	// The client may be gone; its bytes go too.
	d.s.remove(context.WithoutCancel(ctx), d.file)
}

func (s *Service) mark(id string, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.open[id] = struct{}{}
	} else {
		delete(s.open, id)
	}
}

func key(id string) string { return "file/" + id }

// Get returns a file.
func (s *Service) Get(ctx context.Context, org, fileID string) (File, error) {
	if !id.Valid(id.File, fileID) {
		return File{}, absent(fileID)
	}
	return s.row(ctx, org, fileID)
}

func absent(id string) error {
	return fault.New(fault.NotFound, "File %q was not found.", id).WithCode("file_not_found")
}

// Open returns a file and its bytes. A read of bytes that are gone is an error, never an early end.
func (s *Service) Open(ctx context.Context, org, fileID string) (io.ReadSeekCloser, File, error) {
	f, err := s.Get(ctx, org, fileID)
	if err != nil {
		return nil, File{}, err
	}
	bytes, err := s.blobs.Named(f.backend)
	if err != nil {
		return nil, File{}, err
	}
	content := blob.NewSection(ctx, bytes, key(f.ID), 0, f.Bytes)
	if err := content.Ready(); err != nil {
		return nil, File{}, err
	}
	return content, f, nil
}

// Upload keeps the bytes of r and makes them a file of what told then says of it.
func (s *Service) Upload(ctx context.Context, org string, r io.Reader, told func() (Upload, error)) (File, error) {
	d, err := s.Begin(ctx, org, r)
	if err != nil {
		return File{}, err
	}
	defer d.Discard(ctx)
	u, err := told()
	if err != nil {
		return File{}, err
	}
	return d.Commit(ctx, u)
}

// MaxBytes is the most that one file may have.
func (s *Service) MaxBytes() int64 { return s.limits.MaxBytes }

// Delete removes a file and its bytes. From its answer on the file is not found, whatever becomes of the bytes: those
// that cannot be removed now are removed by the sweeper.
func (s *Service) Delete(ctx context.Context, org, fileID string) error {
	f, err := s.Get(ctx, org, fileID)
	if err != nil {
		return err
	}
	if err := s.drop(ctx, f.ID); err != nil {
		return err
	}
	s.remove(context.WithoutCancel(ctx), f)
	return nil
}
