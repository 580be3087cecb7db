package openai

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/gateway"
)

// concrete fills a route's wildcards.
func concrete(path string) string {
	return strings.NewReplacer("{id...}", "scripted", "{id}", "cntr_1", "{file}", "cfile_1").Replace(path)
}

// TestEveryRouteRefusesStrangers walks the route table: whatever is registered later is covered without being named.
func TestEveryRouteRefusesStrangers(t *testing.T) {
	h := open(t, time.Minute)
	routes := h.gateway.Routes()
	if len(routes) < 32 {
		t.Fatalf("only %d routes: the table is broken", len(routes))
	}
	roots := map[string]int{}
	for _, rt := range routes {
		root, _, _ := strings.Cut(strings.TrimPrefix(rt.Path, "/api"), "/v1/")
		if root != "" {
			t.Errorf("%s %s is outside /v1/ and /api/v1/", rt.Method, rt.Path)
		}
		roots[rt.Path[:strings.Index(rt.Path, "v1/")]]++
		for _, c := range []struct {
			name   string
			mutate func(*http.Request)
			status int
			code   string
		}{
			{"no key", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "invalid_api_key"},
			{"wrong key", func(r *http.Request) { r.Header.Set("Authorization", "Bearer guess") }, 401, "invalid_api_key"},
			{"wrong x-api-key", func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("X-Api-Key", "guess") }, 401, "invalid_api_key"},
			{"key in the query", func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "api_key=" + keyOne }, 401, "invalid_api_key"},
			{"key of another scope", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+keyApprove) }, 403, "insufficient_scope"},
			{"other origin", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403, "origin_not_allowed"},
			{"other origin, no key", func(r *http.Request) {
				r.Header.Del("Authorization")
				r.Header.Set("Origin", "https://evil.example")
			}, 403, "origin_not_allowed"},
			{"opaque origin", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403, "origin_not_allowed"},
			{"rebinding name", func(r *http.Request) { r.Host = "rebound.example" + h.url[strings.LastIndex(h.url, ":"):] }, 403, "host_not_allowed"},
			{"rebinding name as its own origin", func(r *http.Request) {
				r.Host = "rebound.example"
				r.Header.Set("Origin", "http://rebound.example")
				r.Header.Set("Sec-Fetch-Site", "same-origin")
			}, 403, "host_not_allowed"},
		} {
			for _, upgrade := range []bool{false, rt.Method == "GET"} { // a page may open a WebSocket where it may not read
				res, body := h.do(t, rt.Method, concrete(rt.Path), []byte("{}"), func(r *http.Request) {
					if upgrade {
						handshake(r)
					}
					c.mutate(r)
				})
				if res.StatusCode != c.status || errorOf(t, body).code != c.code {
					t.Errorf("%s %s, %s, upgrade %v: %d %s, want %d %s", rt.Method, rt.Path, c.name, upgrade, res.StatusCode, body, c.status, c.code)
				}
				if res.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s %s, %s: a CORS header", rt.Method, rt.Path, c.name)
				}
			}
		}
	}
	if roots["/"] != roots["/api/"] || len(roots) != 2 {
		t.Errorf("routes by root: %v", roots)
	}
	if h.agent.last != nil || h.containers.spec.Name != "" || h.containers.putName != "" {
		t.Error("a refused request reached a room")
	}
}

// TestAnotherOrganisationsThingsLookAbsent compares whole answers: an id of another organisation and an id that
// never was differ in nothing.
func TestAnotherOrganisationsThingsLookAbsent(t *testing.T) {
	h := open(t, time.Minute)
	run := newRun()
	run.final.Background = true
	h.responses.runs["resp_1"] = run
	h.containers.path = "/mnt/data/a.txt"
	stranger := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+keyTwo) }
	upload, kind := form(t, `form-data; name="file"; filename="a.txt"`, "x")
	for _, c := range []struct{ method, path, unknown string }{
		{"GET", "/v1/responses/resp_1", "/v1/responses/resp_2"},
		{"GET", "/v1/responses/resp_1?stream=true", "/v1/responses/resp_2?stream=true"},
		{"DELETE", "/v1/responses/resp_1", "/v1/responses/resp_2"},
		{"POST", "/v1/responses/resp_1/cancel", "/v1/responses/resp_2/cancel"},
		{"GET", "/v1/responses/resp_1/input_items", "/v1/responses/resp_2/input_items"},
		{"GET", "/v1/containers/cntr_1", "/v1/containers/cntr_2"},
		{"DELETE", "/v1/containers/cntr_1", "/v1/containers/cntr_2"},
		{"POST", "/v1/containers/cntr_1/files", "/v1/containers/cntr_2/files"},
		{"GET", "/v1/containers/cntr_1/files", "/v1/containers/cntr_2/files"},
		{"GET", "/v1/containers/cntr_1/files/cfile_1", "/v1/containers/cntr_2/files/cfile_1"},
		{"DELETE", "/v1/containers/cntr_1/files/cfile_1", "/v1/containers/cntr_2/files/cfile_1"},
		{"GET", "/v1/containers/cntr_1/files/cfile_1/content", "/v1/containers/cntr_2/files/cfile_1/content"},
	} {
		body := []byte(nil)
		own := func(*http.Request) {}
		if strings.HasSuffix(c.path, "/files") && c.method == "POST" {
			body, own = upload, func(r *http.Request) { r.Header.Set("Content-Type", kind) }
		}
		theirs, theirBody := h.do(t, c.method, c.path, body, func(r *http.Request) { own(r); stranger(r) })
		never, neverBody := h.do(t, c.method, c.unknown, body, own)
		if theirs.StatusCode != 404 || never.StatusCode != 404 || theirBody != neverBody {
			t.Errorf("%s %s: another's %d %s, unknown %d %s", c.method, c.path, theirs.StatusCode, theirBody, never.StatusCode, neverBody)
		}
	}
	if _, body := h.do(t, "GET", "/v1/containers", nil, stranger); !strings.Contains(body, `"data":[]`) {
		t.Errorf("another organisation's list: %s", body)
	}
}

func TestUnknownPathsSpeakTheEnvelope(t *testing.T) {
	h := open(t, time.Minute)
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"POST", "/v1/chat/unknown", 404, "unknown_url"},
		{"POST", "/v1/responses/compact", 405, "method_not_allowed"}, // not served yet; some clients look for it
		{"GET", "/", 404, "unknown_url"},
		{"PATCH", "/v1/responses", 405, "method_not_allowed"},
		{"OPTIONS", "/v1/responses", 405, "method_not_allowed"},
		{"GET", "/v1/responses", 426, "upgrade_required"},
	} {
		res, body := h.do(t, c.method, c.path, nil, nil)
		if res.StatusCode != c.status || errorOf(t, body).code != c.code {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.StatusCode, body)
		}
	}
	if res, body := h.do(t, "HEAD", "/v1/models", nil, nil); res.StatusCode != 200 || body != "" {
		t.Errorf("HEAD: %d %q", res.StatusCode, body)
	}
}

type seenError struct{ message, typ, param, code string }

// errorOf reads the envelope; all four keys must be there.
func errorOf(t testing.TB, body string) seenError {
	t.Helper()
	var e struct {
		Error map[string]*string `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("not an error envelope: %v: %s", err, body)
	}
	var out seenError
	for key, field := range map[string]*string{"message": &out.message, "type": &out.typ, "param": &out.param, "code": &out.code} {
		v, ok := e.Error[key]
		if !ok {
			t.Fatalf("the envelope lacks %q: %s", key, body)
		}
		if v != nil {
			*field = *v
		}
	}
	return out
}

func TestEnvelopeTypes(t *testing.T) {
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		405: "invalid_request_error", 409: "invalid_request_error", 413: "invalid_request_error", 416: "invalid_request_error",
		429: "rate_limit_error", 499: "invalid_request_error", 500: "server_error", 502: "server_error", 503: "server_error",
	} {
		if got := errorType(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

var _ gateway.ErrorWriter = WriteError
