package gemini

import (
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
)

func TestEveryFieldIsMappedOrRefused(t *testing.T) {
	var cases []providertest.Case
	for _, model := range []string{"gemini-3-flash", "gemini-3-pro", "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.0-flash"} {
		cases = append(cases, providertest.Case{Base: llm.Request{Model: model}, Body: Dialect{Provider: "test"}.Body})
	}
	providertest.Fields(t, LeftOut(), cases...)
}
