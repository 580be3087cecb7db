package bedrock

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Credentials are AWS keys. Session is set on those that end; Expires is zero for those that don't.
type Credentials struct {
	AccessKey, SecretKey, Session string
	Expires                       time.Time
}

// sign puts a Signature Version 4 on a request that is otherwise complete.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
func sign(r *http.Request, body []byte, c Credentials, region, service string, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	r.Header.Set("X-Amz-Date", stamp)
	if c.Session != "" {
		r.Header.Set("X-Amz-Security-Token", c.Session)
	}
	names, headers := canonicalHeaders(r)
	request := strings.Join([]string{r.Method, canonicalPath(r.URL.EscapedPath()), canonicalQuery(r), headers, names, digest(body)}, "\n")
	scope := strings.Join([]string{stamp[:8], region, service, "aws4_request"}, "/")
	text := strings.Join([]string{"AWS4-HMAC-SHA256", stamp, scope, digest([]byte(request))}, "\n")
	key := []byte("AWS4" + c.SecretKey)
	for _, part := range []string{stamp[:8], region, service, "aws4_request"} {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.AccessKey+"/"+scope+", SignedHeaders="+names+", Signature="+hex.EncodeToString(mac(key, text)))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// unsigned are headers that something on the way may change. The host is signed as the request has it.
var unsigned = []string{"host", "authorization", "user-agent", "accept-encoding", "connection", "expect"}

func canonicalHeaders(r *http.Request) (names, headers string) {
	values := map[string]string{"host": cmp.Or(r.Host, r.URL.Host)}
	keys := []string{"host"}
	for name, vs := range r.Header {
		name = strings.ToLower(name)
		if slices.Contains(unsigned, name) {
			continue
		}
		trimmed := make([]string, len(vs))
		for i, v := range vs {
			trimmed[i] = strings.Join(strings.Fields(v), " ")
		}
		values[name] = strings.Join(trimmed, ",")
		keys = append(keys, name)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(k + ":" + values[k] + "\n")
	}
	return strings.Join(keys, ";"), b.String()
}

// canonicalPath escapes the path once more than it is sent, as every service but S3 wants it.
func canonicalPath(escaped string) string {
	if escaped == "" {
		return "/"
	}
	parts := strings.Split(escaped, "/")
	for i, p := range parts {
		parts[i] = escape(p)
	}
	return strings.Join(parts, "/")
}

func canonicalQuery(r *http.Request) string {
	var pairs []string
	for k, vs := range r.URL.Query() {
		for _, v := range vs {
			pairs = append(pairs, escape(k)+"="+escape(v))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// escape escapes all but the unreserved letters of RFC 3986.
func escape(s string) string {
	const hexits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '~':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hexits[c>>4], hexits[c&15]})
		}
	}
	return b.String()
}
