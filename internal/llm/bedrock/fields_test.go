package bedrock

import (
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
)

// TestFields holds that no field of a request is dropped silently.
func TestFields(t *testing.T) {
	d := Dialect{Provider: "test"}
	said := LeftOut()
	providertest.Fields(t, llm.Request{Model: "m"}, func(r llm.Request) (string, error) {
		body, err := d.Body(r)
		return r.Model + string(body), err
	}, map[string]string{
		"ParallelToolCalls": said["parallel_tool_calls"],
		"Reasoning.none":    said["reasoning.effort"],
		"Text.verbosity":    said["text.verbosity"],
		"User":              said["user"],
		"SafetyIdentifier":  said["safety_identifier"],
		"PromptCacheKey":    said["prompt_cache_key"],
		"Shell":             "the shell is a function here",
		"Whole":             "it stands in the path",
	})
}
