package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// A choice of the only function there is goes by the word that every server reads: llama.cpp takes an object for "auto".
func TestTheOnlyFunctionIsRequired(t *testing.T) {
	shell, other := openai.Tool{Type: "function", Name: "shell"}, openai.Tool{Type: "function", Name: "other"}
	const object = `"tool_choice":{"type":"function","function":{"name":"shell"}}`
	for name, c := range map[string]struct {
		d     Dialect
		tools []openai.Tool
		want  string
	}{
		"the only one":     {Dialect{Provider: "p"}, []openai.Tool{shell}, `"tool_choice":"required"`},
		"one of two":       {Dialect{Provider: "p"}, []openai.Tool{shell, other}, object},
		"the vendor's own": {Dialect{Provider: "p", Vendor: true}, []openai.Tool{shell}, object},
	} {
		body, err := c.d.Body(llm.Request{Model: "m", Items: []openai.Item{openai.UserText("a")}, Tools: c.tools,
			ToolChoice: json.RawMessage(`{"type":"function","name":"shell"}`)})
		if err != nil || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %s, %v", name, body, err)
		}
	}
}
