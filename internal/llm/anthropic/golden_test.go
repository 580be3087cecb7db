package anthropic

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

func TestBody(t *testing.T) {
	providertest.Requests(t, 50, "anthropic", func(settings json.RawMessage, r llm.Request) ([]byte, error) {
		d := Dialect{Version: wire.Version2023}
		if err := providertest.Strict(settings, &d); err != nil {
			t.Fatal(err)
		}
		d.Provider = "test"
		return d.Body(r)
	}, acceptable)
}

// The answers were written from the documented shapes; none was recorded from the vendor.
func TestAnswers(t *testing.T) {
	providertest.Answers(t, 60, "anthropic", recorded, "toolu_")
}

// recorded is a provider of recorded answers.
func recorded(client *http.Client) llm.Provider {
	p := New(Options{Options: upstream.Options{Name: "test", BaseURL: "http://upstream.example?token=tenant-secret-1", APIKey: "sk-ant-secret",
		Headers: map[string]string{"X-Tenant": "tenant-secret-1"}, MaxTries: 1, Client: client}})
	p.mint = providertest.Counter()
	return p
}
