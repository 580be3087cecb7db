package agent

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"path"

	"github.com/hardshell-dev/hardshell/fault"
	uploads "github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Downloads fetches files from addresses that clients give, of at most limit bytes. Its errors are the client's to see.
type Downloads interface {
	Fetch(ctx context.Context, address string, limit int64) (uploads.Download, error)
}

// fetched takes a file that lies elsewhere. It is fetched before the response begins, so that what is wrong with it is
// the request's answer. With a shell it goes to the workspace; without one a text file is read to the model.
func (f *files) fetched(o object, p openai.Part, param string, replayed bool) error {
	if err := f.one(param); err != nil {
		return err
	}
	name := cmp.Or(p.Filename, addressName(p.FileURL))
	if replayed && f.live != nil {
		// It is not put there again, so nobody needs its bytes.
		name = cleanName(cmp.Or(name, fmt.Sprintf("file-%d", f.count)))
		return f.stage(o, inputFile{name: name, key: inputKey(name, p.FileURL, nil), replayed: true}, -1)
	}
	limit := maxInputBytes
	if !f.shell {
		limit = maxInlineBytes
	}
	if f.downloads == nil {
		return invalid(param+".file_url", "This server fetches no files.").WithCode("invalid_input_file_url").WithTry("sending the bytes in file_data")
	}
	got, err := f.downloads.Fetch(f.shelf.ctx, p.FileURL, int64(max(limit-f.bytes, 0)))
	if e, ok := fault.As(err); ok {
		if e.Kind == fault.TooLarge && !f.shell {
			e = e.WithTry(`adding {"type":"shell"} to tools: files then go to %s`, workspace)
		}
		return e.WithParam(param + ".file_url")
	}
	if err != nil {
		return err
	}
	f.bytes += len(got.Data)
	name = cleanName(cmp.Or(name, fmt.Sprintf("file-%d%s", f.count, extensions[got.MediaType])))
	if !f.shell {
		if err := f.inline(o, name, got.MediaType, got.Data, param); err != nil {
			return err
		}
		delete(o, "file_url")
		o.set("file_data", "data:"+got.MediaType+";base64,"+base64.StdEncoding.EncodeToString(got.Data))
		return nil
	}
	return f.stage(o, inputFile{name: name, data: got.Data, key: inputKey(name, p.FileURL, got.Data), replayed: replayed}, int64(len(got.Data)))
}

// addressName is the last element of an address's path; empty if it has none.
func addressName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	if name := path.Base(u.Path); name != "." && name != "/" {
		return name
	}
	return ""
}
