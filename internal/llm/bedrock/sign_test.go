package bedrock

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSign is AWS's own test vector "get-vanilla".
func TestSign(t *testing.T) {
	r, _ := http.NewRequest(http.MethodGet, "https://example.amazonaws.com/", nil)
	sign(r, nil, Credentials{AccessKey: "AKIDEXAMPLE", SecretKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, "us-east-1", "service",
		time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
	want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, " +
		"Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestSignedPath: what is sent is escaped once, and what is signed twice. The signature was made by the vendor's SDK.
func TestSignedPath(t *testing.T) {
	r, _ := http.NewRequest(http.MethodPost, "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-v2%3A1/converse?b=2&a=1%2F", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	if got := r.URL.RequestURI(); got != "/model/anthropic.claude-v2%3A1/converse?b=2&a=1%2F" {
		t.Errorf("sent as %s", got)
	}
	sign(r, []byte("{}"), Credentials{AccessKey: "AKIDEXAMPLE", SecretKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", Session: "session"}, "us-east-1", "bedrock",
		time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
	const want = "Signature=7e330bd977ac6f8bae15ecc4a3ce52bf2d16e93ac0f89feef462bd9a8c96a6fb"
	if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
