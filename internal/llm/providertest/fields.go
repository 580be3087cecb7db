package providertest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// settings change one thing of a request each. The name is the field of [llm.Request], and behind a dot what of it.
var settings = map[string]func(*llm.Request){
	"Model":               func(r *llm.Request) { r.Model += "-x" },
	"Instructions":        func(r *llm.Request) { r.Instructions = "x" },
	"Items":               func(r *llm.Request) { r.Items = append(r.Items, openai.UserText("b")) },
	"Tools":               func(r *llm.Request) { r.Tools = nil },
	"ToolChoice.required": func(r *llm.Request) { r.ToolChoice = json.RawMessage(`"required"`) },
	"ToolChoice.none":     func(r *llm.Request) { r.ToolChoice = json.RawMessage(`"none"`) },
	"ToolChoice.function": func(r *llm.Request) { r.ToolChoice = json.RawMessage(`{"type":"function","name":"shell"}`) },
	"ParallelToolCalls":   func(r *llm.Request) { no := false; r.ParallelToolCalls = &no },
	"MaxOutputTokens":     func(r *llm.Request) { n := int64(5); r.MaxOutputTokens = &n },
	"Temperature":         func(r *llm.Request) { half := 0.5; r.Temperature = &half },
	"TopP":                func(r *llm.Request) { half := 0.5; r.TopP = &half },
	"Text.json_schema": func(r *llm.Request) {
		r.Text = json.RawMessage(`{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}`)
	},
	"Text.json_object": func(r *llm.Request) { r.Text = json.RawMessage(`{"format":{"type":"json_object"}}`) },
	"Text.verbosity":   func(r *llm.Request) { r.Text = json.RawMessage(`{"verbosity":"low"}`) },
	"Text.unknown":     func(r *llm.Request) { r.Text = json.RawMessage(`{"format":{"type":"grammar"}}`) },
	"Reasoning.effort": func(r *llm.Request) { r.Reasoning = json.RawMessage(`{"effort":"low"}`) },
	"Reasoning.none":   func(r *llm.Request) { r.Reasoning = json.RawMessage(`{"effort":"none"}`) },
	"User":             func(r *llm.Request) { r.User = "u" },
	"PromptCacheKey":   func(r *llm.Request) { r.PromptCacheKey = "k" },
	"SafetyIdentifier": func(r *llm.Request) { r.SafetyIdentifier = "k" },
	"ServiceTier":      func(r *llm.Request) { r.ServiceTier = "flex" },
	"Whole":            func(r *llm.Request) { r.Whole = true },
	"Shell":            func(r *llm.Request) { r.Shell = "shell" },
	"Tools.web_search": func(r *llm.Request) { r.Tools = append(r.Tools, openai.Tool{Type: "web_search"}) },
	"Items.unknown": func(r *llm.Request) {
		r.Items = append(r.Items, openai.NewItem(map[string]string{"type": "computer_call", "id": "x"}))
	},
	"Items.part": func(r *llm.Request) { r.Items = append(r.Items, withPart(`{"type":"input_audio"}`)) },
	"Items.image": func(r *llm.Request) {
		r.Items = append(r.Items, withPart(`{"type":"input_image","image_url":"data:image/png;base64,AAAA"}`))
	},
	"Items.image_by_id": func(r *llm.Request) {
		r.Items = append(r.Items, withPart(`{"type":"input_image","file_id":"file_1"}`))
	},
	"Items.file": func(r *llm.Request) {
		r.Items = append(r.Items, withPart(`{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}`))
	},
}

func withPart(part string) openai.Item {
	var i openai.Item
	if err := json.Unmarshal([]byte(`{"type":"message","role":"user","content":[`+part+`]}`), &i); err != nil {
		panic(err)
	}
	return i
}

// A Fate is what becomes of a setting.
type Fate string

// The fates of a setting.
const (
	Mapped  Fate = "mapped"
	Refused Fate = "refused"
	LeftOut Fate = "left out" // and the provider's list says so
)

// Fates is what becomes of each setting, by name: what changes nothing in what body makes is left out. base is a request
// that the dialect takes, with [Shell] declared.
func Fates(base llm.Request, body func(llm.Request) (string, error)) (map[string]Fate, error) {
	if len(base.Tools) == 0 {
		base.Tools = []openai.Tool{Shell}
	}
	if len(base.Items) == 0 {
		base.Items = []openai.Item{openai.UserText("a")}
	}
	want, err := body(base)
	if err != nil {
		return nil, err
	}
	fates := map[string]Fate{}
	for name, set := range settings {
		r := base
		r.Items = append([]openai.Item(nil), base.Items...)
		r.Tools = append([]openai.Tool(nil), base.Tools...)
		set(&r)
		switch got, err := body(r); {
		case err != nil:
			fates[name] = Refused
		case got != want:
			fates[name] = Mapped
		default:
			fates[name] = LeftOut
		}
	}
	return fates, nil
}

// Fields holds that each field of a request changes what is sent, is refused, or is one of those that leftOut says may
// be left out. base and body are those of [Fates].
func Fields(t *testing.T, base llm.Request, body func(llm.Request) (string, error), leftOut map[string]string) {
	t.Helper()
	fates, err := Fates(base, body)
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for name, fate := range fates {
		field, _, _ := strings.Cut(name, ".")
		covered[field] = true
		if fate == LeftOut && leftOut[name] == "" {
			t.Errorf("%s is dropped silently", name)
		}
	}
	for field := range reflect.TypeFor[llm.Request]().Fields() {
		if !covered[field.Name] {
			t.Errorf("the field %s is new: say in package providertest what it is set to", field.Name)
		}
	}
	for name := range leftOut {
		if fates[name] != LeftOut {
			t.Errorf("%s is said to be left out, and is %s", name, fates[name])
		}
	}
}
