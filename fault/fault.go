// Package fault is the error that crosses a room's border: a kind for code, a sentence for the caller, a cause for
// the operator and, where one helps, a line that says what to try.
//
// It maps nothing to HTTP or to exit codes: each door does that once, from the kind. The cause is never shown to a
// caller of a gateway; message, code and try line are, so they name nothing secret.
package fault

import (
	"errors"
	"fmt"
	"strings"
)

// Kind classes an error for code that must decide what to do next.
type Kind int

// The kinds. Internal is the zero value: an error nobody classed is ours.
const (
	Internal        Kind = iota // a defect or an unexpected state of ours
	Invalid                     // the request is wrong; Param names the field
	Unauthenticated             // no key, or a wrong one
	Forbidden                   // the key is right and may not do this
	NotFound                    // absent, or another organisation's
	Conflict                    // the state does not allow it now
	Expired                     // it existed; its life is over
	TooLarge                    // a stated limit on size was passed
	RateLimited                 // a stated limit on rate was passed
	Unsupported                 // well-formed, and nothing here can do it
	Unavailable                 // something we need is down or full; trying again may help
	Upstream                    // the model's provider failed
	Isolation                   // the sandbox that was asked for cannot be had here
	Cancelled                   // somebody stopped it
)

var kindNames = [...]string{"internal", "invalid", "unauthenticated", "forbidden", "not_found", "conflict", "expired",
	"too_large", "rate_limited", "unsupported", "unavailable", "upstream", "isolation", "cancelled"}

// String returns the kind's lower-case name.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "internal"
	}
	return kindNames[k]
}

// Error is an error with a public face. The zero value of every optional field means "none".
type Error struct {
	Kind    Kind
	Message string // one sentence for the caller
	Code    string // the wire's machine-readable code, such as "container_expired"
	Param   string // the request field at fault, such as "tools[0].environment"
	Try     string // what the caller can do about it
	Cause   error  // for the operator's log; never shown to a remote caller
}

// New makes an error of a kind with a public sentence.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes an error of a kind with a public sentence over a private cause.
func Wrap(kind Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// WithCode returns a copy that carries the wire's code.
func (e *Error) WithCode(code string) *Error { c := *e; c.Code = code; return &c }

// WithParam returns a copy that names the request field at fault.
func (e *Error) WithParam(param string) *Error { c := *e; c.Param = param; return &c }

// WithTry returns a copy that says what to do about it.
func (e *Error) WithTry(format string, args ...any) *Error {
	c := *e
	c.Try = fmt.Sprintf(format, args...)
	return &c
}

// Public is the text that a caller may see: the sentence and the try line.
func (e *Error) Public() string {
	if e.Try == "" {
		return e.Message
	}
	return strings.TrimRight(e.Message, ".") + ". Try: " + e.Try
}

// Error is the operator's text: the sentence and the cause.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// As finds the first *Error in err's chain.
func As(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// KindOf returns the kind of the first *Error in err's chain, or Internal.
func KindOf(err error) Kind {
	if e, ok := As(err); ok {
		return e.Kind
	}
	return Internal
}
