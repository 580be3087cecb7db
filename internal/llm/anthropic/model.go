package anthropic

import (
	"strconv"
	"strings"
)

// maxName bounds a tool's name and a call's id, as the API does the name.
const maxName = 128

// How a model is made to think.
const (
	thinkAdaptive = "adaptive" // by output_config.effort
	thinkBudget   = "budget"   // by thinking.budget_tokens
	thinkNone     = "none"
)

// traits is what a request must know of a model.
type traits struct {
	thinking  string
	sampling  bool  // takes temperature and top_p, under the version that has them
	maxTokens int64 // where a request sets none
}

// traitsOf reads a model's name. The table ends with what is newest: a Claude that it does not know is taken for a
// later one. Servers of other models take the oldest form of everything.
func traitsOf(model string) traits {
	_, claude, ok := strings.Cut(strings.ToLower(model), "claude")
	if !ok {
		return traits{thinkBudget, true, 8192}
	}
	switch v := version(claude); {
	case v < 305:
		return traits{thinkNone, true, 4096}
	case v < 307:
		return traits{thinkNone, true, 8192}
	case v < 406:
		return traits{thinkBudget, true, 32000}
	case v < 407:
		return traits{thinkAdaptive, true, 32000}
	default:
		return traits{thinkAdaptive, false, 32000}
	}
}

// version reads 4.5 as 405 out of "-sonnet-4-5-20250929" and "-3-5-haiku@20241022"; a name without one is the newest.
func version(name string) int {
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-.@:_/", r) })
	for i, word := range words {
		major, ok := small(word)
		if !ok {
			continue
		}
		minor := 0
		if i+1 < len(words) {
			minor, _ = small(words[i+1])
		}
		return 100*major + minor
	}
	return 9999
}

// small reads a number of one or two digits; longer ones are dates.
func small(word string) (int, bool) {
	n, err := strconv.Atoi(word)
	if err != nil || len(word) > 2 || n < 0 {
		return 0, false
	}
	return n, true
}
