package providertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// A setting changes one thing of a request.
type setting struct {
	from func(*llm.Request) // what the request says beside it; nil: nothing
	set  func(*llm.Request)
	keys []string // under which of a provider's list it may stand that the setting is left out
}

// noClients is the key of what no client sets: it may be left out anywhere.
const noClients = "-"

// settings are named by the field of [llm.Request], and behind a dot what of it.
var settings = map[string]setting{
	"Model":               {set: func(r *llm.Request) { r.Model += "-x" }},
	"Instructions":        {set: func(r *llm.Request) { r.Instructions = "x" }},
	"Items":               {set: func(r *llm.Request) { r.Items = append(r.Items, openai.UserText("b")) }},
	"Items.unknown":       {set: adds(`{"type":"computer_call","id":"x"}`)},
	"Items.part":          {set: says(`{"type":"input_audio"}`)},
	"Items.image":         {set: says(`{"type":"input_image","image_url":"data:image/png;base64,AAAA"}`)},
	"Items.image_by_id":   {set: says(`{"type":"input_image","file_id":"file_1"}`)},
	"Items.image_detail":  {from: says(`{"type":"input_image","image_url":"data:image/png;base64,AAAA"}`), set: last(`"detail":"high","image_url"`, `"image_url"`), keys: []string{"input[].detail"}},
	"Items.file":          {set: says(pdf)},
	"Items.filename":      {from: says(pdf), set: last(`"filename":"b.pdf"`, `"filename":"a.pdf"`), keys: []string{"input[].filename"}},
	"Items.cache_control": {from: says(`{"type":"input_text","text":"b"}`), set: last(`"cache_control":{"type":"ephemeral"},"text"`, `"text"`), keys: []string{"input[].cache_control", "cache_control"}},
	"Items.refusal":       {set: adds(`{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`)},
	"Items.annotation":    {from: adds(answer), set: last(`"annotations":[{"type":"url_citation","url":"https://h/"}]`, `"annotations":[]`), keys: []string{"input[].annotation"}},
	"Items.phase":         {from: adds(answer), set: last(`"phase":"commentary","role"`, `"role"`), keys: []string{"input[].phase"}},
	"Items.id":            {from: adds(answer), set: last(`"id":"msg_1","role"`, `"role"`), keys: []string{"input[].id"}},
	"Items.reasoning": {from: func(r *llm.Request) { r.Items = append(r.Items, openai.UserText("c")) }, set: func(r *llm.Request) {
		r.Items = slices.Insert(r.Items, len(r.Items)-1, read(`{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":"x"}`))
	}, keys: []string{"input[].encrypted", "input[].reasoning"}},
	"ContextManagement":   {set: func(r *llm.Request) { r.ContextManagement = json.RawMessage(`[{"type":"compaction"}]`) }, keys: []string{noClients}},
	"Tools":               {set: func(r *llm.Request) { r.Tools = nil }},
	"Tools.web_search":    {set: func(r *llm.Request) { r.Tools = append(r.Tools, openai.Tool{Type: "web_search"}) }},
	"Tools.description":   {set: func(r *llm.Request) { r.Tools[0].Description += " Well." }},
	"Tools.parameters":    {set: func(r *llm.Request) { r.Tools[0].Parameters = json.RawMessage(`{"type":"object","properties":{}}`) }},
	"Tools.strict":        {set: func(r *llm.Request) { yes := true; r.Tools[0].Strict = &yes }, keys: []string{"tools[].strict"}},
	"Tools.cache_control": {set: cached, keys: []string{"tools[].cache_control", "cache_control"}},
	"ToolChoice.required": {set: func(r *llm.Request) { r.ToolChoice = json.RawMessage(`"required"`) }},
	"ToolChoice.none":     {set: func(r *llm.Request) { r.ToolChoice = json.RawMessage(`"none"`) }},
	"ToolChoice.function": {set: func(r *llm.Request) { r.ToolChoice = json.RawMessage(`{"type":"function","name":"shell"}`) }},
	"ToolChoice.allowed": {from: two, set: func(r *llm.Request) {
		r.ToolChoice = json.RawMessage(`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"shell"}]}`)
	}},
	"ToolChoice.unknown":           {set: func(r *llm.Request) { r.ToolChoice = json.RawMessage(`{"type":"mcp"}`) }},
	"ParallelToolCalls":            {set: func(r *llm.Request) { no := false; r.ParallelToolCalls = &no }, keys: []string{"parallel_tool_calls"}},
	"MaxOutputTokens":              {set: func(r *llm.Request) { n := int64(5); r.MaxOutputTokens = &n }},
	"Temperature":                  {set: func(r *llm.Request) { half := 0.5; r.Temperature = &half }, keys: []string{"temperature"}},
	"TopP":                         {set: func(r *llm.Request) { half := 0.5; r.TopP = &half }, keys: []string{"top_p"}},
	"Text.json_schema":             {set: text(`{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}`)},
	"Text.json_schema_name":        {from: text(schema), set: text(strings.Replace(schema, `"n"`, `"m"`, 1)), keys: []string{"text.format.name"}},
	"Text.json_schema_description": {from: text(schema), set: text(strings.Replace(schema, `"n"`, `"n","description":"d"`, 1)), keys: []string{"text.format.description", "text.format.name"}},
	"Text.json_schema_strict":      {from: text(schema), set: text(strings.Replace(schema, `"n"`, `"n","strict":true`, 1)), keys: []string{"text.format.strict", "text.format.name"}},
	"Text.json_object":             {set: text(`{"format":{"type":"json_object"}}`)},
	"Text.verbosity":               {set: text(`{"verbosity":"low"}`), keys: []string{"text.verbosity"}},
	"Text.unknown":                 {set: text(`{"format":{"type":"grammar"}}`)},
	"Reasoning.effort":             {set: reasoning(`{"effort":"low"}`), keys: []string{"reasoning.effort", "reasoning"}},
	"Reasoning.none":               {set: reasoning(`{"effort":"none"}`), keys: []string{"reasoning.effort", "reasoning"}},
	"Reasoning.effort_beside_a_forced_tool": {from: func(r *llm.Request) { r.ToolChoice = json.RawMessage(`"required"`) }, set: reasoning(`{"effort":"high"}`),
		keys: []string{"reasoning.effort", "reasoning"}},
	"Reasoning.summary": {from: reasoning(`{"effort":"low"}`), set: reasoning(`{"effort":"low","summary":"auto"}`), keys: []string{"reasoning.summary", "reasoning"}},
	"Reasoning.unknown": {set: reasoning(`{"effort":"a lot"}`)},
	"User":              {set: func(r *llm.Request) { r.User = "u" }, keys: []string{"user"}},
	"PromptCacheKey":    {set: func(r *llm.Request) { r.PromptCacheKey = "k" }, keys: []string{"prompt_cache_key"}},
	"SafetyIdentifier":  {set: func(r *llm.Request) { r.SafetyIdentifier = "k" }, keys: []string{"safety_identifier"}},
	"SafetyIdentifier.and_user": {from: func(r *llm.Request) { r.User = "u" }, set: func(r *llm.Request) { r.User, r.SafetyIdentifier = "u", "k" },
		keys: []string{"safety_identifier"}},
	"ServiceTier":         {set: func(r *llm.Request) { r.ServiceTier = "flex" }, keys: []string{"service_tier"}},
	"ServiceTier.default": {set: func(r *llm.Request) { r.ServiceTier = "default" }, keys: []string{"service_tier"}},
	"ServiceTier.unknown": {set: func(r *llm.Request) { r.ServiceTier = "a new one" }, keys: []string{"service_tier"}},
	"Whole":               {set: func(r *llm.Request) { r.Whole = true }, keys: []string{noClients}},
	"Shell":               {set: func(r *llm.Request) { r.Shell = "shell" }, keys: []string{noClients}},
	"Hosted":              {set: func(r *llm.Request) { r.Hosted = &llm.Hosted{} }, keys: []string{noClients}},
	"Patch":               {set: func(r *llm.Request) { r.Patch = "apply_patch" }, keys: []string{noClients}},
}

const (
	pdf    = `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}`
	answer = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[]}]}`
	schema = `{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}`
)

// adds appends an item, and a user's words behind it.
func adds(item string) func(*llm.Request) {
	return func(r *llm.Request) { r.Items = append(r.Items, read(item), openai.UserText("c")) }
}

// says appends a user's message that holds a part.
func says(part string) func(*llm.Request) {
	return adds(`{"type":"message","role":"user","content":[` + part + `]}`)
}

// last changes what was appended.
func last(to, from string) func(*llm.Request) {
	return func(r *llm.Request) {
		i := len(r.Items) - 2
		raw, err := openai.Marshal(r.Items[i])
		if err != nil || !strings.Contains(string(raw), from) {
			panic(fmt.Sprintf("%s is not in %s: %v", from, raw, err))
		}
		r.Items[i] = read(strings.Replace(string(raw), from, to, 1))
	}
}

func read(raw string) openai.Item {
	var i openai.Item
	if err := json.Unmarshal([]byte(raw), &i); err != nil {
		panic(err)
	}
	return i
}

func text(raw string) func(*llm.Request) {
	return func(r *llm.Request) { r.Text = json.RawMessage(raw) }
}

func reasoning(raw string) func(*llm.Request) {
	return func(r *llm.Request) { r.Reasoning = json.RawMessage(raw) }
}

// two declares a second function.
func two(r *llm.Request) {
	r.Tools = append(r.Tools, openai.Tool{Type: "function", Name: "other", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)})
}

// cached marks the first tool.
func cached(r *llm.Request) {
	raw, err := openai.Marshal(r.Tools[0])
	if err == nil {
		err = json.Unmarshal([]byte(strings.Replace(string(raw), `{`, `{"cache_control":{"type":"ephemeral"},`, 1)), &r.Tools[0])
	}
	if err != nil {
		panic(err)
	}
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
	if _, err := body(base); err != nil {
		return nil, err
	}
	fates := map[string]Fate{}
	for name, s := range settings {
		r := base
		r.Items, r.Tools = slices.Clone(base.Items), slices.Clone(base.Tools)
		if s.from != nil {
			s.from(&r)
		}
		want, err := body(r)
		if err != nil {
			fates[name] = Refused // with what it belongs to
			continue
		}
		s.set(&r)
		switch got, err := body(r); {
		case err != nil:
			fates[name] = Refused
		case canonical(got) != canonical(want):
			fates[name] = Mapped
		default:
			fates[name] = LeftOut
		}
	}
	return fates, nil
}

// canonical writes the JSON that a text ends with in one way, as the order of its fields says nothing.
func canonical(text string) string {
	head, body, found := strings.Cut(text, "{")
	var v any
	if !found || json.Unmarshal([]byte("{"+body), &v) != nil {
		return text
	}
	raw, _ := openai.Marshal(v) // what was read can be written
	return head + string(raw)
}

// Case is a model of a provider's that differs from others in what it takes. Base and Body are those of [Fates].
type Case struct {
	Base llm.Request
	Body func(llm.Request) ([]byte, error)
}

// Fields holds that each field of a request changes what is sent, is refused by a 400 that names it, or stands in the
// provider's list of what is left out; and that nothing stands there which no setting tries, or which is never left out.
func Fields(t *testing.T, list map[string]string, cases ...Case) {
	t.Helper()
	used := map[string]bool{}
	for _, c := range cases {
		fates, err := Fates(c.Base, func(r llm.Request) (string, error) {
			body, err := c.Body(r)
			if e, ok := fault.As(err); err != nil && (!ok || e.Kind != fault.Invalid || e.Param == "") {
				t.Errorf("%s: refused by what is no 400, or names no field: %v", c.Base.Model, err)
			}
			return r.Model + string(body), err // the model may stand in the path
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, fate := range fates {
			if fate != LeftOut || slices.Contains(settings[name].keys, noClients) {
				continue
			}
			said := false
			for _, key := range settings[name].keys {
				if list[key] != "" {
					said, used[key] = true, true
				}
			}
			if !said {
				t.Errorf("%s: %s is dropped silently", c.Base.Model, name)
			}
		}
	}
	Told(t, list, cases...)
	for key := range list {
		if !used[key] {
			t.Errorf("%s is said to be left out, and never is", key)
		}
	}
	for field := range reflect.TypeFor[llm.Request]().Fields() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(settings)), func(name string) bool { first, _, _ := strings.Cut(name, "."); return first == field.Name }) {
			t.Errorf("the field %s is new: say in package providertest what it is set to", field.Name)
		}
	}
}
