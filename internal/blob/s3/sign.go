package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// sign puts the signature of version 4 on a request. Everything in it is signed: method, path, query, headers of ours
// and the body's hash.
func (s *Store) sign(req *http.Request, body []byte) {
	now := s.o.Clock().UTC()
	stamp, day := now.Format("20060102T150405Z"), now.Format("20060102")
	sum := sha256.Sum256(body)
	payload := hex.EncodeToString(sum[:])
	req.Header.Set("X-Amz-Date", stamp)
	req.Header.Set("X-Amz-Content-Sha256", payload)

	names := []string{"host"}
	values := map[string]string{"host": req.URL.Host}
	for name, v := range req.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") || name == "range" {
			names = append(names, name)
			values[name] = strings.TrimSpace(v[0])
		}
	}
	slices.Sort(names)
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + values[name] + "\n")
	}
	signed := strings.Join(names, ";")
	// url.Values.Encode sorts; a space would be a plus there, and none of our values has one.
	canonical := strings.Join([]string{req.Method, req.URL.EscapedPath(), req.URL.RawQuery, headers.String(), signed, payload}, "\n")
	scope := day + "/" + s.o.Region + "/s3/aws4_request"
	hashed := sha256.Sum256([]byte(canonical))
	text := "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hex.EncodeToString(hashed[:])
	key := []byte("AWS4" + s.o.SecretKey)
	for _, part := range []string{day, s.o.Region, "s3", "aws4_request"} {
		key = mac(key, part)
	}
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+s.o.AccessKey+"/"+scope+", SignedHeaders="+signed+
		", Signature="+hex.EncodeToString(mac(key, text)))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
