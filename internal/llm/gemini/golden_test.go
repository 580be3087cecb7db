package gemini

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
)

func TestBody(t *testing.T) {
	providertest.Requests(t, 35, "gemini", func(settings json.RawMessage, r llm.Request) ([]byte, error) {
		d := Dialect{}
		if err := providertest.Strict(settings, &d); err != nil {
			t.Fatal(err)
		}
		d.Provider = "test"
		body, err := d.Body(r)
		if err == nil && generationOf(r.Model) == levels {
			first(t, body)
		}
		return body, err
	}, acceptable)
}

// first holds that the first call of each content has a signature.
func first(t *testing.T, body []byte) {
	t.Helper()
	var q wire.Request
	if err := json.Unmarshal(body, &q); err != nil {
		t.Fatal(err)
	}
	for i, c := range q.Contents {
		for _, p := range c.Parts {
			if p.FunctionCall == nil {
				continue
			}
			if p.Signature == "" {
				t.Errorf("the first call of contents[%d] has no signature", i)
			}
			break
		}
	}
}

// The answers were written from the documented shapes; none was recorded from the vendor.
func TestAnswers(t *testing.T) {
	providertest.Answers(t, 40, "gemini", recorded, "upstream-id")
}

// recorded is a provider of recorded answers.
func recorded(client *http.Client) llm.Provider {
	p := New(Options{Options: upstream.Options{Name: "test", BaseURL: "http://upstream.example", APIKey: "AIza-secret",
		Headers: map[string]string{"X-Tenant": "tenant-secret-1"}, MaxTries: 1, Client: client}})
	p.mint = providertest.Counter()
	return p
}

func FuzzRequest(f *testing.F) {
	providertest.FuzzRequest(f, "gemini", Dialect{Provider: "test"}.Body)
}

func FuzzStream(f *testing.F) { providertest.FuzzStream(f, recorded) }
