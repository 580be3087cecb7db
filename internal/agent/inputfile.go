package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Limits on the files of one request. Beyond one the request is refused.
const (
	maxInputFiles = 32
	maxInputBytes = 100 << 20
	// maxInlineBytes bounds the text that goes to a model without a shell: it all stands in the prompt.
	maxInlineBytes = 256 << 10
	maxNameBytes   = 200
	// maxFetchTime is for all the files of a request that are fetched.
	maxFetchTime = time.Minute
)

// workspace is where input files land and where a shell call stands.
const workspace = "/mnt/data"

// inputFile is a file that a request carries for the workspace.
type inputFile struct {
	name string
	data []byte
	id   string // of an uploaded file, which is copied where it lies; then there is no data
	key  string // of its source and its bytes: a container gets what has one key once
	// replayed: the model has already answered the message that carries it. Such a file goes into a fresh container
	// only; in one that lives on, what the model made of it since stays.
	replayed bool
}

// files reads the input_file parts of a request one after the other.
type files struct {
	shell     bool // the request has a shell: files go to the workspace, not into the prompt
	staged    []inputFile
	shelf     shelf
	downloads Downloads
	live      *liveSpace      // the workspace, if it is there already; nil where a container is to be made
	placed    map[string]bool // names that files in the workspace have, or will have
	count     int
	bytes     int
}

// takeFiles takes the input files out of a plan's messages. With a shell each goes to the workspace and its part keeps
// name, path and size, never the bytes, so no later turn can put it back over the model's edits. Without a shell a
// text file stays in its part and is read to the model; any other is refused. A file does not take the name of another
// that is in the workspace, or that an earlier turn of the chain put there.
func (a *Agent) takeFiles(ctx context.Context, p *plan) ([]openai.Item, []inputFile, error) {
	items := p.input
	if !slices.ContainsFunc(items, func(i openai.Item) bool { return bytes.Contains(i.Raw, []byte(`"input_file"`)) }) {
		return items, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxFetchTime)
	defer cancel()
	last := -1 // the last item that the model wrote
	for n, i := range items {
		if i.Role == "assistant" || i.Type != openai.TypeMessage {
			last = n
		}
	}
	f := files{shell: p.shell != nil && !p.place.local, shelf: shelf{ctx, a.options.Uploads, p.principal.Org}, downloads: a.options.Downloads, placed: map[string]bool{}}
	if p.place.id != "" && p.lent == nil {
		f.live = &liveSpace{ctx, a.containers, p.principal.Org, p.place.id}
	}
	for _, name := range container.StagedNames(f.shelf.names(p.place.spec.FileIDs)) {
		f.placed[name] = true
	}
	f.recall(p.history)
	f.recall(items)
	out := make([]openai.Item, len(items))
	for n, i := range items {
		out[n] = i
		if i.Type != openai.TypeMessage || !bytes.Contains(i.Raw, []byte(`"input_file"`)) {
			continue
		}
		item, err := f.message(i, fmt.Sprintf("input[%d]", n), n < last)
		if err != nil {
			return nil, nil, err
		}
		out[n] = item
	}
	return out, f.staged, nil
}

// recall notes the names of the files that are said to be in the workspace already.
func (f *files) recall(items []openai.Item) {
	for _, i := range items {
		if i.Type != openai.TypeMessage || !bytes.Contains(i.Raw, []byte(`"input_file"`)) {
			continue
		}
		var m struct{ Content []object }
		if i.Decode(&m) != nil {
			continue // message says what is wrong with it
		}
		for _, o := range m.Content {
			var at string
			if noted(o) && !f.again(o) && json.Unmarshal(o["path"], &at) == nil {
				f.placed[path.Base(at)] = true
			}
		}
	}
}

func (f *files) message(i openai.Item, param string, replayed bool) (openai.Item, error) {
	var m struct{ Content []object }
	if err := i.Decode(&m); err != nil {
		return i, invalid(param+".content", "A message's content must be a string or a list of parts.")
	}
	for n, o := range m.Content {
		var p openai.Part
		if err := json.Unmarshal(o.raw(), &p); err != nil || p.Type != "input_file" {
			continue
		}
		if err := f.part(o, p, fmt.Sprintf("%s.content[%d]", param, n), replayed); err != nil {
			return i, err
		}
	}
	return withKeys(i, map[string]any{"content": m.Content})
}

func (f *files) part(o object, p openai.Part, param string, replayed bool) error {
	switch {
	case p.FileID != "" && (p.FileURL != "" || p.FileData != ""), p.FileURL != "" && p.FileData != "":
		return invalid(param, "An input_file has one of file_id, file_url and file_data.").WithCode("invalid_input_file")
	case p.FileData == "" && noted(o) && !f.again(o):
		return nil // an earlier turn's part, played back: the file went to its workspace then
	case p.FileID != "":
		return f.uploaded(o, p, param, replayed)
	case p.FileURL != "":
		return f.fetched(o, p, param, replayed)
	case p.FileData == "" && !present(o["file_data"]):
		return invalid(param, "An input_file needs one of file_id, file_url and file_data.").WithCode("invalid_input_file")
	}
	if err := f.one(param); err != nil {
		return err
	}
	if room := maxInputBytes - f.bytes; base64.StdEncoding.DecodedLen(len(p.FileData)) > room+1024 {
		return tooLarge(param, maxInputBytes)
	}
	media, data, err := decodeFile(p.FileData)
	if err != nil {
		return invalid(param+".file_data", "file_data must be a data URL or base64.").WithCode("invalid_input_file_data")
	}
	if f.bytes += len(data); f.bytes > maxInputBytes {
		return tooLarge(param, maxInputBytes)
	}
	if p.Filename == "" {
		p.Filename = fmt.Sprintf("file-%d%s", f.count, extensions[media])
	}
	name := cleanName(p.Filename)
	if !f.shell {
		return f.inline(o, name, media, data, param)
	}
	delete(o, "file_data")
	return f.stage(o, inputFile{name: name, data: data, key: inputKey(name, "", data), replayed: replayed}, int64(len(data)))
}

// one counts a file.
func (f *files) one(param string) error {
	if f.count++; f.count > maxInputFiles {
		return invalid(param, "A request may carry %d input files.", maxInputFiles).WithCode("too_many_input_files")
	}
	return nil
}

// inline keeps a text file in the prompt, for a model without a shell.
func (f *files) inline(o object, name, media string, data []byte, param string) error {
	if !isText(media, data) {
		return invalid(param, "The file %s is not text, and the request has no shell tool to open it with.", name).
			WithCode("invalid_input_file").WithTry(`adding {"type":"shell"} to tools`)
	}
	if f.bytes > maxInlineBytes {
		return tooLarge(param, maxInlineBytes).WithTry(`adding {"type":"shell"} to tools: files then go to %s`, workspace)
	}
	o.set("filename", name)
	return nil
}

// stage notes a file for the workspace, under a name that nothing else there has, and writes its part. A size below 0 is
// not known.
func (f *files) stage(o object, file inputFile, size int64) error {
	name, err := f.place(file)
	if err != nil {
		return err
	}
	o.set("filename", name)
	o.set("path", path.Join(workspace, name))
	if size >= 0 {
		o.set("bytes", size)
	}
	return nil
}

// place is a file's name in the workspace. What is there already, or comes with this request, is not put there again.
func (f *files) place(file inputFile) (string, error) {
	for _, s := range f.staged {
		if s.key == file.key {
			return s.name, nil
		}
	}
	at, err := f.live.inputAt(file.key)
	if err != nil {
		return "", err
	}
	if at != "" {
		file.name = at
		f.staged = append(f.staged, file) // for the case that commands have removed it
		return at, nil
	}
	name := file.name
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 2; ; n++ {
		taken := f.placed[name]
		if !taken && !file.replayed { // a file that was answered before has the name that it has
			if taken, err = f.live.has(name); err != nil {
				return "", err
			}
		}
		if !taken {
			file.name, f.placed[name] = name, true
			f.staged = append(f.staged, file)
			return name, nil
		}
		name = fmt.Sprintf("%s-%d%s", stem, n, ext)
	}
}

// inputKey is what a container remembers an input by: its name, where it came from, and its bytes.
func inputKey(name, source string, data []byte) string {
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(name), []byte(source), data} {
		fmt.Fprintf(sum, "%d ", len(part))
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// noted says whether a part was already put into a workspace.
func noted(o object) bool {
	var at string
	return json.Unmarshal(o["path"], &at) == nil && strings.HasPrefix(at, workspace+"/")
}

// again says whether a part that was put into a workspace is to be put into this one: it is a new one, and the part says
// where the file can be had.
func (f *files) again(o object) bool {
	return f.shell && f.live == nil && (present(o["file_id"]) || present(o["file_url"]))
}

// A liveSpace is a workspace in which commands may have worked. Nil is one that is to be made.
type liveSpace struct {
	ctx  context.Context
	room containers
	org  string
	id   string
}

func (w *liveSpace) inputAt(key string) (string, error) {
	if w == nil {
		return "", nil
	}
	return w.room.InputAt(w.ctx, w.org, w.id, key)
}

func (w *liveSpace) has(name string) (bool, error) {
	if w == nil {
		return false, nil
	}
	return w.room.HasFile(w.ctx, w.org, w.id, name)
}

func tooLarge(param string, limit int) *fault.Error {
	return fault.New(fault.TooLarge, "The input files of a request may have %d bytes in all.", limit).
		WithCode("input_file_too_large").WithParam(param)
}

// decodeFile reads file_data: a data URL, or base64 with or without padding and line breaks.
func decodeFile(s string) (media string, data []byte, err error) {
	if rest, ok := strings.CutPrefix(s, "data:"); ok {
		head, body, ok := strings.Cut(rest, ",")
		if !ok {
			return "", nil, fmt.Errorf("read data URL: no comma")
		}
		kind, encoded := strings.CutSuffix(head, ";base64")
		if media, _, err = mime.ParseMediaType(kind); err != nil {
			media = ""
		}
		if !encoded {
			text, err := url.PathUnescape(body)
			return media, []byte(text), err
		}
		s = body
	}
	s = strings.TrimRight(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s), "=")
	if strings.ContainsAny(s, "-_") {
		data, err = base64.RawURLEncoding.DecodeString(s)
	} else {
		data, err = base64.RawStdEncoding.DecodeString(s)
	}
	return media, data, err
}

// extensions names a file that came without a name.
var extensions = map[string]string{
	"text/plain": ".txt", "text/csv": ".csv", "text/markdown": ".md", "text/html": ".html", "application/json": ".json",
	"application/pdf": ".pdf", "application/zip": ".zip", "image/png": ".png", "image/jpeg": ".jpg",
}

// cleanName makes one file name of what a client calls its file: the last element of a path of either kind, without
// leading dots and characters that no terminal should see.
func cleanName(name string) string {
	name = strings.ReplaceAll(name, `\`, "/")
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, path.Base(name))
	name = strings.TrimSpace(strings.TrimLeft(name, "./ "))
	for len(name) > maxNameBytes { // whole characters from the middle, so that the ending stays
		ext := path.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		stem := strings.TrimSuffix(name, ext)
		_, size := utf8.DecodeLastRuneInString(stem)
		name = stem[:len(stem)-size] + ext
	}
	if name == "" {
		return "file"
	}
	return name
}

// isText says whether a file can be read to a model as it is.
func isText(media string, data []byte) bool {
	known := strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "xml") ||
		strings.HasSuffix(media, "yaml") || strings.HasSuffix(media, "javascript") || media == "" ||
		media == "application/octet-stream"
	return known && utf8.Valid(data) && !bytes.ContainsRune(data, 0)
}
