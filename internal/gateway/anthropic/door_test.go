package anthropic

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

// Every route of the door wants a key with the right scope and comes from nowhere else, and says so in the vendor's words.
func TestEveryRouteRefusesStrangers(t *testing.T) {
	h := open(t, time.Minute)
	routes := h.routes.Routes()
	if len(routes) != 12 {
		t.Fatalf("%d routes", len(routes))
	}
	for _, rt := range routes {
		path := strings.NewReplacer("{id...}", "a/one", "{id}", "cfile_1").Replace(rt.Path)
		for _, c := range []struct {
			name   string
			mutate func(*http.Request)
			status int
			typ    string
		}{
			{"no key", func(r *http.Request) { r.Header.Del("X-Api-Key") }, 401, wire.ErrorAuthentication},
			{"a wrong key", func(r *http.Request) { r.Header.Set("X-Api-Key", "guess") }, 401, wire.ErrorAuthentication},
			{"a wrong bearer", func(r *http.Request) {
				r.Header.Del("X-Api-Key")
				r.Header.Set("Authorization", "Bearer guess")
			}, 401, wire.ErrorAuthentication},
			{"a wrong key beside a good one", func(r *http.Request) {
				r.Header.Set("X-Api-Key", "guess")
				r.Header.Set("Authorization", "Bearer "+keyOne)
			}, 401, wire.ErrorAuthentication},
			{"another scope", func(r *http.Request) { r.Header.Set("X-Api-Key", keyApprove) }, 403, wire.ErrorPermission},
			{"another origin", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403, wire.ErrorPermission},
			{"another host", func(r *http.Request) { r.Host = "rebound.example" }, 403, wire.ErrorPermission},
		} {
			res, body := h.do(t, rt.Method, path, hello, c.mutate)
			if e := refusal(t, res, body); res.StatusCode != c.status || e.Type != c.typ {
				t.Errorf("%s %s, %s: %d %s", rt.Method, rt.Path, c.name, res.StatusCode, body)
			}
		}
	}
	if h.agent.last != nil {
		t.Error("a refused request reached the agent")
	}
}

// Both key headers and both versions are taken, and no version is the first one.
func TestKeysAndVersions(t *testing.T) {
	for _, c := range []struct {
		name   string
		mutate func(*http.Request)
		status int
	}{
		{"x-api-key", nil, 200},
		{"bearer", func(r *http.Request) {
			r.Header.Del("X-Api-Key")
			r.Header.Set("Authorization", "Bearer "+keyOne)
		}, 200},
		{"a good key beside a wrong bearer", func(r *http.Request) { r.Header.Set("Authorization", "Bearer guess") }, 200},
		{"2026-10-21", func(r *http.Request) { r.Header.Set(header, wire.Version2026) }, 200},
		{"none", func(r *http.Request) { r.Header.Del(header) }, 200},
		{"none, and the key beside a wrong bearer", func(r *http.Request) { r.Header.Del(header); r.Header.Set("Authorization", "Bearer guess") }, 200},
		{"a later one", func(r *http.Request) { r.Header.Set(header, "2031-01-01") }, 200},
		{"no date", func(r *http.Request) { r.Header.Set(header, "latest") }, 400},
		{"before the first", func(r *http.Request) { r.Header.Set(header, "2023-01-01") }, 400},
	} {
		h := open(t, time.Minute)
		h.agent.play = plays[0].play
		res, body := h.do(t, "POST", "/v1/messages", hello, c.mutate)
		if res.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.name, res.StatusCode, body)
		}
		if c.status == 200 && (h.agent.last.Store == nil || *h.agent.last.Store) {
			t.Errorf("%s: the answer is stored", c.name)
		}
	}
	h := open(t, time.Minute)
	h.agent.play = plays[0].play
	if res, body := h.do(t, "POST", "/v1/messages", strings.TrimSuffix(hello, "}")+`,"top_k":4}`, nil); res.StatusCode != 200 || !strings.Contains(res.Header.Get("X-Hardshell-Warning"), "top_k") {
		t.Errorf("top_k: %d %v %s", res.StatusCode, res.Header, body)
	}
	for version, want := range map[string]int{wire.Version2023: 200, wire.Version2026: 400, "": 200} {
		res, body := h.do(t, "POST", "/v1/messages", strings.TrimSuffix(hello, "}")+`,"temperature":1}`, func(r *http.Request) {
			r.Header.Del(header)
			if version != "" {
				r.Header.Set(header, version)
			}
		})
		if res.StatusCode != want {
			t.Errorf("temperature under %q: %d %s", version, res.StatusCode, body)
		}
	}
}

// Where another vendor has the same path the header decides, and what this one lacks is never answered in that one's shape.
func TestTheHeaderChoosesTheDialect(t *testing.T) {
	h := open(t, time.Minute)
	plain := func(r *http.Request) { r.Header.Del(header) }
	for _, path := range []string{"/v1/models", "/api/v1/models/a/one", "/v1/files/cfile_1", "/v1/skills"} {
		if res, body := h.do(t, "GET", path, "", plain); res.StatusCode != 200 || body != "the other vendor's" {
			t.Errorf("GET %s without the header: %d %s", path, res.StatusCode, body)
		}
	}
	for _, c := range []struct{ method, path string }{{"GET", "/v1/skills"}, {"POST", "/v1/files"}, {"GET", "/v1/files"}, {"GET", "/api/v1/messages/batches"},
		{"GET", "/v1/nothing"}, {"DELETE", "/v1/files/cfile_1"}, {"GET", "/v1/messages"}} {
		res, body := h.do(t, c.method, c.path, "", nil)
		e := refusal(t, res, body)
		if want := map[bool]string{true: wire.ErrorNotFound, false: wire.ErrorInvalidRequest}[res.StatusCode == 404]; res.StatusCode != 404 && res.StatusCode != 405 || e.Type != want {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.StatusCode, body)
		}
	}
	res, body := h.do(t, "GET", "/healthz", "", nil)
	if res.StatusCode != 200 {
		t.Errorf("healthz with the header: %d %s", res.StatusCode, body)
	}
}

func TestModels(t *testing.T) {
	h := open(t, time.Minute)
	for query, want := range map[string]string{
		"":                            "a/one a/shared b/shared b/deep/name false",
		"?limit=2":                    "a/one a/shared true",
		"?limit=2&after_id=a/one":     "a/shared b/shared true",
		"?after_id=b/deep/name":       " false",
		"?limit=1&before_id=b/shared": "a/shared true",
		"?before_id=a/shared":         "a/one false",
	} {
		res, body := h.do(t, "GET", "/v1/models"+query, "", nil)
		var l wire.ModelList
		if err := json.Unmarshal([]byte(body), &l); err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %d %s", query, res.StatusCode, body)
		}
		var ids []string
		for _, m := range l.Data {
			ids = append(ids, m.ID)
			if _, err := time.Parse(time.RFC3339, m.CreatedAt); err != nil || m.Type != "model" || m.DisplayName == "" {
				t.Errorf("%+v: %v", m, err)
			}
		}
		if got := strings.Join(ids, " ") + map[bool]string{true: " true", false: " false"}[l.HasMore]; got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?after_id=nobody", "?before_id=nobody", "?before_id=a/one&after_id=a/one"} {
		if res, body := h.do(t, "GET", "/v1/models"+query, "", nil); res.StatusCode != 400 || refusal(t, res, body).Type != wire.ErrorInvalidRequest {
			t.Errorf("%s: %d %s", query, res.StatusCode, body)
		}
	}
	for name, want := range map[string]int{"a/one": 200, "one": 200, "b/deep/name": 200, "shared": 404, "nobody": 404} {
		if res, body := h.do(t, "GET", "/v1/models/"+name, "", nil); res.StatusCode != want {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
}

func TestOutputFiles(t *testing.T) {
	h := open(t, time.Minute)
	res, body := h.do(t, "GET", "/v1/files/cfile_1", "", nil)
	want := `{"id":"cfile_1","type":"file","filename":"a.csv","mime_type":"text/csv","size_bytes":3,"created_at":"1970-01-01T00:50:00Z","downloadable":true}`
	if res.StatusCode != 200 || strings.TrimSpace(body) != want {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	res, body = h.do(t, "GET", "/v1/files/cfile_1/content", "", nil)
	if res.StatusCode != 200 || body != "a,b" || !strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
	}
	for _, path := range []string{"/v1/files/cfile_1", "/v1/files/cfile_1/content"} {
		res, body := h.do(t, "GET", path, "", func(r *http.Request) { r.Header.Set("X-Api-Key", keyTwo) })
		if e := refusal(t, res, body); res.StatusCode != 404 || e.Type != wire.ErrorNotFound {
			t.Errorf("another organisation's %s: %d %s", path, res.StatusCode, body)
		}
	}
}

func TestCountTokens(t *testing.T) {
	h := open(t, time.Minute)
	count := func(body string) int64 {
		t.Helper()
		res, text := h.do(t, "POST", "/v1/messages/count_tokens", body, nil)
		var n wire.TokenCount
		if err := json.Unmarshal([]byte(text), &n); err != nil || res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, text)
		}
		return n.InputTokens
	}
	small := count(`{"model":"m","messages":[{"role":"user","content":"hello there, how are you?"}]}`)
	if small < 7 || small > 20 {
		t.Errorf("six words are %d tokens", small)
	}
	if n := count(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 1000) + `"}]}`); n < 1000 || n > 1500 {
		t.Errorf("a thousand words are %d tokens", n)
	}
	if n := count(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("語", 300) + `"}]}`); n < 200 || n > 400 {
		t.Errorf("300 characters are %d tokens", n)
	}
	if n := count(`{"model":"m","system":"s","tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hello there, how are you?"}]}`); n <= small {
		t.Errorf("a tool and a system prompt cost nothing: %d", n)
	}
	res, text := h.do(t, "POST", "/v1/messages/count_tokens", `{"model":"m"}`, nil)
	if res.StatusCode != 400 {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if h.agent.last != nil {
		t.Error("a count reached the agent")
	}
}

func TestBadBodies(t *testing.T) {
	h := open(t, time.Minute)
	for _, body := range []string{``, `null`, `[]`, `{"model":`, `{"model":1}`, `{"model":"m","max_tokens":"many"}`, `{"model":"m","max_tokens":1,"messages":{}}`,
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":5}]}`} {
		res, text := h.do(t, "POST", "/v1/messages", body, nil)
		if e := refusal(t, res, text); res.StatusCode != 400 || strings.Contains(e.Message, "anthropic.") {
			t.Errorf("%s: %d %s", body, res.StatusCode, text)
		}
	}
	res, text := h.do(t, "POST", "/v1/messages", `{"model":"`+strings.Repeat("x", 1<<20)+`"}`, nil)
	if res.StatusCode != 413 || refusal(t, res, text).Type != wire.ErrorTooLarge {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

// The routes that stand beside another vendor's are described with them; those of this vendor alone have entries.
func TestTheRoutesAreDescribed(t *testing.T) {
	raw, err := os.ReadFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens", "/v1/models", "/v1/models/{id}", "/v1/files/{id}", "/v1/files/{id}/content"} {
		_, entry, ok := strings.Cut(string(raw), "\n  "+path+":\n")
		entry, _, _ = strings.Cut(entry, "\n  /")
		if !ok || !strings.Contains(strings.ToLower(entry), "anthropic") {
			t.Errorf("api/openapi.yaml does not tell of %s in the vendor's shape", path)
		}
	}
}
