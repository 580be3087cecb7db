// Package gateway is the HTTP house in front of every door: routes with scopes, keys, Host and Origin checks, body
// limits, request ids, deadlines, panics and the access log.
//
// It knows no API: a door (gateway/openai and its sisters) registers routes and says how errors look there. It does
// not listen and it decides nothing about models or containers.
//
// What holds: every route of an API answers under /v1 and /api/v1; every request, on loopback too, passes the Host and Origin
// checks and carries a key with the route's scope before its handler runs, GET /healthz alone excepted; every answer
// carries an x-request-id of ours; no body, query or key is ever logged.
package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

// Authenticator turns a presented key into who may do what. A wrong key is fault.Unauthenticated.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (tenant.Principal, error)
}

// Handler answers one request of a caller who may. An error that it returns before it wrote anything becomes the
// answer; after that it cuts the connection, so that half an answer never looks whole.
type Handler func(w http.ResponseWriter, r *http.Request, p tenant.Principal) error

// ErrorWriter writes an error in a vendor's envelope. [Describe] says what to put there.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, err error)

// DefaultMaxBody is the body limit where the operator set none: files travel base64 in JSON.
const DefaultMaxBody = 64 << 20

// DefaultPatience is how long one read of a body, or one write of an answer, waits for the other side.
const DefaultPatience = 30 * time.Second

// Options are the gateway's surroundings. Tenants is required.
type Options struct {
	Tenants      Authenticator
	MaxBody      int64         // bytes; 0 = DefaultMaxBody
	AllowedHosts []string      // further names in Host and Origin: "name" (any port) or "name:port"
	Logger       *slog.Logger  // nil = silent
	Patience     time.Duration // how long one read or write waits for the peer; 0 = DefaultPatience
	Health       func() any    // what GET /healthz answers, seen by anybody; nil = {"status":"ok"}
	Metrics      http.Handler  // what GET /metrics answers, to a key with the scope metrics or admin; nil = there is no such path
	Observer     Observer      // nil = nobody
}

// Observer is told of every request. It is called on its path and must not wait. The route is one of the table, or "-".
type Observer interface {
	RequestBegan()
	RequestEnded(route string, status int, took time.Duration)
}

// Gateway is an http.Handler. Register every route before it serves.
type Gateway struct {
	tenants  Authenticator
	maxBody  int64
	hosts    []string
	log      *slog.Logger
	health   func() any
	observer Observer
	patience time.Duration
	mux      *http.ServeMux
	routes   []Route
	allow    map[string][]string // path pattern -> methods
	fallback ErrorWriter
	sockets  sockets
	dialect  *Dialect // nil = there is none
}

// Route is one registered route, for tests and documentation.
type Route struct {
	Method string
	Path   string // with wildcards, such as /v1/responses/{id}
	Scope  tenant.Scope
}

// prefixes are the roots under which every route answers; a pattern is written for the first.
var prefixes = [...]string{"/v1/", "/api/v1/"}

// New returns a gateway without routes; GET /healthz is there.
func New(o Options) *Gateway {
	g := &Gateway{
		tenants: o.Tenants, maxBody: o.MaxBody, log: o.Logger, health: o.Health, observer: o.Observer, patience: o.Patience,
		mux: http.NewServeMux(), allow: map[string][]string{}, fallback: plainError,
	}
	if g.maxBody <= 0 {
		g.maxBody = DefaultMaxBody
	}
	if g.patience <= 0 {
		g.patience = DefaultPatience
	}
	for _, h := range o.AllowedHosts {
		g.hosts = append(g.hosts, strings.ToLower(h))
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.health == nil {
		g.health = func() any { return map[string]string{"status": "ok"} }
	}
	g.mux.Handle("/", &route{g: g, serve: notFound})
	if o.Metrics != nil {
		g.allow[metricsPath] = []string{http.MethodGet}
		g.mux.Handle("GET "+metricsPath, &route{g: g, name: "GET " + metricsPath, quiet: true, serve: metrics(o.Metrics)})
		g.mux.Handle(metricsPath, &route{g: g, serve: wrongMethod(g.allow, metricsPath)})
	}
	return g
}

// Fallback sets the envelope of refusals on paths that no route has.
func (g *Gateway) Fallback(errs ErrorWriter) { g.fallback = errs }

// Handle registers h under every prefix. The pattern is "METHOD /v1/…", as http.ServeMux reads it; a bad or a
// conflicting one panics. GET answers HEAD too.
func (g *Gateway) Handle(pattern string, scope tenant.Scope, h Handler, errs ErrorWriter) {
	g.register(pattern, scope, h, errs, false)
}

func (g *Gateway) register(pattern string, scope tenant.Scope, h Handler, errs ErrorWriter, apiKeyFirst bool) {
	method, rest, tail := split(pattern)
	for _, prefix := range prefixes {
		g.handle(method, prefix+tail, route{g: g, name: method + " " + rest, scope: scope, serve: h, errs: errs, apiKeyFirst: apiKeyFirst})
	}
}

// split reads a pattern: its method, its path, and the path behind the first prefix.
func split(pattern string) (method, rest, tail string) {
	method, rest, ok := strings.Cut(pattern, " ")
	tail, rooted := strings.CutPrefix(rest, prefixes[0])
	if !ok || !rooted {
		panic("gateway: pattern " + pattern + " is not \"METHOD " + prefixes[0] + "…\"")
	}
	return method, rest, tail
}

// HandleAt registers h at one path of its own, for a protocol that is no versioned API. Its requests are guarded like all.
func (g *Gateway) HandleAt(method, path string, scope tenant.Scope, h Handler, errs ErrorWriter) {
	g.handle(method, path, route{g: g, name: method + " " + path, scope: scope, serve: h, errs: errs})
}

// handle registers a route at full.
func (g *Gateway) handle(method, full string, rt route) {
	g.mux.Handle(method+" "+full, &rt)
	if g.allow[full] == nil && !g.covered(full) {
		g.mux.Handle(full, &route{g: g, serve: wrongMethod(g.allow, full), errs: rt.errs, apiKeyFirst: rt.apiKeyFirst})
	}
	g.allow[full] = append(g.allow[full], method)
	g.routes = append(g.routes, Route{Method: method, Path: full, Scope: rt.scope})
}

// covered says whether a path is among those that another one with wildcards has. That one refuses its wrong methods: the
// mux takes no two patterns of which one has the closer path and the other the closer method.
func (g *Gateway) covered(full string) bool {
	words := strings.Split(full, "/")
	return slices.ContainsFunc(g.routes, func(r Route) bool {
		pattern := strings.Split(r.Path, "/")
		return r.Path != full && len(pattern) == len(words) && !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "{") }) &&
			slices.EqualFunc(pattern, words, func(p, w string) bool { return p == w || strings.HasPrefix(p, "{") })
	})
}

// Routes lists what Handle registered, one entry a prefix.
func (g *Gateway) Routes() []Route { return slices.Clone(g.routes) }

// route is one pattern of the mux. It guards and then serves.
type route struct {
	g     *Gateway
	name  string       // for the log
	scope tenant.Scope // "" = any valid key
	serve Handler
	errs  ErrorWriter // nil = the gateway's fallback
	quiet bool        // asked every few seconds, by machines

	apiKeyFirst bool // of two keys the one in x-api-key counts
}

// ServeHTTP is called by the mux with the writer that Gateway.ServeHTTP made.
func (rt *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rw := w.(*responseWriter)
	rw.route = rt
	if err := rt.answer(rw, r); err != nil {
		rt.g.refuse(rw, r, err)
	}
}

func (rt *route) answer(w *responseWriter, r *http.Request) error {
	if err := rt.g.checkSource(r); err != nil {
		return err
	}
	p, err := rt.admit(r)
	w.org = p.Org
	if err != nil {
		return err
	}
	return rt.serve(w, r, p)
}

// admit reads who asks, who must be allowed to.
func (rt *route) admit(r *http.Request) (tenant.Principal, error) {
	p, err := rt.g.authenticate(r, rt.apiKeyFirst)
	if err != nil {
		return p, err
	}
	if rt.scope != "" && !p.Has(rt.scope) {
		return p, fault.New(fault.Forbidden, "This key does not have the scope %q.", rt.scope).
			WithCode("insufficient_scope").WithTry("a key made with `hardshell key create --scope %s`", rt.scope)
	}
	return p, nil
}

// ServeHTTP gives the request an id and a guarded writer, dispatches it, and logs it.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rw := newResponseWriter(w, id.New(id.Request), g.patience)
	if g.observer != nil {
		g.observer.RequestBegan()
	}
	defer g.finish(rw, r)
	g.limitBody(rw, r)
	switch {
	case r.URL.Path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		rw.route = healthRoute
		rw.Header().Set("Content-Type", "application/json")
		json.NewEncoder(rw).Encode(g.health()) // a failed write is the client's affair
	case path.Clean(r.URL.Path) != r.URL.Path:
		// The mux would redirect to the clean path, before any check and without our envelope.
		(&route{g: g, serve: notFound}).ServeHTTP(rw, r)
	case g.dialect.spoken(r):
		g.dialect.mux.ServeHTTP(rw, r)
	default:
		g.mux.ServeHTTP(rw, r)
	}
}

var healthRoute = &route{name: "GET /healthz", quiet: true}

// metricsPath stands outside the API, where collectors look for it.
const metricsPath = "/metrics"

// metrics tells of the whole server, whoever its organisations are: a key that runs is not enough.
func metrics(h http.Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
		if !p.Has(tenant.ScopeMetrics) && !p.Has(tenant.ScopeAdmin) {
			return fault.New(fault.Forbidden, "This key does not have the scope %q.", tenant.ScopeMetrics).
				WithCode("insufficient_scope").WithTry("a key made with `hardshell key create --scope %s`", tenant.ScopeMetrics)
		}
		h.ServeHTTP(w, r)
		return nil
	}
}

// Told has the log know an error that the answer w told itself, behind its beginning, as it knows that of a refusal.
func Told(w http.ResponseWriter, r *http.Request, err error) {
	if rw, ok := w.(*responseWriter); ok {
		rw.route.g.note(rw, r, err)
	}
}

// note logs why a request failed, where that is not its sender's doing.
func (g *Gateway) note(w *responseWriter, r *http.Request, err error) {
	if Describe(err, w.id).Status >= 500 {
		g.log.LogAttrs(r.Context(), slog.LevelError, "request failed", slog.String("request_id", w.id),
			slog.String("route", w.route.name), slog.Any("error", err))
	}
}

// refuse answers with an error, or cuts the connection where an answer has already begun.
func (g *Gateway) refuse(w *responseWriter, r *http.Request, err error) {
	err = bodyFault(err)
	d := Describe(err, w.id)
	g.note(w, r, err)
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	if d.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="hardshell"`)
	}
	if w.body != nil && !w.body.ended {
		w.Header().Set("Connection", "close") // else the server waits for the rest of the body before it answers
	}
	write := w.route.errs
	if write == nil {
		write = g.fallback
	}
	write(w, r, err)
}

func notFound(http.ResponseWriter, *http.Request, tenant.Principal) error {
	return fault.New(fault.NotFound, "There is nothing at this path.").WithCode("unknown_url").
		WithTry("GET /v1/models; api/openapi.yaml lists the routes")
}

// wrongMethod refuses a method that a path does not have; allow is read when it is asked.
func wrongMethod(allow map[string][]string, full string) Handler {
	return func(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
		allowed := allow[full]
		if slices.Contains(allowed, http.MethodGet) {
			allowed = append(slices.Clone(allowed), http.MethodHead)
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		return WithStatus(http.StatusMethodNotAllowed, fault.New(fault.Invalid, "%s is not a method of this path.", r.Method).
			WithCode("method_not_allowed").WithTry("%s", list))
	}
}

// plainError is the envelope until a door sets its own with Fallback.
func plainError(w http.ResponseWriter, _ *http.Request, err error) {
	d := Describe(err, "")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(d.Status)
	raw, _ := json.Marshal(map[string]any{"error": map[string]string{"message": d.Message}})
	w.Write(append(raw, '\n'))
}

// NewServer returns a server for h with the deadlines that hold before and between requests. Within a request every
// read and write has a deadline of its own, so that an answer may take hours and a stuck peer may not.
func NewServer(h http.Handler, logger *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	if logger != nil {
		s.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	}
	return s
}
