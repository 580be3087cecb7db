package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// maxMessage bounds what is passed on of an upstream's error message, in bytes.
const maxMessage = 600

// hidden stands where a secret stood.
const hidden = "[hidden]"

// errorObject is what servers say about an error, in whichever form they say it.
type errorObject struct {
	message string
	code    string
	typ     string
}

// parseError reads an error object, an envelope {error: …}, {message: …}, {detail: …} or a plain string.
func parseError(raw json.RawMessage) errorObject {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return errorObject{message: text}
	}
	var fields struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Code    json.RawMessage `json:"code"`
		Type    json.RawMessage `json:"type"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return errorObject{}
	}
	if present(fields.Error) {
		if inner := parseError(fields.Error); inner != (errorObject{}) {
			return inner
		}
	}
	e := errorObject{message: word(fields.Message), code: word(fields.Code), typ: word(fields.Type)}
	if e.message == "" {
		e.message = word(fields.Detail)
	}
	return e
}

// word reads a string; another value that is present reads as its JSON.
func word(raw json.RawMessage) string {
	var s string
	if !present(raw) || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// statusOf is the HTTP status that an error object in a stream stands for, 0 if it says nothing of the kind.
func (e errorObject) statusOf() int {
	for _, s := range []string{e.code, e.typ} {
		switch s {
		case "429", "rate_limit_exceeded", "rate_limit_error", "insufficient_quota", "too_many_requests":
			return http.StatusTooManyRequests
		case "500", "502", "503", "504", "529", "server_error", "overloaded", "overloaded_error", "internal_server_error":
			return http.StatusServiceUnavailable
		}
	}
	return 0
}

// upstreamError is the fault for an error that the server told, by status or in the stream.
func upstreamError(provider string, status int, e errorObject, secrets []string) *fault.Error {
	told := "" // only a status that was really there
	if status == 0 {
		status = e.statusOf()
	} else {
		told = fmt.Sprintf(" (HTTP %d)", status)
	}
	said := clean(e.message, secrets)
	cause := fmt.Errorf("status %d, code %q, type %q", status, clean(e.code, secrets), clean(e.typ, secrets))
	if status == http.StatusUnauthorized {
		// What the server says here often quotes a part of the key.
		return fault.New(fault.Upstream, "%s refused the key that this gateway has for it (HTTP %d)", provider, status).
			WithCode("server_error").WithTry("check the provider's api_key in the gateway's configuration")
	}
	message := provider + " failed"
	switch {
	case status == http.StatusTooManyRequests:
		message = provider + " limits the rate of requests"
	case status >= 400 && status < 500:
		message = provider + " refused the request"
	}
	message += told
	if said != "" {
		message += ": " + said
	}
	return fault.Wrap(fault.Upstream, cause, "%s", message).WithCode(codeOf(status, e))
}

// codeOf is the wire's code. Codes that clients act on are passed on as they are.
func codeOf(status int, e errorObject) string {
	switch e.code {
	case "context_length_exceeded", "insufficient_quota", "model_not_found", "content_filter":
		return e.code
	}
	switch status {
	case http.StatusTooManyRequests:
		return "rate_limit_exceeded"
	case http.StatusNotFound:
		return "model_not_found"
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
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

// notAStream is the fault for an answer of status 200 that is neither a stream nor JSON.
func notAStream(provider, contentType string, head []byte, secrets []string) *fault.Error {
	what := "something that is no event stream"
	if bytes.HasPrefix(bytes.TrimSpace(head), []byte("<")) {
		what = "a web page"
	}
	return fault.Wrap(fault.Upstream, errors.New(clean(string(head), secrets)), "%s answered with %s (content type %q)", provider, what,
		clean(contentType, secrets)).WithCode("server_error").
		WithTry("check the provider's base_url: it must be the part before /chat/completions")
}

// connectError is the fault for a request that got no answer. The URL is left out: it may hold a secret.
func connectError(provider string, err error, secrets []string) *fault.Error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fault.Wrap(fault.Upstream, errors.New(clean(err.Error(), secrets)), "%s cannot be reached", provider).
		WithCode("server_error").WithTry("check that it runs, and the provider's base_url")
}
