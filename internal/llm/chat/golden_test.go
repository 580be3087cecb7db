package chat

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

// requestCase is a file testdata/requests/NAME.in.json.
type requestCase struct {
	Dialect struct{ MaxCompletionTokens, KeepRoles bool }
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
	}
}

func TestBody(t *testing.T) {
	files, _ := filepath.Glob("testdata/requests/*.in.json")
	if len(files) == 0 {
		t.Fatal("no cases")
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".in.json")
		t.Run(name, func(t *testing.T) {
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
			d := Dialect{Provider: "test", MaxCompletionTokens: c.Dialect.MaxCompletionTokens, KeepRoles: c.Dialect.KeepRoles}
			body, err := d.Body(llm.Request{Model: q.Model, Instructions: q.Instructions, Items: q.Input, Tools: q.Tools, ToolChoice: q.ToolChoice,
				ParallelToolCalls: q.ParallelToolCalls, MaxOutputTokens: q.MaxOutputTokens, Temperature: q.Temperature, TopP: q.TopP,
				Text: q.Text, Reasoning: q.Reasoning, User: q.User})
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
			}
			golden(t, strings.TrimSuffix(file, ".in.json")+".out.json", out.Bytes())
		})
	}
}

// recorded answers every request with the bytes of a recorded HTTP answer, read in a certain way.
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

// together joins text deltas that follow each other. How many there are says how the bytes came.
func together(events []openai.Event) []openai.Event {
	var out []openai.Event
	for _, ev := range events {
		d, ok := ev.(*openai.DeltaEvent)
		if ok && d.Type == openai.EventTextDelta && len(out) > 0 {
			if last, ok := out[len(out)-1].(*openai.DeltaEvent); ok && last.Type == d.Type && last.ItemID == d.ItemID &&
				last.OutputIndex == d.OutputIndex && last.ContentIndex == d.ContentIndex {
				last.Delta += d.Delta
				continue
			}
		}
		out = append(out, ev)
	}
	return out
}

func TestAnswers(t *testing.T) {
	files, _ := filepath.Glob("testdata/answers/*.http")
	if len(files) < 60 {
		t.Fatalf("%d recordings", len(files))
	}
	splits := []struct {
		name string
		how  func(io.Reader) io.Reader
	}{
		{"whole", func(r io.Reader) io.Reader { return r }},
		{"seven bytes", func(r io.Reader) io.Reader { return sevenBytes{r} }},
		{"one byte", iotest.OneByteReader},
		{"end with data", iotest.DataErrReader},
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, split := range splits {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".http")+"/"+split.name, func(t *testing.T) {
				p := New(Options{Name: "test", BaseURL: "http://upstream.example/v1?token=tenant-secret-1", APIKey: "sk-test-secret",
					Headers:      map[string]string{"X-Tenant": "tenant-secret-1"},
					MaxRetryWait: time.Nanosecond, // one try
					Client:       &http.Client{Transport: recorded{raw, split.how}}})
				p.mint = counter()
				a := providertest.Collect(t, t.Context(), p, llm.Request{Model: "m"})
				out := providertest.Dump(together(a.Events))
				if e, ok := fault.As(a.Err); ok {
					out += fmt.Sprintf("error: %s %s: %s\ncause: %s\n", e.Kind, e.Code, e.Public(), e.Error())
				}
				if strings.Contains(out, "secret") && !strings.Contains(out, "api_key") || strings.Contains(out, "sk-te") {
					t.Errorf("a secret got out:\n%s", out)
				}
				golden(t, strings.TrimSuffix(file, ".http")+".golden", []byte(out))
			})
		}
	}
}
