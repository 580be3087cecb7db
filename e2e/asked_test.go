package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// geminiRequest is the body of a request: the vendor's client has types for its parts and puts them together by hand.
type geminiRequest struct {
	Contents          []*genai.Content        `json:"contents,omitempty"`
	SystemInstruction *genai.Content          `json:"systemInstruction,omitempty"`
	Tools             []*genai.Tool           `json:"tools,omitempty"`
	ToolConfig        *genai.ToolConfig       `json:"toolConfig,omitempty"`
	GenerationConfig  *genai.GenerationConfig `json:"generationConfig,omitempty"`
	ServiceTier       string                  `json:"serviceTier,omitempty"`
}

// TestTheVendorsKnowWhatWeSend reads every request that our goldens send with the vendor's own types and writes it again:
// what those do not know, or know as something else, is lost on the way. Bedrock's types are not read from JSON: its client
// sends the same instead, in asked_bedrock_test.go.
func TestTheVendorsKnowWhatWeSend(t *testing.T) {
	// The SDK's readers take the choice of one function for that of another kind; what its writers make of it is below.
	for dialect, c := range map[string]struct {
		request func() any
		lost    []string // and rightly so
	}{
		// A person's part is passed on as it came, also with a value that the client does not know.
		"openai":    {func() any { return new(responses.ResponseNewParams) }, []string{".tool_choice.name", ".input[].content[].prompt_cache_breakpoint"}},
		"chat":      {func() any { return new(openai.ChatCompletionNewParams) }, []string{".tool_choice.function"}},
		"anthropic": {func() any { return new(anthropic.MessageNewParams) }, nil},
		// The client leaves out what is empty, even a text that is there to be signed.
		"gemini": {func() any { return new(geminiRequest) }, []string{`.contents[].parts[].text ""`, ".contents[].parts[].functionCall.args {}"}},
	} {
		files, err := filepath.Glob("../internal/llm/" + dialect + "/testdata/requests/*.out.json")
		if err != nil {
			t.Fatal(err)
		}
		sent := 0
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(raw, []byte(`"refused":`)) {
				continue
			}
			sent++
			// The API's word for "not signed" is documented as it is, and is no base64 as the client's type wants it.
			raw = bytes.ReplaceAll(raw, []byte(`"skip_thought_signature_validator"`), []byte(`"AAAA"`))
			t.Run(dialect+"/"+strings.TrimSuffix(filepath.Base(file), ".out.json"), func(t *testing.T) {
				lost := reread(t, raw, c.request())
				lost = slices.DeleteFunc(lost, func(at string) bool { return slices.Contains(c.lost, at) })
				if len(lost) > 0 {
					t.Errorf("lost: %q", lost)
				}
			})
		}
		if sent < 10 {
			t.Errorf("%s: %d requests were read", dialect, sent)
		}
		// Types that kept what they do not know would make this test say nothing.
		if lost := reread(t, []byte(`{"nobody_knows_this":1}`), c.request()); !slices.Equal(lost, []string{".nobody_knows_this"}) {
			t.Errorf("%s: what nobody knows is lost as %q", dialect, lost)
		}
	}
}

// TestAFunctionIsChosenAsTheVendorsClientDoes: their types write the choice of one function as our goldens do.
func TestAFunctionIsChosenAsTheVendorsClientDoes(t *testing.T) {
	for file, theirs := range map[string]any{
		"openai/testdata/requests/tools_and_choice":   responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "shell"}},
		"chat/testdata/requests/tool_choice_function": openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "weather"}),
	} {
		raw, err := os.ReadFile("../internal/llm/" + file + ".out.json")
		if err != nil {
			t.Fatal(err)
		}
		var ours struct {
			Choice json.RawMessage `json:"tool_choice"`
		}
		if err := json.Unmarshal(raw, &ours); err != nil {
			t.Fatal(err)
		}
		written, err := json.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := canonical(t, string(ours.Choice)), canonical(t, string(written)); got != want {
			t.Errorf("%s: we choose by %s, the client by %s", file, got, want)
		}
	}
}

// reread gives the places of a request that are others after the vendor's type has read and written it.
func reread(t *testing.T, raw []byte, into any) []string {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Error(err)
		return nil
	}
	again, err := json.Marshal(into)
	if err != nil {
		t.Error(err)
		return nil
	}
	var sent, read any
	if err := json.Unmarshal(raw, &sent); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &read); err != nil {
		t.Fatal(err)
	}
	var lost []string
	differences(sent, read, "", &lost)
	sort.Strings(lost)
	return lost
}

// differences lists what of a is not in b. The place of an element of a list has no number.
func differences(a, b any, at string, lost *[]string) {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			*lost = append(*lost, at)
			return
		}
		for key, value := range a {
			if value == nil || at == "" && key == "stream" || strings.HasPrefix(key, "x") {
				continue // null is as good as nothing; the client's method says whether to stream; x is of no vendor's
			}
			if _, ok := b[key]; !ok {
				gone := at + "." + key
				if empty, _ := json.Marshal(value); len(empty) == 2 {
					gone += " " + string(empty)
				}
				*lost = append(*lost, gone)
				continue
			}
			differences(value, b[key], at+"."+key, lost)
		}
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			*lost = append(*lost, fmt.Sprintf("%s[%d]", at, len(a)))
			return
		}
		for i := range a {
			differences(a[i], b[i], at+"[]", lost)
		}
	default:
		if !reflect.DeepEqual(a, b) {
			*lost = append(*lost, fmt.Sprintf("%s: %v, not %v", at, b, a))
		}
	}
}
