package egress

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// maxLines bounds the header lines of one request; servers in the field take about a hundred.
const maxLines = 256

// parseHead finds the head of an HTTP/1 request and refuses what two readers could split differently: that is how a
// request is smuggled past the one that judges. It returns the method and the number of bytes; the caller then has
// net/http read the same bytes.
func parseHead(b []byte) (head, int, error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		// A head whose first line is already wrong is refused now; its sender may wait for an answer.
		if i := bytes.IndexByte(b, '\n'); i == 0 || i > 0 && b[i-1] != '\r' {
			return head{}, 0, errors.New("a line does not end in CR LF")
		}
		return head{}, 0, errShort
	}
	h, err := lint(string(b[:end]))
	return h, end + 4, err
}

// head is what is judged before net/http reads a request.
type head struct {
	method string
	target string
	host   string // the Host header, as sent
	hosts  int
	body   bool // a body is announced
}

func lint(text string) (head, error) {
	lines := strings.Split(text, "\r\n")
	if len(lines) > maxLines {
		return head{}, errors.New("too many header lines")
	}
	for _, line := range lines {
		for i := 0; i < len(line); i++ {
			if c := line[i]; c < ' ' && c != '\t' || c == 0x7f {
				return head{}, fmt.Errorf("a line holds the byte 0x%02x", c)
			}
		}
	}
	var h head
	parts := strings.Split(lines[0], " ")
	if len(parts) != 3 || !token(parts[0]) || parts[1] == "" {
		return head{}, errors.New("the first line is not METHOD TARGET VERSION")
	}
	h.method, h.target = parts[0], parts[1]
	for i := 0; i < len(h.target); i++ {
		if c := h.target[i]; c <= ' ' || c >= 0x7f || c == '\\' || c == '#' {
			return head{}, fmt.Errorf("the target holds the byte 0x%02x", c)
		}
	}
	if parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0" {
		return head{}, errors.New("only HTTP/1.1 and HTTP/1.0 are spoken here")
	}
	lengths, encodings := 0, 0
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !token(name) {
			return head{}, errors.New("a header line is not NAME: VALUE")
		}
		value = strings.Trim(value, " \t")
		switch strings.ToLower(name) {
		case "host":
			h.host = value
			h.hosts++
		case "content-length":
			lengths++
			if value == "" || len(value) > 18 || strings.Trim(value, "0123456789") != "" {
				return head{}, errors.New("Content-Length is not a number")
			}
			h.body = h.body || strings.Trim(value, "0") != ""
		case "transfer-encoding":
			encodings++
			if !strings.EqualFold(value, "chunked") {
				return head{}, errors.New("the only Transfer-Encoding spoken here is chunked")
			}
			h.body = true
		}
	}
	switch {
	case h.hosts > 1:
		return head{}, errors.New("there is more than one Host")
	case lengths > 1:
		return head{}, errors.New("there is more than one Content-Length")
	case encodings > 1:
		return head{}, errors.New("there is more than one Transfer-Encoding")
	case lengths > 0 && encodings > 0:
		return head{}, errors.New("there are both Content-Length and Transfer-Encoding")
	case encodings > 0 && parts[2] == "HTTP/1.0":
		return head{}, errors.New("HTTP/1.0 knows no Transfer-Encoding")
	}
	return h, nil
}

// token says whether s is a token of RFC 9110 5.6.2.
func token(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// absolute reads the destination of an absolute-form target. The scheme is http: https goes through CONNECT.
func absolute(target string) (dest, error) {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok {
		return dest{}, errors.New("this is a proxy: it takes CONNECT, or a whole http:// address")
	}
	if !strings.EqualFold(scheme, "http") {
		return dest{}, errors.New("the proxy takes http:// addresses here; for TLS use CONNECT")
	}
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		rest = rest[:end]
	}
	return parseDest(rest, 80)
}

// hopByHop are the headers that end at a proxy, RFC 9110 7.6.1, and those that speak to one.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// stripHops removes hop-by-hop headers, those that Connection names among them. Only the upgrade to a web socket
// is kept, and written anew.
func stripHops(h http.Header) {
	webSocket := upgrades(h)
	for _, line := range h.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
	if webSocket {
		h.Set("Connection", "Upgrade")
		h.Set("Upgrade", "websocket")
	}
}

func upgrades(h http.Header) bool {
	if u := h.Values("Upgrade"); len(u) != 1 || !strings.EqualFold(u[0], "websocket") {
		return false
	}
	for _, line := range h.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(name), "upgrade") {
				return true
			}
		}
	}
	return false
}
