package anthropic

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file, or writes it under -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// requestCase is a file testdata/requests/NAME.in.json. An encrypted_content "@x" stands for the seal named x.
type requestCase struct {
	Dialect Dialect
	Sealed  map[string]struct {
		Provider string
		Blocks   []wire.Block
	}
	Request struct {
		Model             string          `json:"model"`
		Instructions      string          `json:"instructions"`
		Input             openai.Input    `json:"input"`
		Tools             []openai.Tool   `json:"tools"`
		ToolChoice        json.RawMessage `json:"tool_choice"`
		ParallelToolCalls *bool           `json:"parallel_tool_calls"`
		MaxOutputTokens   *int64          `json:"max_output_tokens"`
		Temperature       *float64        `json:"temperature"`
		TopP              *float64        `json:"top_p"`
		Text              json.RawMessage `json:"text"`
		Reasoning         json.RawMessage `json:"reasoning"`
		User              string          `json:"user"`
		Whole             bool            `json:"whole"`
	}
}

// readCase reads a case and puts the seals in.
func readCase(t *testing.T, file string) (Dialect, llm.Request) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c requestCase
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	q := c.Request
	for i, item := range q.Input {
		var r openai.Reasoning
		if item.Type != openai.TypeReasoning || item.Decode(&r) != nil {
			continue
		}
		if name, ok := strings.CutPrefix(r.EncryptedContent, "@"); ok {
			r.EncryptedContent = seal(c.Sealed[name].Provider, c.Sealed[name].Blocks)
			q.Input[i] = openai.NewItem(r)
		}
	}
	if c.Dialect.Version == "" {
		c.Dialect.Version = wire.Version2023
	}
	c.Dialect.Provider = "test"
	return c.Dialect, llm.Request{Model: q.Model, Instructions: q.Instructions, Items: q.Input, Tools: q.Tools, ToolChoice: q.ToolChoice,
		ParallelToolCalls: q.ParallelToolCalls, MaxOutputTokens: q.MaxOutputTokens, Temperature: q.Temperature, TopP: q.TopP,
		Text: q.Text, Reasoning: q.Reasoning, User: q.User, Whole: q.Whole}
}

func TestBody(t *testing.T) {
	files, _ := filepath.Glob("testdata/requests/*.in.json")
	if len(files) < 50 {
		t.Fatalf("%d cases", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.json"), func(t *testing.T) {
			d, r := readCase(t, file)
			body, err := d.Body(r)
			var out bytes.Buffer
			if err != nil {
				e, ok := fault.As(err)
				if !ok {
					t.Fatalf("no fault: %v", err)
				}
				fmt.Fprintf(&out, "{\n  \"refused\": %q,\n  \"kind\": %q,\n  \"code\": %q,\n  \"param\": %q\n}\n", e.Message, e.Kind, e.Code, e.Param)
			} else {
				if err := json.Indent(&out, body, "", "  "); err != nil {
					t.Fatalf("%v: %s", err, body)
				}
				out.WriteByte('\n')
				if err := acceptable(body); err != nil {
					t.Errorf("the API would refuse it: %v", err)
				}
			}
			golden(t, strings.TrimSuffix(file, ".in.json")+".out.json", out.Bytes())
		})
	}
}

// recorded answers every request with the bytes of an HTTP answer, read in a certain way.
type recorded struct {
	raw   []byte
	split func(io.Reader) io.Reader
}

func (r recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(r.raw)), req)
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(r.split(res.Body))
	return res, nil
}

// counter mints ids that are valid and the same in every run.
func counter() func(string) string {
	n := 0
	return func(prefix string) string {
		n++
		return fmt.Sprintf("%s_%026d", prefix, n)
	}
}

// sevenBytes reads at most seven bytes at a time: it splits lines, escapes and characters.
type sevenBytes struct{ r io.Reader }

func (s sevenBytes) Read(b []byte) (int, error) { return s.r.Read(b[:min(7, len(b))]) }

var splits = []struct {
	name string
	how  func(io.Reader) io.Reader
}{
	{"whole", func(r io.Reader) io.Reader { return r }},
	{"seven bytes", func(r io.Reader) io.Reader { return sevenBytes{r} }},
	{"one byte", iotest.OneByteReader},
	{"end with data", iotest.DataErrReader},
}

// The answers were written from the documented shapes; none was recorded from the vendor.
func TestAnswers(t *testing.T) {
	files, _ := filepath.Glob("testdata/answers/*.http")
	if len(files) < 60 {
		t.Fatalf("%d answers", len(files))
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, split := range splits {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".http")+"/"+split.name, func(t *testing.T) {
				p := New(Options{Name: "test", BaseURL: "http://upstream.example?token=tenant-secret-1", APIKey: "sk-ant-secret",
					Headers:      map[string]string{"X-Tenant": "tenant-secret-1"},
					MaxRetryWait: time.Nanosecond, // one try
					Client:       &http.Client{Transport: recorded{raw, split.how}}})
				p.mint = counter()
				a := providertest.Collect(t, t.Context(), p, llm.Request{Model: "m", Items: []openai.Item{openai.UserText("a")}})
				var out strings.Builder
				out.WriteString(providertest.Dump(a.Events))
				for _, item := range a.Items {
					var r openai.Reasoning
					if item.Type == openai.TypeReasoning && item.Decode(&r) == nil && r.EncryptedContent != "" {
						blocks, _ := wire.Marshal(unseal("test", r.EncryptedContent))
						out.WriteString(fmt.Sprintf("sealed: %s\n", blocks))
					}
				}
				if e, ok := fault.As(a.Err); ok {
					out.WriteString(fmt.Sprintf("error: %s %s: %s\ncause: %s\n", e.Kind, e.Code, e.Public(), e.Error()))
				}
				if strings.Contains(out.String(), "secret") || strings.Contains(out.String(), standIn) || strings.Contains(out.String(), "toolu_") {
					t.Errorf("a secret, the stand-in or an upstream's id got out:\n%s", out.String())
				}
				golden(t, strings.TrimSuffix(file, ".http")+".golden", []byte(out.String()))
			})
		}
	}
}
