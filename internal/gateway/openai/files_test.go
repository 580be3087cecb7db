package openai

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
)

// form makes a multipart body of one part with the given Content-Disposition, and its content type.
func form(t testing.TB, disposition, content string) ([]byte, string) {
	t.Helper()
	return []byte("--b\r\nContent-Disposition: " + disposition + "\r\nContent-Type: text/plain\r\n\r\n" + content + "\r\n--b--\r\n"),
		"multipart/form-data; boundary=b"
}

func TestUploadPassesTheNameAsItCame(t *testing.T) {
	for disposition, want := range map[string]string{
		`form-data; name="file"; filename="a.txt"`:                          "a.txt",
		`form-data; name="file"; filename="dir/sub/a.txt"`:                  "dir/sub/a.txt",
		`form-data; name="file"; filename="../../etc/passwd"`:               "../../etc/passwd", // the room refuses it; nobody shortens it
		`form-data; name="file"; filename="/etc/passwd"`:                    "/etc/passwd",
		`form-data; name="file"; filename="quo\"te.txt"`:                    `quo"te.txt`,
		`form-data; name="file"; filename="x.txt"; filename*=UTF-8''%C3%BC`: "ü",
		`form-data; filename=plain.txt; name=file`:                          "plain.txt",
	} {
		h := open(t, time.Minute)
		body, kind := form(t, disposition, "con\r\ntent")
		res, text := h.do(t, "POST", "/v1/containers/cntr_1/files", body, func(r *http.Request) { r.Header.Set("Content-Type", kind) })
		if res.StatusCode != 200 || h.containers.putName != want || string(h.containers.putBody) != "con\r\ntent" {
			t.Errorf("%s: %d, the room got %q %q, want name %q: %s", disposition, res.StatusCode, h.containers.putName, h.containers.putBody, want, text)
		}
		if !strings.Contains(text, `"object":"container.file","bytes":9,"container_id":"cntr_1","created_at":3000`) || !strings.Contains(text, `"source":"user"`) {
			t.Errorf("%s: object %s", disposition, text)
		}
	}
}

func TestUploadFindsTheFileAmongOtherParts(t *testing.T) {
	h := open(t, time.Minute)
	body := []byte("--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nbytes\r\n--b--\r\n")
	res, text := h.do(t, "POST", "/v1/containers/cntr_1/files", body, func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary=b") })
	if res.StatusCode != 200 || string(h.containers.putBody) != "bytes" {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

func TestUploadByID(t *testing.T) {
	h := open(t, time.Minute)
	for body, want := range map[string]string{`{"file_id":"file_1"}`: "own.txt", `{"file_id":"file_1","path":"in/x.csv"}`: "in/x.csv"} {
		res, text := h.do(t, "POST", "/v1/containers/cntr_1/files", []byte(body), nil)
		if res.StatusCode != 200 || h.containers.putName != want || !strings.Contains(text, `"path":"/mnt/data/`+want+`"`) || !strings.Contains(text, `"source":"user"`) {
			t.Errorf("%s: %d %s, the room got %q", body, res.StatusCode, text, h.containers.putName)
		}
	}
	// The seed's form may name the place.
	body := []byte(part(`form-data; name="path"`, "in/y.csv"))
	body = append(body[:len(body)-len("--b--\r\n")], part(`form-data; name="file"; filename="a"`, "x")...)
	res, text := h.do(t, "POST", "/v1/containers/cntr_1/files", body, func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data; boundary=b") })
	if res.StatusCode != 200 || h.containers.putName != "in/y.csv" {
		t.Errorf("a part named path: %d %s, the room got %q", res.StatusCode, text, h.containers.putName)
	}
}

func TestRestore(t *testing.T) {
	h := open(t, time.Minute)
	if res, body := h.do(t, "POST", "/v1/containers/cntr_1/restore", nil, nil); res.StatusCode != 200 || !strings.Contains(body, `"id":"cntr_1","object":"container"`) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	res, body := h.do(t, "POST", "/v1/containers/cntr_gone/restore", nil, nil)
	want := `"surviving":{"container_id":"cntr_gone","until":5000,"files":[{"id":"cfile_1","object":"container.file","bytes":3,"container_id":"cntr_gone",` +
		`"created_at":3000,"path":"/mnt/data/a.txt","source":"assistant"}],"more":true,"restore":true}`
	if res.StatusCode != 404 || !strings.Contains(body, `"code":"container_expired"`) || !strings.Contains(body, want) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, body := h.do(t, "POST", "/v1/containers/cntr_2/restore", nil, nil); res.StatusCode != 404 || strings.Contains(body, "surviving") {
		t.Errorf("unknown: %d %s", res.StatusCode, body)
	}
}

func TestDiskLimitIsShown(t *testing.T) {
	c := anyContainer
	if o := containerObject(c); o.Disk != nil {
		t.Errorf("without a limit: %+v", o.Disk)
	}
	c.DiskLimit = 5 << 30
	if o := containerObject(c); o.Disk == nil || o.Disk.LimitBytes != 5<<30 || o.Disk.EnforcedBy != "watchdog" {
		t.Errorf("with one: %+v", o.Disk)
	}
}

func TestUploadRefusals(t *testing.T) {
	whole := `form-data; name="file"; filename="a"`
	for _, c := range []struct {
		name, kind, body string
		status           int
		code             string
	}{
		{"by id, unknown", "application/json", `{"file_id":"file_2"}`, 404, "file_not_found"},
		{"by id, without one", "application/json", `{}`, 400, "missing_required_parameter"},
		{"by id, wrong type", "application/json", `{"file_id":1}`, 400, "invalid_type"},
		{"no type", "", "x", 415, "unsupported_content_type"},
		{"other type", "text/plain", "x", 415, "unsupported_content_type"},
		{"no boundary", "multipart/form-data", "x", 415, "unsupported_content_type"},
		{"no parts", "multipart/form-data; boundary=b", "--b--\r\n", 400, "missing_file_part"},
		{"empty", "multipart/form-data; boundary=b", "", 400, "missing_file_part"},
		{"other field", "multipart/form-data; boundary=b", part(`form-data; name="data"; filename="a"`, "x"), 400, "missing_file_part"},
		{"no filename", "multipart/form-data; boundary=b", part(`form-data; name="file"`, "x"), 400, "invalid_path"},
		{"not form-data", "multipart/form-data; boundary=b", part(`attachment; name="file"; filename="a"`, "x"), 400, "missing_file_part"},
		{"cut", "multipart/form-data; boundary=b", strings.TrimSuffix(part(whole, "half"), "\r\n--b--\r\n"), 400, "invalid_multipart"},
		{"oversized", "multipart/form-data; boundary=b", part(whole, strings.Repeat("x", 2<<20)), 413, "request_too_large"},
	} {
		h := open(t, time.Minute)
		res, text := h.do(t, "POST", "/v1/containers/cntr_1/files", []byte(c.body), func(r *http.Request) { r.Header.Set("Content-Type", c.kind) })
		if res.StatusCode != c.status || errorOf(t, text).code != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.name, res.StatusCode, text, c.status, c.code)
		}
	}
}

func part(disposition, content string) string {
	return "--b\r\nContent-Disposition: " + disposition + "\r\n\r\n" + content + "\r\n--b--\r\n"
}

func TestContentIsAnAttachmentWithRanges(t *testing.T) {
	h := open(t, time.Minute)
	h.containers.body = []byte("0123456789")
	h.containers.path = "/mnt/data/out/Bericht \"größe\"%.csv"
	h.containers.kind = "text/html"
	const path = "/v1/containers/cntr_1/files/cfile_1/content"
	res, body := h.do(t, "GET", path, nil, nil)
	if res.StatusCode != 200 || body != "0123456789" || res.ContentLength != 10 {
		t.Errorf("whole: %d %q, length %d", res.StatusCode, body, res.ContentLength)
	}
	for name, want := range map[string]string{
		"Content-Type":           "text/html",
		"X-Content-Type-Options": "nosniff",
		"Content-Disposition":    `attachment; filename="Bericht _gr__e__.csv"; filename*=UTF-8''Bericht%20%22gr%C3%B6%C3%9Fe%22%25.csv`,
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, params, err := mime.ParseMediaType(res.Header.Get("Content-Disposition")); err != nil || params["filename"] != `Bericht "größe"%.csv` {
		t.Errorf("the name reads back as %q, %v", params["filename"], err)
	}
	for _, c := range []struct {
		rng    string
		status int
		body   string
	}{
		{"bytes=2-4", 206, "234"}, {"bytes=-3", 206, "789"}, {"bytes=8-", 206, "89"}, {"bytes=0-99", 206, "0123456789"},
	} {
		res, body := h.do(t, "GET", path, nil, func(r *http.Request) { r.Header.Set("Range", c.rng) })
		if res.StatusCode != c.status || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.rng, res.StatusCode, body, c.status, c.body)
		}
	}
	res, body = h.do(t, "GET", path, nil, func(r *http.Request) { r.Header.Set("Range", "bytes=20-30") })
	if res.StatusCode != 416 || errorOf(t, body).code != "invalid_range" || res.Header.Get("Content-Disposition") != "" {
		t.Errorf("a range beyond the end: %d %s %v", res.StatusCode, body, res.Header)
	}
	if res, body := h.do(t, "HEAD", path, nil, nil); res.StatusCode != 200 || res.ContentLength != 10 || body != "" {
		t.Errorf("HEAD: %d length %d %q", res.StatusCode, res.ContentLength, body)
	}
	h.containers.kind = ""
	if res, _ := h.do(t, "GET", path, nil, nil); res.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("a file of unknown type is served as %s", res.Header.Get("Content-Type"))
	}
}

func TestFileListGetDelete(t *testing.T) {
	h := open(t, time.Minute)
	h.containers.path, h.containers.body = "/mnt/data/a.txt", []byte("abc")
	object := `{"id":"cfile_1","object":"container.file","bytes":3,"container_id":"cntr_1","created_at":3000,"path":"/mnt/data/a.txt","source":"assistant"}`
	if _, body := h.do(t, "GET", "/v1/containers/cntr_1/files/cfile_1", nil, nil); body != object+"\n" {
		t.Errorf("get: %s", body)
	}
	if _, body := h.do(t, "GET", "/v1/containers/cntr_1/files?limit=5&order=asc&after=cfile_0", nil, nil); body != `{"object":"list","data":[`+object+`],"first_id":"cfile_1","last_id":"cfile_1","has_more":false}`+"\n" {
		t.Errorf("list: %s", body)
	}
	if want := (container.Page{Limit: 5, After: "cfile_0", Order: "asc"}); h.containers.page != want {
		t.Errorf("the room was asked for %+v, want %+v", h.containers.page, want)
	}
	if _, body := h.do(t, "DELETE", "/v1/containers/cntr_1/files/cfile_1", nil, nil); body != `{"id":"cfile_1","object":"container.file.deleted","deleted":true}`+"\n" {
		t.Errorf("delete: %s", body)
	}
	if res, body := h.do(t, "GET", "/v1/containers/cntr_1/files/cfile_9/content", nil, nil); res.StatusCode != 404 || errorOf(t, body).code != "file_not_found" {
		t.Errorf("unknown file: %d %s", res.StatusCode, body)
	}
}

func TestContainers(t *testing.T) {
	h := open(t, time.Minute)
	object := `{"id":"cntr_1","object":"container","created_at":1000,"status":"active","name":"box","last_active_at":2000,` +
		`"expires_after":{"anchor":"last_active_at","minutes":20},"memory_limit":"1g","network_policy":{"type":"disabled"},"expires_at":3200,"idle_ttl_secs":1200}`
	skills := `,"skills":[{"type":"skill_reference","skill_id":"skill_1","version":"2","name":"maps","description":"draws maps","path":"/skills/maps"},` +
		`{"type":"inline","name":"note","description":"is a note","path":"/skills/note"}]}`
	if _, body := h.do(t, "GET", "/v1/containers/cntr_1", nil, nil); body != strings.TrimSuffix(object, "}")+skills+"\n" {
		t.Errorf("get: %s", body)
	}
	if _, body := h.do(t, "GET", "/v1/containers?name=box&limit=1", nil, nil); body != `{"object":"list","data":[`+object+`],"first_id":"cntr_1","last_id":"cntr_1","has_more":true}`+"\n" {
		t.Errorf("list: %s", body)
	}
	if want := (container.Page{Limit: 1, Order: "desc", Name: "box"}); h.containers.page != want {
		t.Errorf("the room was asked for %+v, want %+v", h.containers.page, want)
	}
	if _, body := h.do(t, "DELETE", "/v1/containers/cntr_1", nil, nil); body != `{"id":"cntr_1","object":"container.deleted","deleted":true}`+"\n" {
		t.Errorf("delete: %s", body)
	}
	if res, body := h.do(t, "POST", "/v1/containers", []byte(`{"name":"mine"}`), nil); res.StatusCode != 200 || !strings.Contains(body, `"object":"container"`) {
		t.Errorf("create: %d %s", res.StatusCode, body)
	}
	for _, c := range []struct{ body, code, param string }{
		{`{}`, "missing_required_parameter", "name"},
		{`{"name":7}`, "invalid_type", "name"},
		{`{"name":"x","expires_after":{"anchor":"last_active_at","minutes":"ten"}}`, "invalid_type", "expires_after.minutes"},
		{`{"name":"x","file_ids":"f"}`, "invalid_type", "file_ids"},
		{`{"name":"x"`, "invalid_body", ""},
	} {
		res, body := h.do(t, "POST", "/v1/containers", []byte(c.body), nil)
		if e := errorOf(t, body); res.StatusCode != 400 || e.code != c.code || e.param != c.param {
			t.Errorf("%s: %d %s, want %s %q", c.body, res.StatusCode, body, c.code, c.param)
		}
	}
}

func TestExpiredContainerIsTold(t *testing.T) {
	c := anyContainer
	c.Status, c.Ended = container.Expired, time.Unix(9000, 0)
	if o := containerObject(c); o.Status != "expired" || o.ExpiresAt != 9000 {
		t.Errorf("an expired container shows as %+v", fmt.Sprintf("%+v", o))
	}
}
