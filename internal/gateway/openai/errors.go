package openai

import (
	"errors"
	"net/http"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// errorType is the envelope's type for a status. The SDKs class by status; people read this.
func errorType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusNotFound:
		return "not_found_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// WriteError answers with OpenAI's error envelope.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	w.Header().Del("Content-Length")
	status := gateway.Describe(err, "").Status
	writeJSON(w, status, wire.ErrorBody{Error: errorObject(err, w.Header().Get("X-Request-Id"))}) // strings always marshal
}

// errorObject is an error as a client sees it.
func errorObject(err error, requestID string) wire.ErrorObject {
	d := gateway.Describe(err, requestID)
	e := wire.ErrorObject{Message: d.Message, Type: errorType(d.Status)}
	if d.Param != "" {
		e.Param = &d.Param
	}
	if d.Code != "" {
		e.Code = &d.Code
	}
	var left *container.Survivors
	if errors.As(err, &left) {
		e.Surviving = survivors(left)
	}
	return e
}
