package chat

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestBody(t *testing.T) {
	providertest.Requests(t, 50, "chat", func(settings json.RawMessage, r llm.Request) ([]byte, error) {
		d := Dialect{}
		if err := providertest.Strict(settings, &d); err != nil {
			t.Fatal(err)
		}
		d.Provider = "test"
		return d.Body(r)
	}, func(body []byte) error {
		var q openai.ChatRequest
		if err := json.Unmarshal(body, &q); err != nil {
			return err
		}
		_, err := fromChat(q)
		return err
	})
}

func TestAnswers(t *testing.T) {
	providertest.Answers(t, 60, "chat", recorded, "sk-te")
}

func FuzzRequest(f *testing.F) {
	providertest.FuzzRequest(f, "chat", Dialect{Provider: "test"}.Body)
}

func FuzzStream(f *testing.F) { providertest.FuzzStream(f, recorded) }

// recorded is a provider of recorded answers.
func recorded(client *http.Client) llm.Provider {
	p := New(Options{Options: upstream.Options{Name: "test", BaseURL: "http://upstream.example/v1?token=tenant-secret-1", APIKey: "sk-test-secret",
		Headers: map[string]string{"X-Tenant": "tenant-secret-1"}, MaxTries: 1, Client: client}})
	p.mint = providertest.Counter()
	return p
}
