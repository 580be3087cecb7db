package bedrock

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
)

func TestBody(t *testing.T) {
	providertest.Requests(t, 35, "bedrock", func(settings json.RawMessage, r llm.Request) ([]byte, error) {
		var d Dialect
		if err := providertest.Strict(settings, &d); err != nil {
			t.Fatal(err)
		}
		d.Provider = "test"
		return d.Body(r)
	}, acceptable)
}

// TestRecordings holds the answers against the texts that they are written from: a head, and a line for each message,
// "event NAME JSON", "exception NAME JSON" or "error CODE TEXT"; "raw TEXT" is what is no message, and "cut N" takes N bytes off the end.
// The texts follow the documented shapes; none was recorded from the vendor.
func TestRecordings(t *testing.T) {
	files, _ := filepath.Glob("testdata/answers/*.txt")
	if len(files) < 25 {
		t.Fatalf("%d texts", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, body, ok := strings.Cut(string(text), "\n\n")
		if !ok {
			t.Fatalf("%s has no head", file)
		}
		var b bytes.Buffer
		b.WriteString(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n")
		b.Write(encoded([]byte(body)))
		providertest.Golden(t, strings.TrimSuffix(file, ".txt")+".http", b.Bytes())
	}
}

// encoded is the stream that such lines stand for.
func encoded(lines []byte) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(string(lines)) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch kind {
		case "raw":
			b.WriteString(rest)
		case "cut":
			b.Truncate(max(0, b.Len()-len(rest)))
		case "event", "exception", "error":
			name, payload, _ := strings.Cut(rest, " ")
			b.Write(message(kind, name, []byte(payload)))
		}
	}
	return b.Bytes()
}

func FuzzRequest(f *testing.F) {
	providertest.FuzzRequest(f, "bedrock", Dialect{Provider: "test"}.Body)
}

// FuzzStream fuzzes the lines: no fuzzer guesses the sums of a message.
func FuzzStream(f *testing.F) {
	providertest.FuzzFramed(f, "testdata/answers/*.txt", framing, encoded, recorded)
}

func TestAnswers(t *testing.T) {
	providertest.Answers(t, 25, "bedrock", recorded, "tooluse_")
}

// recorded is a provider of recorded answers.
func recorded(client *http.Client) llm.Provider {
	p := New(Options{Options: upstream.Options{Name: "test", BaseURL: "http://upstream.example?token=tenant-secret-1", APIKey: "key-secret",
		Headers: map[string]string{"X-Tenant": "tenant-secret-1"}, MaxTries: 1, Client: client}, Region: "us-east-1"})
	p.mint = providertest.Counter()
	return p
}
