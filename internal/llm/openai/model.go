package openai

import (
	"strconv"
	"strings"
)

// traits is what a request must know of a model.
type traits struct {
	reasons bool // it has reasoning to encrypt
	shell   bool // it knows the vendor's own shell tool
}

// traitsOf reads a model's name, such as gpt-5.2-codex or o4-mini. What it does not know gets nothing special.
func traitsOf(model string) traits {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	if len(model) > 1 && model[0] == 'o' && model[1] >= '1' && model[1] <= '9' {
		return traits{reasons: true}
	}
	rest, ok := strings.CutPrefix(model, "gpt-")
	if !ok {
		return traits{reasons: strings.HasPrefix(model, "codex")}
	}
	number, kind, _ := strings.Cut(rest, "-")
	version, err := strconv.ParseFloat(number, 64)
	if err != nil || version < 5 || version >= 100 || strings.HasPrefix(kind, "chat") {
		return traits{}
	}
	return traits{reasons: true, shell: version >= 5.1}
}
