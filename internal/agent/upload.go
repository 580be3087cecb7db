package agent

import (
	"cmp"
	"context"
	"encoding/base64"
	"io"

	"github.com/hardshell-dev/hardshell/fault"
	uploads "github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Uploads are the files that clients keep on the server. Another organisation's look absent.
type Uploads interface {
	Get(ctx context.Context, org, id string) (uploads.File, error)
	Open(ctx context.Context, org, id string) (io.ReadSeekCloser, uploads.File, error)
}

// shelf is an organisation's uploads, as a request reaches them. Without a room there are none.
type shelf struct {
	ctx  context.Context // of the request
	room Uploads
	org  string
}

func (s shelf) get(id string) (uploads.File, error) {
	if s.room == nil {
		return uploads.File{}, fault.New(fault.NotFound, "File %q was not found.", id)
	}
	return s.room.Get(s.ctx, s.org, id)
}

// names are the names of files; one that is not there is refused when the container is made.
func (s shelf) names(ids []string) (names []string) {
	for _, id := range ids {
		if f, err := s.get(id); err == nil {
			names = append(names, f.Name)
		}
	}
	return names
}

// read is the whole of a file that is known to be small.
func (s shelf) read(f uploads.File) ([]byte, error) {
	r, _, err := s.room.Open(s.ctx, s.org, f.ID)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// uploaded takes a file that the client has uploaded before. With a shell it is copied into the workspace where it lies,
// whatever its size; without one a text file is read to the model.
func (f *files) uploaded(o object, p openai.Part, param string, replayed bool) error {
	if err := f.one(param); err != nil {
		return err
	}
	up, err := f.shelf.get(p.FileID)
	if fault.KindOf(err) == fault.NotFound {
		return invalid(param+".file_id", "File %q was not found.", p.FileID).WithCode("invalid_input_file_id").
			WithTry("uploading it to /v1/files first")
	}
	if err != nil {
		return err
	}
	name := cleanName(cmp.Or(p.Filename, up.Name))
	if !f.shell {
		return f.inlineUpload(o, up, name, param)
	}
	return f.stage(o, inputFile{name: name, id: up.ID, key: inputKey(name, up.ID, nil), replayed: replayed}, up.Bytes)
}

// inlineUpload makes an uploaded text file a part that carries its bytes: the file may be deleted, and the conversation
// stays what it was.
func (f *files) inlineUpload(o object, up uploads.File, name, param string) error {
	if f.bytes += int(min(up.Bytes, maxInputBytes)); f.bytes > maxInlineBytes {
		return tooLarge(param, maxInlineBytes).WithTry(`adding {"type":"shell"} to tools: files then go to %s`, workspace)
	}
	data, err := f.shelf.read(up)
	if err != nil {
		return err
	}
	media := uploads.ContentType(name)
	if err := f.inline(o, name, media, data, param); err != nil {
		return err
	}
	delete(o, "file_id")
	o.set("file_data", "data:"+media+";base64,"+base64.StdEncoding.EncodeToString(data))
	return nil
}
