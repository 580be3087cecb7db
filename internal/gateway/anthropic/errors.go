package anthropic

import (
	"net/http"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

// statusOverloaded is the vendor's own status for a server that cannot take more now.
const statusOverloaded = 529

// errorOf is an error as the vendor tells it: the status and the type that go together.
func errorOf(err error, requestID string) (status int, body wire.ErrorBody) {
	d := gateway.Describe(err, requestID)
	status = d.Status
	switch {
	case d.Code == "model_not_found": // elsewhere a bad value of a field; here the vendor's answer
		status = http.StatusNotFound
	case d.Kind == fault.Unavailable:
		status = statusOverloaded
	}
	return status, wire.NewError(typeOf(status), d.Message, requestID)
}

// typeOf is the type of an error by its status.
func typeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return wire.ErrorAuthentication
	case http.StatusPaymentRequired:
		return wire.ErrorBilling
	case http.StatusForbidden:
		return wire.ErrorPermission
	case http.StatusNotFound:
		return wire.ErrorNotFound
	case http.StatusRequestEntityTooLarge:
		return wire.ErrorTooLarge
	case http.StatusTooManyRequests:
		return wire.ErrorRateLimit
	case http.StatusGatewayTimeout:
		return wire.ErrorTimeout
	case statusOverloaded:
		return wire.ErrorOverloaded
	}
	if status >= 500 {
		return wire.ErrorAPI
	}
	return wire.ErrorInvalidRequest
}

// WriteError answers with the vendor's error envelope.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	h := w.Header()
	h.Del("Content-Length")
	h["Request-Id"] = h["X-Request-Id"]
	status, body := errorOf(err, h.Get("X-Request-Id"))
	writeJSON(w, status, body) // strings always marshal
}

// invalid is a refusal that names the field at fault as the vendor does: in the sentence.
func invalid(field, format string, args ...any) *fault.Error {
	e := fault.New(fault.Invalid, format, args...).WithCode("invalid_value").WithParam(field)
	if field != "" {
		e.Message = field + ": " + e.Message
	}
	return e
}
