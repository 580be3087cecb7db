package bedrock

import (
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
)

func TestEveryFieldIsMappedOrRefused(t *testing.T) {
	providertest.Fields(t, LeftOut(), providertest.Case{Base: llm.Request{Model: "m"}, Body: Dialect{Provider: "test"}.Body})
}
