package anthropic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

// maxMessage bounds what is passed on of an upstream's error message, in bytes.
const maxMessage = 600

// hidden stands where a secret stood.
const hidden = "[hidden]"

// errorObject is what a server says about an error.
type errorObject struct {
	message, typ string
}

// parseError reads the envelope {type: error, error: {type, message}}, or an error whose message is all there is.
func parseError(raw []byte) errorObject {
	var body struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return errorObject{}
	}
	var e wire.Error
	if json.Unmarshal(body.Error, &e) == nil {
		return errorObject{e.Message, e.Type}
	}
	var text string
	if json.Unmarshal(body.Error, &text) == nil && text != "" {
		return errorObject{message: text}
	}
	return errorObject{message: body.Message}
}

// statusOf is the HTTP status that a type of error stands for, 0 for an unknown one.
func statusOf(typ string) int {
	switch typ {
	case wire.ErrorInvalidRequest:
		return http.StatusBadRequest
	case wire.ErrorAuthentication:
		return http.StatusUnauthorized
	case wire.ErrorBilling:
		return http.StatusPaymentRequired
	case wire.ErrorPermission:
		return http.StatusForbidden
	case wire.ErrorNotFound:
		return http.StatusNotFound
	case wire.ErrorTooLarge:
		return http.StatusRequestEntityTooLarge
	case wire.ErrorRateLimit:
		return http.StatusTooManyRequests
	case wire.ErrorAPI, wire.ErrorTimeout, wire.ErrorOverloaded:
		return http.StatusServiceUnavailable
	}
	return 0
}

// upstreamError is the fault for an error that the server told, by status or in the stream (status 0).
func upstreamError(provider string, status int, e errorObject, secrets []string) *fault.Error {
	told := "" // only a status that was really there
	if status != 0 {
		told = fmt.Sprintf(" (HTTP %d)", status)
	} else {
		status = statusOf(e.typ)
	}
	if status == http.StatusUnauthorized {
		// What the server says here may quote a part of the key.
		return fault.New(fault.Upstream, "%s refused the key that this gateway has for it%s", provider, told).
			WithCode("server_error").WithTry("check the provider's api_key in the gateway's configuration")
	}
	message := provider + " failed"
	switch {
	case e.typ == wire.ErrorOverloaded:
		message = provider + " is overloaded"
	case status == http.StatusTooManyRequests:
		message = provider + " limits the rate of requests"
	case status >= 400 && status < 500:
		message = provider + " refused the request"
	}
	message += told
	if said := clean(e.message, secrets); said != "" {
		message += ": " + said
	}
	cause := fmt.Errorf("status %d, type %q", status, clean(e.typ, secrets))
	return fault.Wrap(fault.Upstream, cause, "%s", message).WithCode(codeOf(status, e))
}

// codeOf is the wire's code.
func codeOf(status int, e errorObject) string {
	switch status {
	case http.StatusTooManyRequests:
		return "rate_limit_exceeded"
	case http.StatusPaymentRequired:
		return "insufficient_quota"
	case http.StatusNotFound:
		return "model_not_found"
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		said := strings.ToLower(e.message)
		if strings.Contains(said, "prompt is too long") || strings.Contains(said, "exceed context limit") {
			return "context_length_exceeded"
		}
		if strings.Contains(said, "credit balance") {
			return "insufficient_quota"
		}
		return "invalid_prompt"
	}
	return "server_error"
}

// clean makes a server's text fit to be shown: one line, bounded, valid UTF-8, without our secrets.
func clean(s string, secrets []string) string {
	for _, secret := range secrets {
		s = strings.ReplaceAll(s, secret, hidden)
	}
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxMessage {
		s = s[:maxMessage] + "…"
	}
	return strings.ToValidUTF8(s, "")
}
