package bedrock

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
)

func TestHosts(t *testing.T) {
	for base, want := range map[string]host{
		"https://bedrock-runtime.eu-central-1.amazonaws.com":                          {"eu-central-1", "https://bedrock.eu-central-1.amazonaws.com"},
		"https://bedrock-runtime.cn-north-1.amazonaws.com.cn/":                        {"cn-north-1", "https://bedrock.cn-north-1.amazonaws.com.cn/"},
		"https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com":                    {"us-gov-west-1", "https://bedrock-fips.us-gov-west-1.amazonaws.com"},
		"https://bedrock-runtime.eu-west-1.api.aws:443":                               {"eu-west-1", "https://bedrock.eu-west-1.api.aws:443"},
		"https://bedrock-runtime-fips.us-east-2.api.aws":                              {"us-east-2", "https://bedrock-fips.us-east-2.api.aws"},
		"https://vpce-0a1b-2c3d.bedrock-runtime.ap-south-1.vpce.amazonaws.com":        {"ap-south-1", ""},
		"https://vpce-0a1b-us-east-1a.bedrock-runtime.us-west-2.vpce.amazonaws.com/x": {"us-west-2", ""},
		"https://bedrock-runtime.eu-west-1.example.com":                               {},
		"https://bedrock-runtime.eu-west-1.amazonaws.com.evil.example":                {},
		"http://127.0.0.1:8080/bedrock-runtime.eu-west-1.amazonaws.com":               {},
		"https://bedrock-runtime":                                                     {},
		"":                                                                            {},
		"://":                                                                         {},
	} {
		if got := hostOf(base); got != want {
			t.Errorf("%s: %+v, want %+v", base, got, want)
		}
	}
}

// What is signed for is what the host says, before what the environment does.
func TestRegionOfTheHost(t *testing.T) {
	t.Setenv("AWS_REGION", "us-west-1")
	for base, want := range map[string]string{"https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com": "us-gov-west-1", "http://gateway.example": "us-west-1"} {
		var got string
		p := New(Options{Options: upstream.Options{BaseURL: base, MaxTries: 1, Client: &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
			got = r.Header.Get("Authorization")
			return nil, http.ErrHandlerTimeout
		})}}, Source: Static{AccessKey: "AK", SecretKey: "s"}})
		providertest.Collect(t, t.Context(), p, providertest.Hello())
		if !strings.Contains(got, "/"+want+"/bedrock/aws4_request") {
			t.Errorf("%s: %s, want it for %s", base, got, want)
		}
	}
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A configured Authorization is the operator's own; a configured Host is the host that is asked and signed, once.
func TestHeadersOfTheOperator(t *testing.T) {
	for name, value := range map[string]string{"Authorization": "Basic b3BlcmF0b3I=", "Host": "inner.example"} {
		var sent *http.Request
		p := New(Options{Options: upstream.Options{BaseURL: "https://proxy.example", Headers: map[string]string{name: value}, MaxTries: 1,
			Client: &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
				sent = r
				return nil, http.ErrHandlerTimeout
			})}}, Region: "us-east-1", Source: Static{AccessKey: "AK", SecretKey: "s"}})
		providertest.Collect(t, t.Context(), p, providertest.Hello())
		auth := sent.Header.Get("Authorization")
		if name == "Authorization" && auth != value {
			t.Errorf("sent %q", auth)
		}
		if name == "Host" && (sent.Host != value || strings.Count(auth, "host") != 1) {
			t.Errorf("host %q, signed as %s", sent.Host, auth)
		}
	}
}
