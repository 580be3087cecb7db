package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/tenant"
)

// Dialect is the routes of an API whose clients send a header that no other client sends. What carries the header finds
// these routes alone: two vendors have paths of the same name, and neither's answer may take the other's shape.
type Dialect struct {
	g      *Gateway
	header string
	errs   ErrorWriter
	mux    *http.ServeMux
	allow  map[string][]string // path pattern -> methods
	routes []Route
}

// Dialect makes the routes of requests that carry the header. There is one dialect.
func (g *Gateway) Dialect(header string, errs ErrorWriter) *Dialect {
	if g.dialect != nil {
		panic("gateway: there is a dialect already")
	}
	g.dialect = &Dialect{g: g, header: http.CanonicalHeaderKey(header), errs: errs, mux: http.NewServeMux(), allow: map[string][]string{}}
	g.dialect.mux.Handle("/", g.dialect.nowhere())
	return g.dialect
}

// Handle registers h under every prefix for requests with the header, and with always for those without, as no other
// route of the gateway has this path. The pattern is that of [Gateway.Handle].
func (d *Dialect) Handle(pattern string, scope tenant.Scope, h Handler, always bool) {
	method, rest, tail := split(pattern)
	if always {
		d.g.register(pattern, scope, h, d.errs, true)
	}
	for _, prefix := range prefixes {
		full := prefix + tail
		d.mux.Handle(method+" "+full, &route{g: d.g, name: method + " " + rest, scope: scope, serve: h, errs: d.errs, apiKeyFirst: true})
		if d.allow[full] == nil {
			d.mux.Handle(full, &route{g: d.g, serve: wrongMethod(d.allow, full), errs: d.errs, apiKeyFirst: true})
		}
		d.allow[full] = append(d.allow[full], method)
		d.routes = append(d.routes, Route{Method: method, Path: full, Scope: scope})
	}
}

// Routes lists what Handle registered, one entry a prefix.
func (d *Dialect) Routes() []Route { return slices.Clone(d.routes) }

// nowhere answers for paths that the dialect does not have.
func (d *Dialect) nowhere() *route {
	return &route{g: d.g, serve: notFound, errs: d.errs, apiKeyFirst: true}
}

// spoken says whether a request is one of the dialect's.
func (d *Dialect) spoken(r *http.Request) bool {
	if d == nil || len(r.Header[d.header]) == 0 {
		return false
	}
	return slices.ContainsFunc(prefixes[:], func(prefix string) bool { return strings.HasPrefix(r.URL.Path, prefix) })
}
