package scripted

import (
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
)

func TestProvider(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Fixture {
		return providertest.Fixture{Provider: New(Options{}), Model: Name, Script: func(name string) string { return name }}
	})
}
