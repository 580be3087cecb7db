package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

const (
	// maxErrorBody bounds what is read of an error's body.
	maxErrorBody = 64 << 10
	// maxMessage bounds what is passed on of an upstream's error message, in bytes.
	maxMessage = 600
	// hidden stands where a secret stood.
	hidden = "[hidden]"
)

// failure is how a try ended without the answer having ended.
type failure struct {
	err   *fault.Error
	again bool          // another try may help
	wait  time.Duration // what the server asked for, 0 if nothing
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failure reads how a try ended.
func (s *Server) failure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	e, ok := fault.As(err)
	if !ok {
		e = fault.Wrap(fault.Upstream, errors.New(s.clean(err.Error())), "%s failed", s.o.Name).WithCode("server_error")
	}
	return &failure{err: e}
}

// ErrorObject is what servers say about an error, in whichever form they say it.
type ErrorObject struct {
	Message string
	Code    string
	Type    string
}

// ReadError reads an error object, an envelope {error: …}, {message: …}, {detail: …}, a list that begins with one, or a
// plain string. It is empty for what is none of them.
func ReadError(raw json.RawMessage) ErrorObject {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return ErrorObject{Message: text}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 { // Google's streams that fail at once
		raw = list[0]
	}
	var fields struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Code    json.RawMessage `json:"code"`
		Status  json.RawMessage `json:"status"`
		Type    json.RawMessage `json:"type"`
		Kind    json.RawMessage `json:"__type"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return ErrorObject{}
	}
	if inner := ReadError(fields.Error); present(fields.Error) && inner != (ErrorObject{}) {
		return inner
	}
	e := ErrorObject{Message: word(fields.Message), Code: word(fields.Code), Type: word(fields.Type)}
	for _, other := range []json.RawMessage{fields.Status, fields.Kind} { // Google's and AWS's names
		if e.Type == "" {
			e.Type = word(other)
		}
	}
	if e.Message == "" {
		e.Message = word(fields.Detail)
	}
	return e
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// word reads a string; another value that is present reads as its JSON.
func word(raw json.RawMessage) string {
	var s string
	if !present(raw) || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// statusOf is the HTTP status that an error object in a stream stands for, 0 if it says nothing of the kind.
func (e ErrorObject) statusOf() int {
	for _, s := range []string{e.Code, e.Type} {
		switch strings.ToLower(s) {
		case "400", "invalid_request_error", "invalid_argument", "validationexception", "invalid_prompt":
			return http.StatusBadRequest
		case "401", "authentication_error", "unauthenticated", "unrecognizedclientexception", "invalid_api_key":
			return http.StatusUnauthorized
		case "402", "billing_error":
			return http.StatusPaymentRequired
		case "403", "permission_error", "permission_denied", "accessdeniedexception":
			return http.StatusForbidden
		case "404", "not_found_error", "not_found", "resourcenotfoundexception":
			return http.StatusNotFound
		case "413", "request_too_large":
			return http.StatusRequestEntityTooLarge
		case "429", "rate_limit_exceeded", "rate_limit_error", "insufficient_quota", "too_many_requests", "resource_exhausted",
			"throttlingexception", "servicequotaexceededexception":
			return http.StatusTooManyRequests
		case "500", "502", "503", "504", "529", "server_error", "overloaded", "overloaded_error", "internal_server_error", "api_error",
			"timeout_error", "internal", "unavailable", "deadline_exceeded", "internalserverexception", "serviceunavailableexception",
			"modelstreamerrorexception", "modeltimeoutexception", "modelnotreadyexception":
			return http.StatusServiceUnavailable
		}
	}
	return 0
}

// codeOf is the wire's code. Codes that clients act on are passed on as they are.
func (e ErrorObject) codeOf(status int) string {
	switch e.Code {
	case "context_length_exceeded", "insufficient_quota", "model_not_found", "content_filter":
		return e.Code
	}
	switch status {
	case http.StatusTooManyRequests:
		return "rate_limit_exceeded"
	case http.StatusPaymentRequired:
		return "insufficient_quota"
	case http.StatusNotFound:
		return "model_not_found"
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		said := strings.ToLower(e.Message)
		for _, words := range []string{"prompt is too long", "exceed context limit", "maximum context length", "input is too long",
			"exceeds the maximum number of tokens", "context window"} {
			if strings.Contains(said, words) {
				return "context_length_exceeded"
			}
		}
		if strings.Contains(said, "credit balance") {
			return "insufficient_quota"
		}
		return "invalid_prompt"
	}
	return "server_error"
}

// overloaded says that the server has too much to do, whatever the status.
func (e ErrorObject) overloaded() bool {
	return e.Type == "overloaded_error" || e.Code == "overloaded" || e.Type == "overloaded"
}

// Told is the error that a server told in its answer.
func (s *Server) Told(e ErrorObject) error { return s.told(0, e) }

// told is the failure for an error that the server told, by status or in the stream (status 0).
func (s *Server) told(status int, e ErrorObject) *failure {
	told := "" // only a status that was really there
	if status == 0 {
		status = e.statusOf()
	} else {
		told = fmt.Sprintf(" (HTTP %d)", status)
	}
	if status == http.StatusUnauthorized {
		// What the server says here often quotes a part of the key.
		return &failure{err: fault.New(fault.Upstream, "%s refused the key that this gateway has for it%s", s.o.Name, told).
			WithCode("server_error").WithTry("check the provider's api_key in the gateway's configuration")}
	}
	message := s.o.Name + " failed"
	switch {
	case e.overloaded():
		message = s.o.Name + " is overloaded"
	case status == http.StatusTooManyRequests:
		message = s.o.Name + " limits the rate of requests"
	case status >= 400 && status < 500:
		message = s.o.Name + " refused the request"
	}
	message += told
	if said := s.clean(e.Message); said != "" {
		message += ": " + said
	}
	cause := fmt.Errorf("status %d, code %q, type %q", status, s.clean(e.Code), s.clean(e.Type))
	code := e.codeOf(status)
	return &failure{err: fault.Wrap(fault.Upstream, cause, "%s", message).WithCode(code),
		again: status == 0 || retriable(status) && code != "insufficient_quota"}
}

// Broken is the error of an answer that is not what the dialect has. Another try may bring a better one.
func (s *Server) Broken(format string, args ...any) error {
	return &failure{again: true, err: fault.New(fault.Upstream, "%s %s", s.o.Name, s.clean(fmt.Sprintf(format, args...))).WithCode("server_error")}
}

// CutShort is the error of a stream that ended before the answer did.
func (s *Server) CutShort() error {
	return &failure{again: true, err: fault.New(fault.Upstream, "%s ended the stream in the middle of the answer", s.o.Name).
		WithCode("server_error").WithTry("the same request again")}
}

// Unreadable is the error of bytes that cannot be read as what they should be.
func (s *Server) Unreadable(what string, cause error) error {
	return &failure{again: true, err: fault.Wrap(fault.Upstream, errors.New(s.clean(cause.Error())), "%s sent %s that cannot be read", s.o.Name, what).
		WithCode("server_error")}
}

// refused reads an answer that is an error by its status.
func (s *Server) refused(res *http.Response, body io.Reader) *failure {
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return &failure{err: fault.New(fault.Upstream, "%s answered with a redirect (HTTP %d), which is not followed", s.o.Name, res.StatusCode).
			WithCode("server_error").WithTry("give the final address as the provider's base_url")}
	}
	raw, _ := io.ReadAll(io.LimitReader(body, maxErrorBody)) // a cut body says less, and the status says enough
	e := ReadError(raw)
	if e == (ErrorObject{}) && !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("<")) {
		e.Message = string(raw)
	}
	if e.Type == "" { // AWS names the exception here
		e.Type, _, _ = strings.Cut(res.Header.Get("X-Amzn-Errortype"), ":")
	}
	f := s.told(res.StatusCode, e)
	if should, err := strconv.ParseBool(res.Header.Get("X-Should-Retry")); err == nil && res.StatusCode != http.StatusUnauthorized {
		f.again = should
	}
	if f.again {
		f.wait = retryAfter(res.Header, time.Now())
	}
	return f
}

// clean makes a server's text fit to be shown: one line, bounded, valid UTF-8, without our secrets.
func (s *Server) clean(text string) string {
	text = strings.Join(strings.Fields(s.secrets.hide(text)), " ")
	if len(text) > maxMessage {
		text = text[:maxMessage] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// noStream is the fault for an answer of status 200 that is neither a stream nor JSON.
func (s *Server) noStream(contentType string, head []byte) *fault.Error {
	what := "something that is no event stream"
	if bytes.HasPrefix(bytes.TrimSpace(head), []byte("<")) {
		what = "a web page"
	}
	return fault.Wrap(fault.Upstream, errors.New(s.clean(string(head))), "%s answered with %s (content type %q)", s.o.Name, what,
		s.clean(contentType)).WithCode("server_error").
		WithTry("check the provider's base_url: it must be the part before %s", s.d.Path)
}

// unreachable is the fault for a request that got no answer. The URL is left out: it may hold a secret.
func (s *Server) unreachable(err error) *fault.Error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fault.Wrap(fault.Upstream, errors.New(s.clean(err.Error())), "%s cannot be reached", s.o.Name).
		WithCode("server_error").WithTry("check that it runs, and the provider's base_url")
}
