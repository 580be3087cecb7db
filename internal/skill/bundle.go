package skill

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
)

// Entry is a file that is offered for a bundle: a name as it came, with slashes, and its bytes.
type Entry struct {
	Name       string
	Executable bool
	Open       func() (io.ReadCloser, error)
}

// ReadZip lists what a zip holds. Folders are left out; a link or anything else that is no file refuses the whole zip.
func ReadZip(r io.ReaderAt, size int64, l Limits) ([]Entry, error) {
	l = l.filled()
	if size > l.MaxArchive {
		return nil, tooLarge("The zip has %d bytes; %d are possible.", size, l.MaxArchive)
	}
	// A list of files is read whole before any of it can be judged; each takes several times its bytes of memory.
	list := &budget{r, maxDirectory}
	z, err := zip.NewReader(list, size)
	list.left = math.MaxInt64
	if errors.Is(err, errBudget) {
		return nil, tooLarge("The zip's list of files has more than %d bytes.", maxDirectory)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The skill's zip can't be read.").WithCode("invalid_skill")
	}
	var out []Entry
	for _, f := range z.File {
		mode := f.Mode()
		switch {
		case mode.IsDir() || strings.HasSuffix(f.Name, "/"):
			continue
		case mode.Type() != 0:
			return nil, invalid("%q in the zip is no regular file. Links and devices can't be in a skill.", f.Name)
		case f.Flags&1 != 0:
			return nil, invalid("%q in the zip is encrypted.", f.Name)
		case len(out) == l.MaxFiles+ignoredMost:
			return nil, tooLarge("The zip has more than the %d files that a skill may have.", l.MaxFiles)
		}
		// Some tools write bytes of another code page. A name that is no UTF-8 is refused below, not guessed.
		out = append(out, Entry{Name: f.Name, Executable: mode&0o111 != 0, Open: func() (io.ReadCloser, error) { return f.Open() }})
	}
	return out, nil
}

// maxDirectory bounds what a zip says of its files: far more than the names of those that a skill may have.
const maxDirectory = 4 << 20

// budget is a reader that gives so many bytes. It is read by one goroutine while it counts.
type budget struct {
	io.ReaderAt
	left int64
}

var errBudget = errors.New("too many bytes")

func (b *budget) ReadAt(p []byte, off int64) (int, error) {
	if b.left == math.MaxInt64 {
		return b.ReaderAt.ReadAt(p, off)
	}
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errBudget
	}
	return b.ReaderAt.ReadAt(p, off)
}

// ignoredMost is how many files that are left out a zip may have beside those that count.
const ignoredMost = 1000

// ignored are files that archivers leave behind.
func ignored(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(name, "__MACOSX/") || base == ".DS_Store" || base == "Thumbs.db"
}

// bundle is a checked list of files, in the order of their names.
type bundle struct {
	entries []Entry // names are clean and relative to the bundle's root
	limits  Limits
}

// gather checks names. A single folder around everything is taken off, as people zip folders.
func gather(entries []Entry, l Limits) (*bundle, error) {
	b := &bundle{limits: l.filled()}
	for _, e := range entries {
		if ignored(e.Name) {
			continue
		}
		if err := checkName(e.Name); err != nil {
			return nil, err
		}
		b.entries = append(b.entries, e)
	}
	if len(b.entries) > b.limits.MaxFiles {
		return nil, tooLarge("The skill has %d files; %d are possible.", len(b.entries), b.limits.MaxFiles)
	}
	b.unwrap()
	slices.SortFunc(b.entries, func(a, c Entry) int { return strings.Compare(a.Name, c.Name) })
	return b, b.checkTree()
}

// maxPath is the longest name within a bundle.
const maxPath = 512

func checkName(name string) error {
	switch {
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return invalid("The file name %q has characters that a name can't have.", name)
	case strings.Contains(name, `\`):
		return invalid("The file name %q has a backslash; folders are divided by /.", name)
	case len(name) > maxPath:
		return invalid("The file name %.40q… has %d bytes; %d are possible.", name, len(name), maxPath)
	case !fs.ValidPath(name) || name == "." || len(name) > 1 && name[1] == ':':
		return invalid("The file name %q is not a plain relative path.", name).WithTry("names such as scripts/run.sh, without a leading / and without ..")
	}
	return nil
}

// unwrap takes off a folder that holds everything, unless SKILL.md stands beside it.
func (b *bundle) unwrap() {
	if len(b.entries) == 0 {
		return
	}
	top, _, ok := strings.Cut(b.entries[0].Name, "/")
	for _, e := range b.entries {
		if !ok || !strings.HasPrefix(e.Name, top+"/") {
			return
		}
	}
	for i := range b.entries {
		b.entries[i].Name = strings.TrimPrefix(b.entries[i].Name, top+"/")
	}
}

// checkTree refuses what could not stand in one folder together, also in one that does not know upper case.
func (b *bundle) checkTree() error {
	seen := map[string]string{} // folded path → as it was; folders end in /
	manifest := false
	for _, e := range b.entries {
		manifest = manifest || e.Name == ManifestFile
		folded := strings.ToLower(e.Name)
		if other, ok := seen[folded]; ok {
			return invalid("The skill has both %q and %q.", other, e.Name)
		}
		seen[folded] = e.Name
		for dir := path.Dir(folded); dir != "."; dir = path.Dir(dir) {
			seen[dir+"/"] = e.Name
		}
	}
	for folded, name := range seen {
		if other, ok := seen[folded+"/"]; ok {
			return invalid("%q is both a file and a folder, of %q.", name, other)
		}
	}
	if !manifest {
		return invalid("The skill has no %s at its root.", ManifestFile)
	}
	return nil
}

// pack writes the bundle as a zip that is the same whenever its files are, and reads its manifest. It counts the bytes
// that really come, whatever a header says.
func (b *bundle) pack(w io.Writer) (m Manifest, total int64, err error) {
	z := zip.NewWriter(w)
	for _, e := range b.entries {
		h := &zip.FileHeader{Name: e.Name, Method: zip.Deflate, Modified: packedAt}
		h.SetMode(fileMode(e.Executable))
		to, err := z.CreateHeader(h)
		if err != nil {
			return m, 0, fmt.Errorf("pack skill: %w", err)
		}
		var text bytes.Buffer
		if e.Name == ManifestFile {
			to = io.MultiWriter(to, &limitedWriter{&text, maxManifest + 1})
		}
		n, err := b.copy(to, e, b.limits.MaxBytes-total)
		if err != nil {
			return m, 0, err
		}
		total += n
		if e.Name == ManifestFile {
			if m, err = readManifest(text.Bytes()); err != nil {
				return m, 0, err
			}
		}
	}
	if err := z.Close(); err != nil {
		return m, 0, fmt.Errorf("pack skill: %w", err)
	}
	return m, total, nil
}

// packedAt is the time that every packed file has; the least that a zip can tell.
var packedAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func fileMode(executable bool) fs.FileMode {
	if executable {
		return 0o755
	}
	return 0o644
}

// copy copies one file within the bounds.
func (b *bundle) copy(to io.Writer, e Entry, room int64) (int64, error) {
	r, err := e.Open()
	if err != nil {
		return 0, unreadable(e.Name, err)
	}
	defer r.Close()
	n, err := io.Copy(to, io.LimitReader(r, min(b.limits.MaxFile, room)+1))
	switch {
	case n > b.limits.MaxFile:
		return 0, tooLarge("%q has more than the %d bytes that a file of a skill may have.", e.Name, b.limits.MaxFile)
	case n > room:
		return 0, tooLarge("The skill's files have more than %d bytes together.", b.limits.MaxBytes)
	case err != nil:
		return 0, unreadable(e.Name, err)
	}
	return n, nil
}

// unreadable is the fault of a zip whose entry cannot be read; another error is ours.
func unreadable(name string, err error) error {
	if errors.Is(err, zip.ErrFormat) || errors.Is(err, zip.ErrChecksum) || errors.Is(err, zip.ErrAlgorithm) ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.HasPrefix(err.Error(), "flate: ") {
		return fault.Wrap(fault.Invalid, err, "%q in the zip can't be unpacked.", name).WithCode("invalid_skill")
	}
	return fmt.Errorf("read %q of a skill: %w", name, err)
}

func tooLarge(format string, args ...any) error {
	return fault.New(fault.TooLarge, format, args...).WithCode("skill_too_large")
}

// limitedWriter keeps the first bytes and drops the rest.
type limitedWriter struct {
	b    *bytes.Buffer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.b.Write(p[:n])
	l.left -= n
	return len(p), nil
}
