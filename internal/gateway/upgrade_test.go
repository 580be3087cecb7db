package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

// handshake makes a request that asks for an upgrade.
func handshake(r *http.Request) {
	r.Header.Set("Connection", "keep-alive, Upgrade")
	r.Header.Set("Upgrade", "WebSocket")
	r.Header.Set("Sec-WebSocket-Version", "13")
	r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
}

// TestUpgradesAreRefused: what is no handshake, and a handshake of somebody who may not, is answered like any request.
func TestUpgradesAreRefused(t *testing.T) {
	f := start(t, gateway.Options{}, nil)
	reached := false
	f.g.Handle("GET /v1/talk", tenant.ScopeRun, func(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
		_, err := gateway.Upgrade(w, r, time.Minute)
		reached = reached || err == nil
		return err
	}, func(w http.ResponseWriter, _ *http.Request, err error) {
		d := gateway.Describe(err, "")
		w.WriteHeader(d.Status)
		json.NewEncoder(w).Encode(map[string]string{"code": d.Code})
	})
	for _, c := range []struct {
		name   string
		method string
		change func(*http.Request)
		status int
		code   string
	}{
		{"no upgrade", "GET", func(r *http.Request) { r.Header = http.Header{"Authorization": r.Header["Authorization"]} }, 426, "upgrade_required"},
		{"its head", "HEAD", nil, 426, ""},
		{"another protocol", "GET", func(r *http.Request) { r.Header.Set("Upgrade", "h2c") }, 426, "upgrade_required"},
		{"another connection", "GET", func(r *http.Request) { r.Header.Set("Connection", "keep-alive") }, 426, "upgrade_required"},
		{"another version", "GET", func(r *http.Request) { r.Header.Set("Sec-WebSocket-Version", "8") }, 426, "upgrade_required"},
		{"no Sec-WebSocket-Key", "GET", func(r *http.Request) { r.Header.Del("Sec-WebSocket-Key") }, 400, "invalid_handshake"},
		{"two of them", "GET", func(r *http.Request) { r.Header.Add("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==") }, 400, "invalid_handshake"},
		{"a short one", "GET", func(r *http.Request) { r.Header.Set("Sec-WebSocket-Key", "c2hvcnQ=") }, 400, "invalid_handshake"},
		{"no base64", "GET", func(r *http.Request) { r.Header.Set("Sec-WebSocket-Key", "!") }, 400, "invalid_handshake"},
		{"a body", "GET", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1 }, 400, "invalid_handshake"},

		{"no key", "GET", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "invalid_api_key"},
		{"a wrong key", "GET", func(r *http.Request) { r.Header.Set("Authorization", "Bearer guess") }, 401, "invalid_api_key"},
		{"a key for something else", "GET", func(r *http.Request) { r.Header.Set("Authorization", "Bearer approve-key") }, 403, "insufficient_scope"},
		{"a web page", "GET", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403, "origin_not_allowed"},
		{"a page without an origin", "GET", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403, "origin_not_allowed"},
		{"a page of another site, no origin", "GET", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403, "origin_not_allowed"},
		{"a rebound name", "GET", func(r *http.Request) { r.Host = "evil.example" + f.base[strings.LastIndex(f.base, ":"):] }, 403, "host_not_allowed"},
		{"a rebound name as its own origin", "GET", func(r *http.Request) {
			r.Host = "evil.example"
			r.Header.Set("Origin", "http://evil.example")
		}, 403, "host_not_allowed"},
	} {
		res, text := f.send(t, c.method, "/v1/talk", nil, func(r *http.Request) {
			handshake(r)
			if c.change != nil {
				c.change(r)
			}
		})
		if res.StatusCode != c.status || c.code != "" && !strings.Contains(text, `"code":"`+c.code+`"`) {
			t.Errorf("%s: %d %s, want %d %s", c.name, res.StatusCode, text, c.status, c.code)
		}
		if res.StatusCode == 426 && (res.Header.Get("Upgrade") != "websocket" || res.Header.Get("Sec-WebSocket-Version") != "13") {
			t.Errorf("%s: %v does not say what is wanted", c.name, res.Header)
		}
	}
	if reached {
		t.Error("a refused request became a socket")
	}
}
