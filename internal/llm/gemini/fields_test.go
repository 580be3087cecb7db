package gemini

import (
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
)

// TestFields holds that no field of a request is dropped silently.
func TestFields(t *testing.T) {
	d := Dialect{Provider: "test"}
	said := LeftOut()
	for _, model := range []string{"gemini-3-flash", "gemini-2.5-pro", "gemini-2.0-flash"} {
		t.Run(model, func(t *testing.T) {
			leftOut := map[string]string{
				"ParallelToolCalls": said["parallel_tool_calls"],
				"Text.verbosity":    said["text.verbosity"],
				"User":              said["user"],
				"SafetyIdentifier":  said["safety_identifier"],
				"PromptCacheKey":    said["prompt_cache_key"],
				"Shell":             "the shell is a function here",
				"Whole":             "it stands in the path",
			}
			if generationOf(model) == plain {
				leftOut["Reasoning.effort"], leftOut["Reasoning.none"] = said["reasoning"], said["reasoning"]
			}
			providertest.Fields(t, llm.Request{Model: model}, func(r llm.Request) (string, error) {
				body, err := d.Body(r)
				return r.Model + string(body), err
			}, leftOut)
		})
	}
}
