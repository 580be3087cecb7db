package gateway_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

func TestHostAndOrigin(t *testing.T) {
	f := start(t, gateway.Options{AllowedHosts: []string{"shell.example.org", "exact.example.org:444"}},
		map[string]gateway.Handler{"POST /v1/thing": ok})
	u, err := url.Parse(f.base)
	if err != nil {
		t.Fatal(err)
	}
	port := u.Port()
	for _, c := range []struct {
		name   string
		host   string
		origin string
		site   string // Sec-Fetch-Site
		status int
	}{
		{"as printed", "127.0.0.1:" + port, "", "", 200},
		{"by name", "localhost:" + port, "", "", 200},
		{"by name, capitals", "LocalHost:" + port, "", "", 200},
		{"another loopback address", "127.9.9.9:" + port, "", "", 200},
		{"IPv6 loopback", "[::1]:" + port, "", "", 200},
		{"mapped loopback", "[::ffff:127.0.0.1]:" + port, "", "", 200},
		{"allowed name", "shell.example.org", "", "", 200},
		{"allowed name, any port", "Shell.Example.org:8443", "", "", 200},
		{"allowed with its port", "exact.example.org:444", "", "", 200},
		{"allowed with another port", "exact.example.org:445", "", "", 403},
		{"rebinding name", "evil.example", "", "", 403},
		{"rebinding name with our port", "evil.example:" + port, "", "", 403},
		{"name that begins like ours", "localhost.evil.example:" + port, "", "", 403},
		{"name that begins like an address", "127.0.0.1.evil.example:" + port, "", "", 403},
		{"allowed name as a suffix", "evilshell.example.org", "", "", 403},
		{"loopback with another port", "127.0.0.1:1", "", "", 403},
		{"loopback without a port", "127.0.0.1", "", "", 403},
		{"address that is not ours", "192.0.2.7:" + port, "", "", 403},
		{"user in host", "localhost@evil.example:" + port, "", "", 403},

		{"same origin", "127.0.0.1:" + port, "http://127.0.0.1:" + port, "same-origin", 200},
		{"origin of an allowed name", "shell.example.org", "https://shell.example.org", "", 200},
		{"other origin", "127.0.0.1:" + port, "https://evil.example", "cross-site", 403},
		{"other origin, no fetch metadata", "127.0.0.1:" + port, "https://evil.example", "", 403},
		{"other port", "127.0.0.1:" + port, "http://127.0.0.1:1", "same-site", 403},
		{"other name of loopback", "127.0.0.1:" + port, "http://localhost:" + port, "", 403},
		{"other scheme", "127.0.0.1:" + port, "https://127.0.0.1:" + port, "", 403},
		{"opaque origin", "127.0.0.1:" + port, "null", "", 403},
		{"origin with a path", "127.0.0.1:" + port, "http://127.0.0.1:" + port + "/x", "", 403},
		{"origin with a user", "127.0.0.1:" + port, "http://x@127.0.0.1:" + port, "", 403},
		{"extension origin", "127.0.0.1:" + port, "chrome-extension://abc", "", 403},
		{"cross-site without origin", "127.0.0.1:" + port, "", "cross-site", 403},
		{"typed into the browser", "127.0.0.1:" + port, "", "none", 200},
	} {
		res, body := f.send(t, "POST", "/v1/thing", nil, func(r *http.Request) {
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if c.site != "" {
				r.Header.Set("Sec-Fetch-Site", c.site)
			}
		})
		if res.StatusCode != c.status {
			t.Errorf("%s: Host %q Origin %q: %d, want %d: %s", c.name, c.host, c.origin, res.StatusCode, c.status, body)
		}
	}
	t.Run("two origins", func(t *testing.T) {
		res, _ := f.send(t, "POST", "/v1/thing", nil, func(r *http.Request) {
			r.Header["Origin"] = []string{f.base, "https://evil.example"}
		})
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("two Origin headers: %d, want 403", res.StatusCode)
		}
	})
}

// TestAPathOfItsOwn: what is registered beside the API is guarded like it, and stands at its one path.
func TestAPathOfItsOwn(t *testing.T) {
	f := start(t, gateway.Options{}, nil)
	f.g.HandleAt(http.MethodPost, "/own", tenant.ScopeRun, ok, nil)
	for _, c := range []struct {
		name, method, path string
		change             func(*http.Request)
		status             int
	}{
		{"it answers", "POST", "/own", nil, 200},
		{"no key", "POST", "/own", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"a wrong key", "POST", "/own", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, 401},
		{"a key for something else", "POST", "/own", func(r *http.Request) { r.Header.Set("Authorization", "Bearer approve-key") }, 403},
		{"a web page", "POST", "/own", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"another host", "POST", "/own", func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"another method", "GET", "/own", nil, 405},
		{"the API's root", "POST", "/v1/own", nil, 404},
		{"below it", "POST", "/own/x", nil, 404},
	} {
		if res, text := f.send(t, c.method, c.path, nil, c.change); res.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.name, res.StatusCode, text)
		}
	}
}
