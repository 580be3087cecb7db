package agent

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	uploads "github.com/hardshell-dev/hardshell/internal/file"
)

// pile is a room of uploads: texts by id, all of organisation org.
type pile map[string]string

func (p pile) Get(_ context.Context, _, id string) (uploads.File, error) {
	text, ok := p[id]
	if !ok {
		return uploads.File{}, fault.New(fault.NotFound, "no such file")
	}
	return uploads.File{ID: id, Name: "dir/" + id + ".csv", Bytes: int64(len(text))}, nil
}

type reader struct{ *strings.Reader }

func (reader) Close() error { return nil }

func (p pile) Open(ctx context.Context, org, id string) (io.ReadSeekCloser, uploads.File, error) {
	f, err := p.Get(ctx, org, id)
	return reader{strings.NewReader(p[id])}, f, err
}

func TestInputFilesByID(t *testing.T) {
	const body = `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_file","file_id":"file_a"},` +
		`{"type":"input_file","file_id":"file_a"},{"type":"input_file","file_id":"file_b","filename":"file_a.csv"}]}],"tools":[{"type":"shell"}]}`
	w := newWorld(t, runs("a"), says("ok"))
	w.options.Uploads = pile{"file_a": "1,2", "file_b": "3,4"}
	w.commands["a"] = printed("", "", 0)
	r, _ := w.run(body)
	if got := strings.Join(w.put, " "); !strings.Contains(got, "file_a.csv") || !strings.Contains(got, "file_a-2.csv") || len(w.put) != 2 {
		t.Errorf("put %q", w.put)
	}
	seen := shown(w.asked[0])
	for _, part := range []string{"/mnt/data/file_a.csv", "/mnt/data/file_a-2.csv"} {
		if !strings.Contains(seen, part) {
			t.Errorf("the model does not read of %s:\n%s", part, seen)
		}
	}
	_ = r
}

func TestInputFileByIDWithoutAShellIsReadToTheModel(t *testing.T) {
	w := newWorld(t, says("ok"))
	w.options.Uploads = pile{"file_a": "the text of it"}
	w.run(`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"file_a"}]}]}`)
	if seen := shown(w.asked[0]); !strings.Contains(seen, "the text of it") && !strings.Contains(seen, "dGhlIHRleHQgb2YgaXQ=") {
		t.Errorf("the model reads\n%s", seen)
	}
}

func TestInputFileByIDRefusals(t *testing.T) {
	for body, code := range map[string]string{
		`{"type":"input_file","file_id":"file_none"}`:                        "invalid_input_file_id",
		`{"type":"input_file","file_id":"file_a","file_data":"eA=="}`:        "invalid_input_file",
		`{"type":"input_file","file_id":"file_a","file_url":"https://x.de"}`: "invalid_input_file",
		`{"type":"input_file","file_id":"file_large"}`:                       "input_file_too_large",
		`{"type":"input_file","file_id":"file_binary"}`:                      "invalid_input_file",
	} {
		w := newWorld(t, says("ok"))
		w.options.Uploads = pile{"file_a": "x", "file_large": strings.Repeat("x", maxInlineBytes+1), "file_binary": "a\x00b"}
		_, err := w.create(request(t, `{"model":"m","input":[{"role":"user","content":[`+body+`]}]}`))
		if f, ok := fault.As(err); !ok || f.Code != code {
			t.Errorf("%s: %v, want %s", body, err, code)
		}
	}
}
