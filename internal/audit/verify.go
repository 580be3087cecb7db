package audit

import (
	"bufio"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// Report is what [Verify] found.
type Report struct {
	Key      string       `json:"key"`     // fingerprint
	Records  uint64       `json:"records"` // in all files, the list of writers apart
	Writers  FileReport   `json:"writers"` // their list
	Files    []FileReport `json:"files"`
	Problems []string     `json:"problems,omitempty"`
}

// Intact says whether everything is as it was written.
func (r Report) Intact() bool { return len(r.Problems) == 0 }

// FileReport tells of one writer's file.
type FileReport struct {
	Name    string `json:"name"`
	Records uint64 `json:"records"`
	Last    string `json:"last"`           // hash of the last record
	Closed  bool   `json:"closed"`         // its writer ended on purpose
	Torn    int64  `json:"torn,omitempty"` // bytes of a last line that a crash broke off
}

// Verify reads everything and tells what is not as it was written. With an earlier report, which was kept elsewhere, it
// also finds what was put back to an older state, and a folder that was written anew. Its error says that it could not
// look.
func Verify(dir string, since *Report) (Report, error) { return walk(dir, since, nil) }

// walk verifies, and calls each with every record that holds, file by file.
func walk(dir string, since *Report, each func(e Entry)) (Report, error) {
	key, err := loadPublic(dir)
	if err != nil {
		return Report{}, err
	}
	out := Report{Key: Fingerprint(key)}
	noted := map[string]FileReport{}
	if since != nil {
		if since.Key != out.Key {
			out.Problems = append(out.Problems, "the folder's key is another than that of the earlier report")
		}
		for _, f := range append(since.Files, since.Writers) {
			noted[f.Name] = f
		}
	}
	// The folder is listed before the list is read: who begins in between is in one of them.
	found, err := filepath.Glob(filepath.Join(dir, "*"+logSuffix))
	if err != nil {
		return Report{}, fmt.Errorf("read the audit: %w", err)
	}
	listed := map[string]bool{}
	list, problems, err := readFile(dir, writersName, key, noted[writersName], func(e Entry) {
		if e.Kind == KindWriter {
			listed[e.Writer] = true
		}
	})
	if err != nil {
		return Report{}, err
	}
	out.Writers, out.Problems = list, append(out.Problems, problems...)
	for _, path := range found {
		name := strings.TrimSuffix(filepath.Base(path), logSuffix)
		if info, err := os.Lstat(path); err != nil || name == writersName || listed[name] || info.Size() == 0 {
			continue // an empty one is of a writer that a crash ended before it began
		}
		out.Problems = append(out.Problems, fmt.Sprintf("%s: the list of writers does not name it", name))
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		got, problems, err := readFile(dir, name, key, noted[name], func(e Entry) {
			if each != nil {
				each(e)
			}
		})
		if err != nil {
			return Report{}, err
		}
		out.Records += got.Records
		out.Files = append(out.Files, got)
		out.Problems = append(out.Problems, problems...)
	}
	for name := range noted {
		if !listed[name] && name != writersName {
			out.Problems = append(out.Problems, fmt.Sprintf("%s: the earlier report names it, and the list of writers does not", name))
		}
	}
	slices.Sort(out.Problems)
	return out, nil
}

// readFile verifies one file. Records behind the first that does not hold are not read: nothing says what they are.
func readFile(dir, name string, key ed25519.PublicKey, noted FileReport, each func(Entry)) (out FileReport, problems []string, err error) {
	out = FileReport{Name: name, Last: origin(name)}
	complain := func(format string, args ...any) {
		problems = append(problems, name+": "+fmt.Sprintf(format, args...))
	}
	// The head is read before the file, which may be growing.
	var h head
	hasHead := false
	switch text, err := readOwn(filepath.Join(dir, name+headSuffix)); {
	case errors.Is(err, os.ErrNotExist):
		complain("its head is gone")
	case err != nil:
		return out, nil, err
	default:
		if h, err = openHead(text, key); err != nil {
			complain("its head: %v", err)
		} else if h.File != name {
			complain("its head is that of %s", h.File)
		} else {
			hasHead = true
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, name+logSuffix), os.O_RDONLY|noFollow, 0)
	if errors.Is(err, os.ErrNotExist) {
		complain("the file is gone")
		return out, problems, nil
	}
	if err != nil {
		return out, nil, fmt.Errorf("read the audit: %w", err)
	}
	defer f.Close()
	seen := h.Records == 0 // whether the head's own record came by
	if hasHead && h.Records == 0 && h.Last != out.Last {
		complain("its head is not that of an empty file")
	}
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := readLine(r)
		if err == io.EOF {
			out.Torn = int64(len(line))
			break
		}
		if err != nil {
			return out, nil, fmt.Errorf("read the audit: %w", err)
		}
		rec, hash, err := open(line[:len(line)-1], key, out.Last, out.Records+1)
		if err != nil {
			complain("record %d: %v", out.Records+1, err)
			return out, problems, nil
		}
		var e Entry
		if err := json.Unmarshal(rec.Entry, &e); err != nil {
			complain("record %d: it is no entry: %v", out.Records+1, err)
			return out, problems, nil
		}
		out.Records, out.Last = out.Records+1, hash
		if hasHead && out.Records == h.Records {
			seen = h.Last == hash
		}
		if out.Records == noted.Records && noted.Last != hash {
			complain("record %d is another than that of the earlier report", out.Records)
		}
		each(e)
	}
	if out.Records < noted.Records {
		complain("it ends after record %d, and had %d in the earlier report", out.Records, noted.Records)
	}
	out.Closed = hasHead && h.Closed
	switch {
	case !hasHead:
	case out.Records < h.Records:
		complain("it ends after record %d, and had %d", out.Records, h.Records)
	case !seen:
		complain("its head names another record %d", h.Records)
	case h.Closed && (out.Records > h.Records || out.Torn > 0):
		complain("something was added after its end")
	}
	return out, problems, nil
}

// readLine reads to a line's end, as far as a line may be long.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return line, nil
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
		if len(line) > maxLine {
			return line, fault.New(fault.TooLarge, "a line of the audit is longer than any that is written")
		}
	}
}

// Read gives all records that hold, in the order of time, and what [Verify] says.
func Read(dir string) ([]Entry, Report, error) {
	var all []Entry
	report, err := walk(dir, nil, func(e Entry) { all = append(all, e) })
	slices.SortStableFunc(all, func(a, b Entry) int { return a.Time.Compare(b.Time) })
	return all, report, err
}
