package gateway

import (
	"errors"
	"net/http"

	"github.com/hardshell-dev/hardshell/fault"
)

// StatusClientClosed is what the access log shows for a client that went away before its answer.
const StatusClientClosed = 499

// statuses maps each kind to its HTTP status. Expired is 404, the class in which the SDKs put a thing that is no
// longer there (410 has no class in them); the code tells it from a thing that never was.
var statuses = map[fault.Kind]int{
	fault.Internal:        http.StatusInternalServerError,
	fault.Invalid:         http.StatusBadRequest,
	fault.Unauthenticated: http.StatusUnauthorized,
	fault.Forbidden:       http.StatusForbidden,
	fault.NotFound:        http.StatusNotFound,
	fault.Conflict:        http.StatusConflict,
	fault.Expired:         http.StatusNotFound,
	fault.TooLarge:        http.StatusRequestEntityTooLarge,
	fault.RateLimited:     http.StatusTooManyRequests,
	fault.Unsupported:     http.StatusBadRequest,
	fault.Unavailable:     http.StatusServiceUnavailable,
	fault.Upstream:        http.StatusBadGateway,
	fault.Isolation:       http.StatusServiceUnavailable,
	fault.Cancelled:       StatusClientClosed,
}

// Description is what a door may show of an error.
type Description struct {
	Status  int
	Kind    fault.Kind
	Message string
	Code    string // "" = none
	Param   string // "" = none
}

// Describe maps an error to its public face. What is not a fault is internal: its text stays here.
func Describe(err error, requestID string) Description {
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.Internal, "Something went wrong in the server.")
		if requestID != "" {
			f = f.WithTry("the operator's log, under %s", requestID)
		}
	}
	d := Description{Status: statuses[f.Kind], Kind: f.Kind, Message: f.Public(), Code: f.Code, Param: f.Param}
	if d.Status == 0 {
		d.Status = http.StatusInternalServerError
	}
	if d.Code == "" {
		d.Code = codes[f.Kind]
	}
	var s *statusError
	if errors.As(err, &s) {
		d.Status = s.status
	}
	return d
}

// codes are the machine-readable codes of kinds whose error brought none.
var codes = map[fault.Kind]string{
	fault.Unauthenticated: "invalid_api_key",
	fault.Expired:         "expired",
	fault.TooLarge:        "request_too_large",
	fault.RateLimited:     "rate_limit_exceeded",
	fault.Unsupported:     "unsupported",
	fault.Unavailable:     "unavailable",
	fault.Upstream:        "upstream_error",
	fault.Isolation:       "isolation_unavailable",
	fault.Cancelled:       "cancelled",
}

// statusError is a fault whose HTTP status is not its kind's.
type statusError struct {
	status int
	fault  *fault.Error
}

func (e *statusError) Error() string { return e.fault.Error() }
func (e *statusError) Unwrap() error { return e.fault }

// WithStatus gives a fault an HTTP status that no kind has, such as 405 or 416.
func WithStatus(status int, f *fault.Error) error { return &statusError{status, f} }

// NoRetry tells the SDKs not to send the request again by themselves: a command may have run.
func NoRetry(w http.ResponseWriter) { w.Header().Set("X-Should-Retry", "false") }
