// Package llm asks models. It declares what a provider is, routes a model's name to one, and writes a model's turn as
// Responses events.
//
// It runs no tool and keeps no conversation: a request carries the whole conversation as Responses items, and the
// answer is one model turn. Each upstream dialect has a folder of its own that translates at its edge; providertest
// is the suite that every one of them passes.
package llm

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Request asks for one model turn. Nil and empty fields mean that the caller set nothing.
type Request struct {
	Model             string // the provider's own name for it
	Instructions      string
	Items             []openai.Item
	Tools             []openai.Tool // functions; a provider refuses the types that its upstream does not run
	ToolChoice        json.RawMessage
	ParallelToolCalls *bool
	MaxOutputTokens   *int64
	Temperature       *float64
	TopP              *float64
	Text              json.RawMessage
	Reasoning         json.RawMessage
	User              string
	PromptCacheKey    string
	SafetyIdentifier  string
	ServiceTier       string

	// ContextManagement tells an upstream that makes room by itself when to do so; no other is sent it. See [Compacts].
	ContextManagement json.RawMessage

	// Shell is the name of the function among Tools, and of the calls among Items, that is our shell. A provider whose
	// models know a shell of their own may declare that one instead; its calls come as calls of this function.
	Shell string

	// Patch is the same of the function that is apply_patch. Its arguments are openai.PatchArguments, an answer to it
	// openai.PatchResult.
	Patch string

	// Hosted, where it is not nil, leaves the calls of Shell to the upstream. Only a [Host] is asked so.
	Hosted *Hosted

	// Whole says that nobody reads the events as they come, so that the upstream may be asked for its answer in one
	// piece. The law of Stream stays the same.
	Whole bool
}

// A Provider answers for one upstream. It is safe for use by many goroutines.
type Provider interface {
	// Models lists what the upstream offers. A model that is not listed may still be asked for.
	Models(ctx context.Context) ([]openai.Model, error)

	// Stream asks for one turn. Events carry output indexes from 0 and ids that we minted, never the upstream's.
	// Every message, reasoning and function_call item is added, built by deltas and done. An item of any other type is
	// one that the upstream ran by itself; it is added and done at once, as it is. Then comes exactly one *openai.Lifecycle (completed, incomplete or failed) whose Response carries Status,
	// IncompleteDetails, Error and Usage only; Usage is nil when the upstream told none. A failure is one
	// (nil, error) with a *fault.Error, after which the sequence ends; items may then be left open. Breaking off the
	// loop, or ending ctx, ends the upstream call before Stream returns.
	//
	// An event belongs to whoever receives it; it is not touched again.
	Stream(ctx context.Context, r Request) iter.Seq2[openai.Event, error]
}

// A Checker can say before a call whether a request can be served, and name what cannot be.
type Checker interface {
	Check(r Request) error
}

// Check refuses what p is known to be unable to serve. It calls nobody.
func Check(p Provider, r Request) error {
	if c, ok := p.(Checker); ok {
		return c.Check(r)
	}
	return CheckTools("this provider", r.Tools)
}

// A Compactor can say that its upstream makes room in a long conversation by itself, where a request's ContextManagement
// says when. Its answer then has an item of type compaction, which goes back to it alone.
type Compactor interface {
	Compacts() bool
}

// Compacts says whether p's upstream makes room by itself.
func Compacts(p Provider) bool {
	c, ok := p.(Compactor)
	return ok && c.Compacts()
}

// CheckTools refuses the first tool that is not a function, naming it and the provider.
func CheckTools(provider string, tools []openai.Tool) error {
	for _, t := range tools {
		if t.Type != "function" {
			return fault.New(fault.Invalid, "tool type %q cannot be served by provider %q", t.Type, provider).
				WithCode("unsupported_tool").WithParam("tools")
		}
	}
	return nil
}
