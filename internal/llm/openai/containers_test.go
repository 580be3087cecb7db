package openai

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// containersOf is the API of a server that answers as the test says.
func containersOf(t *testing.T, o Options, serve http.HandlerFunc) *Containers {
	o.Options.Name, o.Options.APIKey, o.Options.BaseURL = "test", "sk-test", providertest.Serve(t, serve)
	p := New(o)
	t.Cleanup(p.Close)
	return p.Containers()
}

func TestContainersOnTheWire(t *testing.T) {
	var got []string
	c := containersOf(t, Options{APIVersion: "v1"}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
			form, err := http.NewRequest(r.Method, "/", strings.NewReader(string(body)))
			if err == nil {
				form.Header = r.Header
				err = form.ParseMultipartForm(1 << 20)
			}
			if err != nil {
				t.Error(err)
				return
			}
			f := form.MultipartForm.File["file"][0]
			in, _ := f.Open()
			body, _ = io.ReadAll(in)
			body = fmt.Appendf(nil, "%s:%s", f.Filename, body)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", r.Method, r.URL, r.Header.Get("Authorization"), body))
		switch {
		case strings.HasSuffix(r.URL.Path, "/content"):
			if r.Header.Get("Range") == "bytes=3-" {
				w.Header().Set("Content-Range", "bytes 3-9/10")
				w.WriteHeader(http.StatusPartialContent)
				io.WriteString(w, "3456789")
				return
			}
			io.WriteString(w, "0123456789")
		case strings.HasSuffix(r.URL.Path, "/files") && r.Method == http.MethodGet:
			io.WriteString(w, `{"object":"list","data":[{"id":"cfile_1","path":"/mnt/data/a","bytes":3}],"has_more":true}`)
		default:
			io.WriteString(w, `{"id":"x_1","status":"running","path":"/mnt/data/a","bytes":3}`)
		}
	})
	ctx := t.Context()
	limit := "1g"
	o, err := c.CreateContainer(ctx, wire.ContainerRequest{Name: "n", MemoryLimit: &limit, NetworkPolicy: &wire.NetworkPolicy{Type: "disabled"}})
	if err != nil || o.ID != "x_1" {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := c.Container(ctx, "a/b"); err != nil {
		t.Error(err)
	}
	if l, err := c.ContainerFiles(ctx, "c", 2, "cfile_0", "asc"); err != nil || len(l.Data) != 1 || !l.HasMore {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := c.ContainerFile(ctx, "c", "f"); err != nil {
		t.Error(err)
	}
	if _, err := c.PutContainerFile(ctx, "c", "ä b.txt", strings.NewReader("abc")); err != nil {
		t.Error(err)
	}
	if err := c.DeleteContainerFile(ctx, "c", "f"); err != nil {
		t.Error(err)
	}
	if err := c.DeleteContainer(ctx, "c"); err != nil {
		t.Error(err)
	}
	for from, want := range map[int64]string{0: "0123456789", 3: "3456789", 4: "456789"} {
		r, size, err := c.ContainerFileContent(ctx, "c", "f", from)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(r)
		r.Close()
		if string(b) != want || size != 10 {
			t.Errorf("from %d: %q of %d", from, b, size)
		}
	}
	want := []string{`POST /containers?api-version=v1 Bearer sk-test {"memory_limit":"1g","name":"n","network_policy":{"type":"disabled"}}`,
		"GET /containers/a%2Fb?api-version=v1 Bearer sk-test ", "GET /containers/c/files?api-version=v1&after=cfile_0&limit=2&order=asc Bearer sk-test ",
		"GET /containers/c/files/f?api-version=v1 Bearer sk-test ", "POST /containers/c/files?api-version=v1 Bearer sk-test ä b.txt:abc",
		"DELETE /containers/c/files/f?api-version=v1 Bearer sk-test ", "DELETE /containers/c?api-version=v1 Bearer sk-test "}
	for i, w := range want {
		if got[i] != w {
			t.Errorf("call %d: %s\nwant %s", i, got[i], w)
		}
	}
}

func TestContainerErrors(t *testing.T) {
	for status, want := range map[int]fault.Kind{404: fault.NotFound, 400: fault.Invalid, 409: fault.Invalid, 422: fault.Invalid, 413: fault.TooLarge,
		401: fault.Upstream, 403: fault.Upstream, 429: fault.Upstream, 500: fault.Upstream, 302: fault.Upstream} {
		c := containersOf(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			io.WriteString(w, `{"error":{"message":"no, sk-test","type":"t"}}`)
		})
		_, err := c.Container(t.Context(), "c")
		if fault.KindOf(err) != want || strings.Contains(fmt.Sprint(err), "sk-test") {
			t.Errorf("%d: %v (%v)", status, err, fault.KindOf(err))
		}
		if _, _, err := c.ContainerFileContent(t.Context(), "c", "f", 0); fault.KindOf(err) != want {
			t.Errorf("%d, content: %v", status, err)
		}
	}
	c := containersOf(t, Options{Options: upstream.Options{}}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
	if _, err := c.Container(t.Context(), "c"); fault.KindOf(err) != fault.Upstream {
		t.Errorf("a page: %v", err)
	}
}
