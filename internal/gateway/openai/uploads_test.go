package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/file"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// openFiles is a door over the real room of files.
func openFiles(t testing.TB, limits file.Limits) *house {
	t.Helper()
	db, blobs, _ := rooms(t)
	files, err := file.New(context.Background(), file.Options{DB: db, Limits: limits, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(files.Close)
	return openOver(t, 0, func(d *Door) { d.Files = files })
}

// field is a part of a form that is no file.
func field(name, value string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
}

// filePart is the part that is one.
func filePart(name, content string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n" + content + "\r\n"
}

func (h *house) form(t testing.TB, parts ...string) (*http.Response, string) {
	t.Helper()
	return h.do(t, "POST", "/v1/files", []byte(strings.Join(parts, "")+"--b--\r\n"),
		func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary=b") })
}

func (h *house) uploaded(t testing.TB, parts ...string) wire.File {
	t.Helper()
	res, body := h.form(t, parts...)
	var f wire.File
	if err := json.Unmarshal([]byte(body), &f); res.StatusCode != 200 || err != nil {
		t.Fatalf("upload: %d %s", res.StatusCode, body)
	}
	return f
}

func TestFilesAPI(t *testing.T) {
	h := openFiles(t, file.Limits{})
	// The openai-go SDK sorts fields by name: the purpose comes behind the file.
	f := h.uploaded(t, field("expires_after[anchor]", "created_at"), field("expires_after[seconds]", "3600"),
		filePart("dir/größe $(x).csv", "a,b\n1,2\n"), field("purpose", "user_data"))
	if f.Object != "file" || f.Bytes != 8 || f.Filename != "dir/größe $(x).csv" || f.Purpose != "user_data" || f.Status != "processed" ||
		f.ExpiresAt == nil || *f.ExpiresAt != f.CreatedAt+3600 || !strings.HasPrefix(f.ID, "file_") {
		t.Errorf("uploaded %+v", f)
	}
	if res, body := h.do(t, "GET", "/v1/files/"+f.ID, nil, nil); res.StatusCode != 200 || !strings.Contains(body, `"id":"`+f.ID+`"`) {
		t.Errorf("get: %d %s", res.StatusCode, body)
	}
	res, body := h.do(t, "GET", "/v1/files/"+f.ID+"/content", nil, nil)
	if res.StatusCode != 200 || body != "a,b\n1,2\n" || res.ContentLength != 8 || res.Header.Get("Content-Type") != "text/csv" ||
		!strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment;") {
		t.Errorf("content: %d %q %v", res.StatusCode, body, res.Header)
	}
	if res, body := h.do(t, "GET", "/v1/files/"+f.ID+"/content", nil, func(r *http.Request) { r.Header.Set("Range", "bytes=4-6") }); res.StatusCode != 206 || body != "1,2" {
		t.Errorf("a range: %d %q", res.StatusCode, body)
	}
	for _, path := range []string{"", "/content"} {
		res, body := h.do(t, "GET", "/v1/files/"+f.ID+path, nil, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+keyTwo) })
		if res.StatusCode != 404 || errorOf(t, body).code != "file_not_found" {
			t.Errorf("another organisation: %d %s", res.StatusCode, body)
		}
	}
	if res, body := h.do(t, "DELETE", "/v1/files/"+f.ID, nil, nil); res.StatusCode != 200 || body != `{"id":"`+f.ID+`","object":"file","deleted":true}`+"\n" {
		t.Errorf("delete: %d %s", res.StatusCode, body)
	}
	for _, path := range []string{"", "/content"} {
		if res, _ := h.do(t, "GET", "/v1/files/"+f.ID+path, nil, nil); res.StatusCode != 404 {
			t.Errorf("GET %s after delete: %d", path, res.StatusCode)
		}
	}
}

func TestFilesListPages(t *testing.T) {
	h := openFiles(t, file.Limits{})
	var ids []string
	for i := range 3 {
		ids = append(ids, h.uploaded(t, field("purpose", []string{"user_data", "batch", "user_data"}[i]), filePart("f", "x")).ID)
	}
	list := func(query string) (out wire.List[wire.File]) {
		t.Helper()
		res, body := h.do(t, "GET", "/v1/files"+query, nil, nil)
		if err := json.Unmarshal([]byte(body), &out); res.StatusCode != 200 || err != nil {
			t.Fatalf("%s: %d %s", query, res.StatusCode, body)
		}
		return out
	}
	if l := list("?limit=2&order=asc"); len(l.Data) != 2 || !l.HasMore || l.Data[0].ID != ids[0] || l.Data[1].ID != ids[1] {
		t.Errorf("the first page: %+v", l)
	}
	if l := list("?limit=2&order=asc&after=" + ids[1]); len(l.Data) != 1 || l.HasMore || l.Data[0].ID != ids[2] {
		t.Errorf("the second page: %+v", l)
	}
	if l := list("?purpose=batch"); len(l.Data) != 1 || l.Data[0].ID != ids[1] {
		t.Errorf("by purpose: %+v", l)
	}
	for query, param := range map[string]string{"?limit=0": "limit", "?limit=x": "limit", "?limit=10001": "limit", "?order=up": "order", "?after=x": "after"} {
		res, body := h.do(t, "GET", "/v1/files"+query, nil, nil)
		if e := errorOf(t, body); res.StatusCode != 400 || e.param != param || e.code != "invalid_value" {
			t.Errorf("%s: %d %s", query, res.StatusCode, body)
		}
	}
}

func TestFilesRefusals(t *testing.T) {
	h := openFiles(t, file.Limits{MaxBytes: 2 << 20})
	purpose := field("purpose", "user_data")
	for _, c := range []struct {
		name   string
		parts  []string
		status int
		code   string
		param  string
	}{
		{"no file", []string{purpose}, 400, "missing_file_part", "file"},
		{"no purpose", []string{filePart("a", "x")}, 400, "missing_required_parameter", "purpose"},
		{"unknown purpose", []string{field("purpose", "spy"), filePart("a", "x")}, 400, "", "purpose"},
		{"two files", []string{purpose, filePart("a", "x"), filePart("b", "y")}, 400, "invalid_multipart", "file"},
		{"no anchor", []string{purpose, field("expires_after[seconds]", "3600"), filePart("a", "x")}, 400, "invalid_value", "expires_after.anchor"},
		{"no seconds", []string{purpose, field("expires_after[anchor]", "created_at"), filePart("a", "x")}, 400, "missing_required_parameter", "expires_after.seconds"},
		{"bad seconds", []string{purpose, field("expires_after[anchor]", "created_at"), field("expires_after[seconds]", "soon"), filePart("a", "x")}, 400, "invalid_value", "expires_after.seconds"},
		{"too short", []string{purpose, field("expires_after[anchor]", "created_at"), field("expires_after[seconds]", "60"), filePart("a", "x")}, 400, "", "expires_after.seconds"},
		{"too large", []string{purpose, filePart("a", strings.Repeat("x", 2<<20+1))}, 413, "file_too_large", ""},
		{"far too large", []string{purpose, filePart("a", strings.Repeat("x", 4<<20))}, 413, "file_too_large", ""},
	} {
		res, body := h.form(t, c.parts...)
		if e := errorOf(t, body); res.StatusCode != c.status || e.code != c.code || e.param != c.param {
			t.Errorf("%s: %d %s, want %d %s %s", c.name, res.StatusCode, body, c.status, c.code, c.param)
		}
	}
	// A file may be larger than any other request's body.
	if f := h.uploaded(t, purpose, filePart("a", strings.Repeat("x", 2<<20))); f.Bytes != 2<<20 {
		t.Errorf("as large as may be: %+v", f)
	}
	res, body := h.do(t, "GET", "/v1/files", nil, nil)
	if res.StatusCode != 200 || strings.Count(body, `"object":"file"`) != 1 {
		t.Errorf("refused uploads are listed: %s", body)
	}
	if res, body := h.do(t, "POST", "/v1/files", []byte(`{"file":"x"}`), nil); res.StatusCode != 415 || errorOf(t, body).code != "unsupported_content_type" {
		t.Errorf("JSON: %d %s", res.StatusCode, body)
	}
}
