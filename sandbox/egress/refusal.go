package egress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A refusal is why a connection ends, with the texts that a client gets.
type refusal struct {
	reason Reason
	text   string // one sentence, no line ends
	try    string
	cause  error
}

func (r *refusal) Error() string {
	if r.cause == nil {
		return r.text
	}
	return r.text + ": " + r.cause.Error()
}

func (r *refusal) Unwrap() error { return r.cause }

func (r *refusal) verdict() Verdict {
	switch r.reason {
	case Unresolved, Unreachable, BadCertificate, Handshake, Broken, Left, Closed:
		return Failed
	}
	return Blocked
}

// status maps a refusal to HTTP, socks to SOCKS5.
func (r *refusal) status() int {
	switch r.reason {
	case Malformed, BadName:
		return 400
	case HostMismatch:
		return 421
	case Unresolved, Unreachable, BadCertificate, Broken:
		return 502
	case TooMany, Closed:
		return 503
	}
	return 403
}

func (r *refusal) socks() byte {
	switch {
	case errors.Is(r.cause, errSocksAddress):
		return socksNoAddress
	case errors.Is(r.cause, errSocksCommand):
		return socksNoCommand
	case r.verdict() == Failed:
		return socksUnreachable
	}
	return socksRefused
}

// sentence is the whole story in one line. It stands in the status line too: many tools show nothing else of a proxy's
// answer.
func (r *refusal) sentence() string {
	s := r.text
	if r.verdict() == Blocked {
		s = "blocked by policy: " + s
	}
	if r.try != "" {
		s += "; try: " + r.try
	}
	return s
}

// answer is an HTTP answer that closes the connection.
func (r *refusal) answer() []byte {
	line := printable(r.sentence())
	body := "hardshell: " + line + "\n"
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"+
		"Proxy-Status: hardshell; error=%s\r\nConnection: close\r\n\r\n%s", r.status(), line, len(body), proxyError(r), body)
}

// proxyError is the word of RFC 9209 for a refusal.
func proxyError(r *refusal) string {
	switch r.reason {
	case Unresolved:
		return "dns_error"
	case Unreachable:
		return "destination_unavailable"
	case BadCertificate:
		return "tls_certificate_error"
	case PrivateAddress:
		return "destination_ip_prohibited"
	}
	return "http_request_denied"
}

// printable keeps a text on one line of ASCII, whatever a client put into it.
func printable(s string) string {
	const most = 500
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}

// notAllowed says that the policy does not hold a destination, and what would change that.
func (p *Proxy) notAllowed(d dest) *refusal {
	entry := d.host
	if d.port != 80 && d.port != 443 {
		entry = d.String()
	}
	what := strconv.Quote(entry)
	if bundles := p.options.Bundles.offering(d); len(bundles) > 0 {
		what = quoted(bundlePrefix, bundles)
	}
	r := &refusal{reason: NotAllowed, text: d.String() + " is not allowed"}
	if key := p.options.Key; p.options.Ceiling.holds(d) {
		r.try = fmt.Sprintf("add %s to %s", what, key)
	} else if above := p.options.Ceiling.key; above != "" {
		r.try = fmt.Sprintf("add %s to %s, once the operator has %s in %s", what, key, what, above)
	} else {
		r.try = fmt.Sprintf("add %s to %s, once the operator allows it", what, key)
	}
	return r
}

// refused finds the refusal in an error's chain, or makes one of it.
func refused(err error, reason Reason, text string) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return &refusal{reason: reason, text: text, cause: err}
}
