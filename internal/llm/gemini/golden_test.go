package gemini

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
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
	providertest.Answers(t, 40, "gemini", func(client *http.Client) llm.Provider { return recorded(client) }, "upstream-id")
}

// recorded is a provider of recorded answers.
func recorded(client *http.Client) *Provider {
	p := New(Options{Options: upstream.Options{Name: "test", BaseURL: "http://upstream.example", APIKey: "AIza-secret",
		Headers: map[string]string{"X-Tenant": "tenant-secret-1"}, MaxTries: 1, Client: client}})
	p.mint = providertest.Counter()
	return p
}

// FuzzStream holds that no answer breaks the law or panics, and that the split changes nothing.
func FuzzStream(f *testing.F) {
	files, _ := filepath.Glob("testdata/answers/*.http")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if _, body, ok := bytes.Cut(raw, []byte("\r\n\r\n")); ok {
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var dumps [2]string
		for i, split := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			p := recorded(providertest.Streamed(string(body), split))
			a := providertest.Collect(t, t.Context(), p, llm.Request{Model: "m", Items: []openai.Item{openai.UserText("a")}})
			dumps[i] = providertest.Dump(providertest.Together(a.Events))
		}
		if dumps[0] != dumps[1] {
			t.Errorf("the split changes the events:\n%s\n%s", dumps[0], dumps[1])
		}
	})
}
