package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

// checkSource refuses a request that a web page could have made a browser send: a Host that is not ours (a name
// rebound to this address) or an Origin that is not. A key does not excuse it.
func (g *Gateway) checkSource(r *http.Request) error {
	if !g.ourHost(r) {
		return fault.New(fault.Forbidden, "The Host %q is not a name of this server.", clip(r.Host)).
			WithCode("host_not_allowed").WithTry("the address that the server printed, or add the name to server.allowed_hosts")
	}
	if origins := r.Header["Origin"]; len(origins) > 0 {
		if len(origins) != 1 || !g.ourOrigin(r, origins[0]) {
			return fault.New(fault.Forbidden, "Requests from the web origin %q are not allowed.", clip(origins[0])).
				WithCode("origin_not_allowed").WithTry("a client that is not a web page, or add the origin's host to server.allowed_hosts")
		}
		return nil
	}
	// Browsers leave Origin out of some requests but say where they came from.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return nil
	}
	return fault.New(fault.Forbidden, "Requests from other web sites are not allowed.").WithCode("origin_not_allowed")
}

// ourHost says whether Host is a loopback name or the very address that the connection came to, with its port, or
// a name that the operator allowed.
func (g *Gateway) ourHost(r *http.Request) bool {
	if g.allowed(r.Host) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return false
	}
	name, port := splitHost(r.Host, r.TLS != nil)
	if port != local.AddrPort().Port() {
		return false
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil || addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap()
	return addr.IsLoopback() || addr == local.AddrPort().Addr().Unmap().WithZone("")
}

// ourOrigin says whether an Origin is the server that the request is addressed to, or a host that the operator
// allowed. The scheme is compared only where it is ours to know: behind a proxy that ends TLS it is not.
func (g *Gateway) ourOrigin(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if g.allowed(u.Host) {
		return true
	}
	return strings.EqualFold(u.Host, r.Host) && (u.Scheme == "https") == (r.TLS != nil)
}

// allowed looks a host, with or without a port, up in the operator's list.
func (g *Gateway) allowed(host string) bool {
	if len(g.hosts) == 0 || host == "" {
		return false
	}
	host = strings.ToLower(host)
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	for _, h := range g.hosts {
		if h == host || h == name {
			return true
		}
	}
	return false
}

// splitHost splits a Host header; a missing port is the scheme's. A Host that cannot be split has port 0, which no
// listener has.
func splitHost(host string, tls bool) (name string, port uint16) {
	if h, p, err := net.SplitHostPort(host); err == nil {
		ap, err := netip.ParseAddrPort("127.0.0.1:" + p)
		if err != nil {
			return h, 0
		}
		return h, ap.Port()
	}
	port = 80
	if tls {
		port = 443
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), port
}

// authenticate reads the key from Authorization or x-api-key. Where both are given, the first that is looked at decides.
func (g *Gateway) authenticate(r *http.Request, apiKeyFirst bool) (tenant.Principal, error) {
	token, other := bearer(r.Header.Get("Authorization")), r.Header.Get("X-Api-Key")
	if token == "" || apiKeyFirst && other != "" {
		token = other
	}
	if token == "" {
		return tenant.Principal{}, fault.New(fault.Unauthenticated, "No API key was given.").WithCode("invalid_api_key").
			WithTry("the header `Authorization: Bearer KEY`; the first key is in admin.key of the data folder")
	}
	return g.tenants.Authenticate(r.Context(), token)
}

// bearer returns the token of a Bearer header, or "".
func bearer(header string) string {
	scheme, token, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// clip shortens what a stranger sent before it is shown back.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
