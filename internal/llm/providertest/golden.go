package providertest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Golden compares with a file, or writes it under -update.
func Golden(t *testing.T, path string, got []byte) {
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
	Dialect json.RawMessage
	Sealed  map[string]struct {
		Provider string
		Blocks   []json.RawMessage
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
		ContextManagement json.RawMessage `json:"context_management"`
		Whole             bool            `json:"whole"`
		Shell             string          `json:"shell"`
		Patch             string          `json:"patch"`
	}
}

// request is the case's request, whose seals are of the given dialect.
func (c requestCase) request(seal string) llm.Request {
	q := c.Request
	for i, item := range q.Input {
		var r openai.Reasoning
		if item.Type != openai.TypeReasoning || item.Decode(&r) != nil {
			continue
		}
		if name, ok := strings.CutPrefix(r.EncryptedContent, "@"); ok {
			r.EncryptedContent = llm.Seal{Dialect: seal, Provider: c.Sealed[name].Provider}.Close(c.Sealed[name].Blocks)
			q.Input[i] = openai.NewItem(r)
		}
	}
	return llm.Request{Model: q.Model, Instructions: q.Instructions, Items: q.Input, Tools: q.Tools, ToolChoice: q.ToolChoice,
		ParallelToolCalls: q.ParallelToolCalls, MaxOutputTokens: q.MaxOutputTokens, Temperature: q.Temperature, TopP: q.TopP,
		Text: q.Text, Reasoning: q.Reasoning, ContextManagement: q.ContextManagement, User: q.User, Whole: q.Whole, Shell: q.Shell, Patch: q.Patch}
}

// Requests holds the translation of every file of testdata/requests, of which there are at least least, to what stands
// beside it: what would be sent, or the refusal; and that whatever is bent in a request, there is an answer. body reads the case's own settings of the dialect out of strict JSON;
// seal names the dialect of the seals. accept says why a real server would refuse a body; nil leaves that out.
func Requests(t *testing.T, least int, seal string, body func(settings json.RawMessage, r llm.Request) ([]byte, error), accept func([]byte) error) {
	files, _ := filepath.Glob("testdata/requests/*.in.json")
	if len(files) < least {
		t.Fatalf("%d cases, want %d", len(files), least)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c requestCase
			if err := Strict(raw, &c); err != nil {
				t.Fatal(err)
			}
			r := c.request(seal)
			if len(c.Dialect) == 0 {
				c.Dialect = json.RawMessage("{}")
			}
			got, err := body(c.Dialect, r)
			var out bytes.Buffer
			if err != nil {
				e, ok := fault.As(err)
				if !ok {
					t.Fatalf("no fault: %v", err)
				}
				fmt.Fprintf(&out, "{\n  \"refused\": %q,\n  \"kind\": %q,\n  \"code\": %q,\n  \"param\": %q\n}\n", e.Message, e.Kind, e.Code, e.Param)
			} else {
				if err := json.Indent(&out, got, "", "  "); err != nil {
					t.Fatalf("%v: %s", err, got)
				}
				out.WriteByte('\n')
				if accept != nil {
					if err := accept(got); err != nil {
						t.Errorf("the server would refuse it: %v", err)
					}
				}
			}
			Golden(t, strings.TrimSuffix(file, ".in.json")+".out.json", out.Bytes())
			for bent, text := range bentCases(raw) {
				if len(bent.Dialect) == 0 {
					bent.Dialect = json.RawMessage("{}")
				}
				r := bent.request(seal)
				got, err := body(bent.Dialect, r)
				if why := answered(r, got, err, accept); why != nil {
					t.Errorf("%v\n%s", why, text)
				}
			}
		})
	}
}

// answered says what is wrong with what becomes of a request: it must be JSON that a server takes, or a fault that says
// 400, but for a shell item, which is a defect of ours.
func answered(r llm.Request, got []byte, err error, accept func([]byte) error) error {
	shell := slices.ContainsFunc(r.Items, func(i openai.Item) bool { return strings.HasPrefix(i.Type, "shell_call") })
	switch e, ok := fault.As(err); {
	case err != nil && (!ok || e.Kind != fault.Invalid && !(shell && e.Kind == fault.Internal)):
		return fmt.Errorf("refused by what is no 400: %w", err)
	case err == nil && !json.Valid(got):
		return fmt.Errorf("sent is no JSON: %s", got)
	case err == nil && accept != nil:
		if err := accept(got); err != nil {
			return fmt.Errorf("the server would refuse it: %w: %s", err, got)
		}
	}
	return nil
}

// Strict reads JSON that holds no field that v does not have.
func Strict(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// Answers holds what becomes of every file testdata/answers/NAME.http, an HTTP answer written from the documented shapes,
// of which there are at least least. open makes a provider named "test" that asks with the given client, tries once and
// mints by [Counter]; its key and its secret header hold the word "secret". never is what must not get out.
func Answers(t *testing.T, least int, seal string, open func(*http.Client) llm.Provider, never ...string) {
	files, _ := filepath.Glob("testdata/answers/*.http")
	if len(files) < least {
		t.Fatalf("%d answers, want %d", len(files), least)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, split := range Splits {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".http")+"/"+split.Name, func(t *testing.T) {
				a := Collect(t, t.Context(), open(Recorded(raw, split.How)), llm.Request{Model: "m", Items: []openai.Item{openai.UserText("a")}})
				var out strings.Builder
				out.WriteString(Dump(Together(a.Events)))
				for _, item := range a.Items {
					if item.Type != openai.TypeReasoning {
						continue
					}
					blocks, err := (llm.Seal{Dialect: seal, Provider: "test"}).OpenItem(item)
					if err != nil {
						t.Error(err)
					}
					if len(blocks) > 0 {
						text, _ := openai.Marshal(blocks)
						fmt.Fprintf(&out, "sealed: %s\n", text)
					}
				}
				if e, ok := fault.As(a.Err); ok {
					fmt.Fprintf(&out, "error: %s %s: %s\ncause: %s\n", e.Kind, e.Code, e.Public(), e.Error())
				}
				for _, word := range append(never, "secret") {
					if strings.Contains(out.String(), word) {
						t.Errorf("%q got out:\n%s", word, out.String())
					}
				}
				Golden(t, strings.TrimSuffix(file, ".http")+".golden", []byte(out.String()))
			})
		}
	}
}

// Together joins text deltas that follow each other. How many there are says how the bytes came.
func Together(events []openai.Event) []openai.Event {
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
