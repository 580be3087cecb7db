package egress

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// Each of these is read differently by some two of the servers and proxies in the field.
var smuggled = map[string]string{
	"TE and CL":             "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
	"TE twice":              "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
	"TE list":               "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
	"TE unknown":            "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
	"TE with a tab":         "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding:\x0bchunked\r\n\r\n",
	"TE with space before":  "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding : chunked\r\n\r\n",
	"TE in HTTP/1.0":        "POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n",
	"CL twice, same":        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n",
	"CL twice, other":       "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\ncontent-length: 5\r\n\r\n",
	"CL list":               "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4, 4\r\n\r\n",
	"CL signed":             "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +4\r\n\r\n",
	"CL negative":           "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: -4\r\n\r\n",
	"CL hex":                "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0x4\r\n\r\n",
	"CL empty":              "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length:\r\n\r\n",
	"CL huge":               "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 99999999999999999999\r\n\r\n",
	"Host twice":            "GET / HTTP/1.1\r\nHost: a.test\r\nHost: evil.test\r\n\r\n",
	"Host twice, other":     "GET / HTTP/1.1\r\nHost: a.test\r\nhOST: a.test\r\n\r\n",
	"folded line":           "GET / HTTP/1.1\r\nHost: a.test\r\nX: 1\r\n Host: evil.test\r\n\r\n",
	"first line folded":     "GET / HTTP/1.1\r\n Host: a.test\r\n\r\n",
	"bare LF":               "GET / HTTP/1.1\nHost: a.test\n\n",
	"bare LF in the middle": "GET / HTTP/1.1\r\nHost: a.test\nX: 1\r\n\r\n",
	"bare CR":               "GET / HTTP/1.1\r\nHost: a.test\r\nX: 1\rHost: evil.test\r\n\r\n",
	"NUL":                   "GET / HTTP/1.1\r\nHost: a.test\x00.evil.test\r\n\r\n",
	"space in the target":   "GET / x HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"two spaces":            "GET  / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"tab for space":         "GET\t/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"no version":            "GET /\r\nHost: a.test\r\n\r\n",
	"other version":         "GET / HTTP/1.2\r\nHost: a.test\r\n\r\n",
	"HTTP/2":                "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"name with space":       "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n",
	"no colon":              "GET / HTTP/1.1\r\nHost: a.test\r\nnonsense\r\n\r\n",
	"empty name":            "GET / HTTP/1.1\r\nHost: a.test\r\n: x\r\n\r\n",
	"backslash":             "GET http:\\\\evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"fragment":              "GET http://a.test#@evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"non-ASCII target":      "GET http://a.test/\xff HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"leading blank line":    "\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"method with bytes":     "GE(T / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"too many lines":        "GET / HTTP/1.1\r\nHost: a.test\r\n" + strings.Repeat("X: 1\r\n", 300) + "\r\n",
}

func TestHeadsThatAreRefused(t *testing.T) {
	for name, text := range smuggled {
		if h, _, err := parseHead([]byte(text)); err == nil || errors.Is(err, errShort) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

func TestHeads(t *testing.T) {
	text := "POST http://a.test/x?y=%00z HTTP/1.1\r\nHost:a.test \r\nX-Latin: \xe9\r\ncontent-length: 12\r\n\r\nrest"
	for cut := range len(text) - 4 {
		if _, _, err := parseHead([]byte(text[:cut])); !errors.Is(err, errShort) {
			t.Fatalf("%q: %v", text[:cut], err)
		}
	}
	h, n, err := parseHead([]byte(text))
	if err != nil || n != len(text)-4 || h.method != "POST" || h.host != "a.test" || h.hosts != 1 || !h.body {
		t.Fatalf("%+v, %d, %v", h, n, err)
	}
}

func TestAbsoluteTargets(t *testing.T) {
	for in, want := range map[string]string{"http://a.test": "a.test:80", "HTTP://A.test./x": "a.test:80", "http://a.test:8080?x": "a.test:8080", "http://a.test/@evil.test": "a.test:80"} {
		if d, err := absolute(in); err != nil || d.String() != want {
			t.Errorf("%s = %v, %v", in, d, err)
		}
	}
	for _, in := range []string{"/", "*", "a.test:80", "https://a.test/", "ftp://a.test/", "http:///", "http://", "http://u@a.test/", "http://a.test:/", "http://127.0.0.1/",
		"http://[::1]/", "http://2130706433/", "http://a%2etest/", "http://u:p@a.test:80/", "http:a.test"} {
		if d, err := absolute(in); err == nil {
			t.Errorf("%s = %v", in, d)
		}
	}
}

func TestHopsAreStripped(t *testing.T) {
	h := http.Header{"Connection": {"close, X-Mine", "keep-alive"}, "X-Mine": {"1"}, "Keep-Alive": {"1"}, "Proxy-Authorization": {"1"}, "Proxy-Connection": {"1"},
		"Te": {"trailers"}, "Trailer": {"X"}, "Upgrade": {"h2c"}, "Transfer-Encoding": {"chunked"}, "X-Kept": {"1"}}
	stripHops(h)
	if len(h) != 1 || h.Get("X-Kept") == "" {
		t.Errorf("%v is left", h)
	}
	h = http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"WebSocket"}}
	if stripHops(h); h.Get("Upgrade") != "websocket" || h.Get("Connection") != "Upgrade" {
		t.Errorf("a web socket became %v", h)
	}
}

// What passes our own eyes must be read by net/http as we read it.
func FuzzHead(f *testing.F) {
	for _, text := range smuggled {
		f.Add([]byte(text))
	}
	f.Add([]byte("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	f.Add([]byte("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := parseHead(b)
		if err != nil {
			return
		}
		if n > len(b) {
			t.Fatalf("%d of %d bytes", n, len(b))
		}
		r := bufio.NewReader(bytes.NewReader(b[:n]))
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.Method != h.method || req.RequestURI != h.target || r.Buffered() != 0 {
			t.Fatalf("%+v is read as %s %s with %d bytes left", h, req.Method, req.RequestURI, r.Buffered())
		}
		if d, err := absolute(h.target); err == nil && h.method != "CONNECT" {
			if theirs, err := parseDest(req.URL.Host, 80); err != nil || theirs != d {
				t.Fatalf("%s goes to %v, or to %v (%v)", h.target, d, theirs, err)
			}
		}
	})
}
