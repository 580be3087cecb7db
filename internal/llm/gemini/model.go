package gemini

import (
	"net/url"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
)

// generation says what a model knows, as far as requests differ by it. A model of an unknown name is taken for a new one.
type generation int

const (
	plain   generation = iota // up to Gemini 2.0: does not think
	budgets                   // 2.5: thinks by a budget
	levels                    // from 3 on: thinks by a level, and demands its signatures back
)

// nameOf is a model's own name: the last part of one that tells its publisher or its project too.
func nameOf(model string) string {
	return strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
}

func generationOf(model string) generation {
	name := nameOf(model)
	for _, known := range []struct {
		prefix string
		is     generation
	}{{"gemini-1", plain}, {"gemini-2.0", plain}, {"gemma", plain}, {"learnlm", plain}, {"gemini-2", budgets}, {"gemini-robotics-er-1", budgets}} {
		if strings.HasPrefix(name, known.prefix) {
			return known.is
		}
	}
	return levels
}

// thinking is how much a model shall think, and whether it shall show it; nil leaves it to the model. It never says
// anything to a model that does not think: such a one refuses the words.
func thinking(model string, want dialect.Effort) *wire.Thinking {
	is := generationOf(model)
	if is == plain || want == (dialect.Effort{}) {
		return nil
	}
	t := wire.Thinking{Include: want.Summary != ""}
	switch {
	case want.Effort == "":
	case is == budgets:
		n := want.Budget()
		if want.Effort == "none" {
			n = leastBudget(model)
		}
		t.Budget = &n
	default:
		t.Level = level(model, want.Effort)
	}
	return &t
}

// leastBudget is the smallest budget that a model takes: Pro does not do without thinking.
func leastBudget(model string) int64 {
	if strings.Contains(nameOf(model), "-pro") {
		return 128
	}
	return 0
}

// level is the level for an effort. Pro knows no minimal level, and its first version none between the other two.
func level(model, effort string) string {
	name := nameOf(model)
	pro := strings.Contains(name, "-pro")
	switch effort {
	case "none", "minimal":
		if pro {
			return "LOW"
		}
		return "MINIMAL"
	case "low":
		return "LOW"
	case "medium":
		if strings.HasPrefix(name, "gemini-3-pro") {
			return "HIGH"
		}
		return "MEDIUM"
	default:
		return "HIGH"
	}
}

// place is where models are.
type place struct {
	vertex            bool
	project, location string // of Vertex AI; without a project it is asked by key alone
}

// path is a model's, for what comes behind the base URL. Whatever a request names stays within the configured project.
func (p place) path(model string) (string, error) {
	if !p.vertex {
		kind := "models"
		for _, k := range []string{"models", "tunedModels"} {
			if rest, ok := strings.CutPrefix(model, k+"/"); ok {
				kind, model = k, rest
			}
		}
		return segments(kind, model)
	}
	own := ""
	if p.project != "" {
		own = "projects/" + p.project + "/locations/" + p.location
		model = strings.TrimPrefix(model, own+"/")
	}
	parts := strings.Split(model, "/")
	switch n := len(parts); {
	case n == 1:
		parts = []string{"publishers", "google", "models", model}
	case n == 2 && parts[0] == "models":
		parts = []string{"publishers", "google", "models", parts[1]}
	case n == 2 && parts[0] == "endpoints" && own != "":
	case n == 2:
		parts = []string{"publishers", parts[0], "models", parts[1]}
	case n == 4 && parts[0] == "publishers" && parts[2] == "models":
	default:
		return "", dialect.Invalid("model", "the model %q is no name of a model of this project", model)
	}
	if own != "" {
		parts = slices.Concat(strings.Split(own, "/"), parts)
	}
	return segments(parts...)
}

// segments is a path of them. None of them can be anything else than a segment, or a method's name.
func segments(parts ...string) (string, error) {
	var b strings.Builder
	for _, s := range parts {
		if s == "" || s == "." || s == ".." {
			return "", dialect.Invalid("model", "the model's name has an empty part, or one of dots alone")
		}
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(url.PathEscape(s), ":", "%3A"))
	}
	return b.String(), nil
}
