package skill

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

const manifest = "---\nname: extract-csv\ndescription: >\n  Reads tables\n  out of text.\n---\n# How\n"

func text(name, data string) Entry {
	return Entry{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }}
}

// zipped makes a zip of names and contents in pairs; a name may end in "@" and a mode: link, dir, exec.
func zipped(t testing.TB, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		name, kind, _ := strings.Cut(pairs[i], "@")
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		switch kind {
		case "link":
			h.SetMode(fs.ModeSymlink | 0o777)
		case "fifo":
			h.SetMode(fs.ModeNamedPipe | 0o644)
		case "exec":
			h.SetMode(0o755)
		default:
			h.SetMode(0o644)
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(w, pairs[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// take is the way of a zip into the store and out of it again.
func take(data []byte, l Limits) (Manifest, []byte, error) {
	entries, err := ReadZip(bytes.NewReader(data), int64(len(data)), l)
	if err != nil {
		return Manifest{}, nil, err
	}
	b, err := gather(entries, l)
	if err != nil {
		return Manifest{}, nil, err
	}
	var out bytes.Buffer
	m, _, err := b.pack(&out)
	return m, out.Bytes(), err
}

func TestWhatAZipMayHold(t *testing.T) {
	small := Limits{MaxFile: 2000, MaxBytes: 3000, MaxFiles: 3, MaxArchive: 20_000}
	for name, c := range map[string]struct {
		zip  []byte
		want string // part of the refusal, "" if it is taken
		kind fault.Kind
	}{
		"plain":                      {zipped(t, "SKILL.md", manifest, "scripts/run.sh@exec", "x"), "", 0},
		"within one folder":          {zipped(t, "extract-csv/SKILL.md", manifest, "extract-csv/a", "x"), "", 0},
		"with the archiver's litter": {zipped(t, "s/SKILL.md", manifest, "__MACOSX/s/._a", "x", "s/.DS_Store", "x"), "", 0},
		"no SKILL.md":                {zipped(t, "readme.md", manifest), "no SKILL.md", fault.Invalid},
		"SKILL.md too deep":          {zipped(t, "a/b/SKILL.md", manifest, "c/x", "x"), "no SKILL.md", fault.Invalid},
		"empty":                      {zipped(t), "no SKILL.md", fault.Invalid},
		"no zip":                     {[]byte("PK nothing"), "can't be read", fault.Invalid},
		"a link":                     {zipped(t, "SKILL.md", manifest, "x@link", "/etc/passwd"), "no regular file", fault.Invalid},
		"SKILL.md is a link":         {zipped(t, "SKILL.md@link", "/etc/passwd"), "no regular file", fault.Invalid},
		"a pipe":                     {zipped(t, "SKILL.md", manifest, "x@fifo", ""), "no regular file", fault.Invalid},
		"up":                         {zipped(t, "SKILL.md", manifest, "../x", "x"), "plain relative", fault.Invalid},
		"up within":                  {zipped(t, "SKILL.md", manifest, "a/../../x", "x"), "plain relative", fault.Invalid},
		"absolute":                   {zipped(t, "SKILL.md", manifest, "/etc/x", "x"), "plain relative", fault.Invalid},
		"of Windows":                 {zipped(t, "SKILL.md", manifest, `a\b`, "x"), "backslash", fault.Invalid},
		"a drive":                    {zipped(t, "SKILL.md", manifest, `c:x`, "x"), "plain relative", fault.Invalid},
		"a dot":                      {zipped(t, "SKILL.md", manifest, `a/./b`, "x"), "plain relative", fault.Invalid},
		"no UTF-8":                   {zipped(t, "SKILL.md", manifest, "a\xff", "x"), "characters", fault.Invalid},
		"NUL":                        {zipped(t, "SKILL.md", manifest, "a\x00b", "x"), "characters", fault.Invalid},
		"a new line":                 {zipped(t, "SKILL.md", manifest, "a\nb", "x"), "characters", fault.Invalid},
		"twice":                      {zipped(t, "SKILL.md", manifest, "a", "1", "a", "2"), "both", fault.Invalid},
		"twice but for case":         {zipped(t, "SKILL.md", manifest, "a", "1", "A", "2"), "both", fault.Invalid},
		"a file and a folder":        {zipped(t, "SKILL.md", manifest, "a", "1", "a/b", "2"), "both a file and a folder", fault.Invalid},
		"a long name":                {zipped(t, "SKILL.md", manifest, strings.Repeat("a", 600), "1"), "512", fault.Invalid},
		"a bomb":                     {zipped(t, "SKILL.md", manifest, "a", strings.Repeat("0", 1<<20)), "2000 bytes", fault.TooLarge},
		"a bomb of many":             {zipped(t, "SKILL.md", manifest, "a", strings.Repeat("0", 1900), "b", strings.Repeat("0", 1900)), "together", fault.TooLarge},
		"too many":                   {zipped(t, "SKILL.md", manifest, "a", "", "b", "", "c", ""), "4 files", fault.TooLarge},
		"too large as it comes":      {append(zipped(t, "SKILL.md", manifest), make([]byte, 30_000)...), "20000", fault.TooLarge},
		"front matter that is none":  {zipped(t, "SKILL.md", "---\n\t: [\n---\n"), "YAML", fault.Invalid},
		"SKILL.md that is no text":   {zipped(t, "SKILL.md", "a\xff"), "UTF-8", fault.Invalid},
	} {
		m, out, err := take(c.zip, small)
		switch {
		case c.want == "" && (err != nil || m.Name != "extract-csv" || m.Description != "Reads tables out of text."):
			t.Errorf("%s: %+v, %v", name, m, err)
		case c.want == "":
			if _, again, err := take(out, small); err != nil || !bytes.Equal(again, out) {
				t.Errorf("%s: packed again it differs: %v", name, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != c.kind:
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A long list of files would take many times its bytes of memory before the first could be refused.
func TestALongDirectory(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for n := range 12_000 { // 12,000 names of 400 bytes are more than 4 MiB
		if _, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%0400d", n)}); err != nil {
			t.Fatal(err)
		}
	}
	z.Close()
	if _, err := ReadZip(bytes.NewReader(b.Bytes()), int64(b.Len()), Limits{}); fault.KindOf(err) != fault.TooLarge || !strings.Contains(err.Error(), "list of files") {
		t.Errorf("%v", err)
	}
	// The bytes of its files are not counted.
	large := zipped(t, "SKILL.md", manifest, "a", strings.Repeat("0123456789abcdef", 1<<19))
	if _, _, err := take(large, Limits{}); err != nil {
		t.Errorf("a large file: %v", err)
	}
}

// A header that lies about a size is not believed.
func TestAHeaderThatLies(t *testing.T) {
	data := zipped(t, "SKILL.md", manifest, "a", strings.Repeat("0", 1<<20))
	for _, size := range []uint32{0, 10} {
		entries, err := ReadZip(bytes.NewReader(data), int64(len(data)), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		z, _ := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		z.File[1].UncompressedSize64 = uint64(size)
		entries[1].Open = func() (io.ReadCloser, error) { return z.File[1].Open() }
		b, err := gather(entries, Limits{MaxFile: 2000})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.pack(io.Discard); err == nil {
			t.Errorf("a file that says %d bytes and has more was taken", size)
		}
	}
	torn := zipped(t, "SKILL.md", manifest)
	torn[40] ^= 0xff
	if _, _, err := take(torn, Limits{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a torn zip: %v", err)
	}
}

func TestManifests(t *testing.T) {
	for in, want := range map[string]Manifest{
		"---\nname: a-b\ndescription: x\n---\n":                         {"a-b", "x"},
		"---\r\nname: a\r\ndescription: \"q: y\"\r\n---\r\nrest":        {"a", "q: y"},
		"\uFEFF---\nname: a\ndescription: x\n---":                       {"a", "x"},
		"---\nname: a\ndescription: |\n  one\n  two\nother: [1]\n---\n": {"a", "one two"},
		"# no front matter\n---\nname: a\n---\n":                        {},
		"---\nname: a\n":                                                {},
		"":                                                              {},
	} {
		if m, err := readManifest([]byte(in)); err != nil || m != want {
			t.Errorf("%q: %+v, %v", in, m, err)
		}
	}
	for _, m := range []Manifest{{"", "x"}, {"A", "x"}, {"a b", "x"}, {"-a", "x"}, {"a-", "x"}, {"a--b", "x"}, {"../a", "x"}, {"a/b", "x"}, {".", "x"},
		{strings.Repeat("a", 65), "x"}, {"a", ""}, {"a", " \n"}, {"a", strings.Repeat("ä", 1025)}} {
		if err := m.Check(); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", m, err)
		}
	}
	if err := (Manifest{strings.Repeat("a", 64), strings.Repeat("ä", 1024)}).Check(); err != nil {
		t.Error(err)
	}
}

func FuzzReadZip(f *testing.F) {
	f.Add(zipped(f, "SKILL.md", manifest, "a/b@exec", "x"))
	f.Add(zipped(f, "s/SKILL.md", manifest, "s/../x", "x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		limits := Limits{MaxArchive: 1 << 16, MaxBytes: 1 << 16, MaxFile: 1 << 16, MaxFiles: 20}
		_, out, err := take(data, limits)
		if err != nil {
			return
		}
		entries, err := ReadZip(bytes.NewReader(out), int64(len(out)), Limits{})
		if err != nil {
			t.Fatalf("what was taken can't be read again: %v", err)
		}
		for _, e := range entries {
			if !fs.ValidPath(e.Name) {
				t.Errorf("the name %q came through", e.Name)
			}
		}
	})
}
