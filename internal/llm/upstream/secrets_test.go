package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// What is hidden of a header is what is secret of it, and no more.
func TestSecretsOfHeaders(t *testing.T) {
	for name, tt := range map[string]struct{ value, text, want string }{
		"a token":          {"Bearer token-1", "no token-1, Bearer token-1", "no [hidden], Bearer [hidden]"},
		"a key alone":      {"key-123", "key-123", "[hidden]"},
		"a signed request": {"AWS4-HMAC-SHA256 Credential=AKID/2026/aws4_request, Signature=abcdef01", "AKID abcdef01", "AKID [hidden]"},
		"what is short":    {"Bearer none", "none is here", "none is here"},
	} {
		s := new(secrets)
		s.sent(http.Header{"Authorization": {tt.value}})
		if got := s.hide(tt.text); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A token that is in use stays known, however many signatures pass by. One that is a part of another leaves no rest of it.
func TestSecretsThatPass(t *testing.T) {
	s := new(secrets)
	s.add("sk-1")
	s.addHeader("sk-12345")
	for i := range 3 * passing {
		s.sent(http.Header{"Authorization": {fmt.Sprintf("AWS4-HMAC-SHA256 Signature=signature-%d", i)}, "X-Amz-Security-Token": {"session-token"}})
	}
	if len(s.last) > passing {
		t.Errorf("%d are remembered", len(s.last))
	}
	if got := s.hide("session-token sk-12345 sk-1 " + fmt.Sprintf("signature-%d", 3*passing-1)); strings.ReplaceAll(got, hidden, "") != "   " {
		t.Errorf("shown: %s", got)
	}
}
