package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// TestRefusals: what can't be served is refused by name before anything begins.
func TestRefusals(t *testing.T) {
	const shell = `"tools":[{"type":"shell"}]`
	env := func(e string) string {
		return `{"model":"m","input":"x","tools":[{"type":"shell","environment":` + e + `}]}`
	}
	input := func(items string) string { return `{"model":"m","input":[` + items + `]}` }
	user := func(part string) string {
		return `{"model":"m","input":[{"role":"user","content":[` + part + `]}],` + shell + `}`
	}
	for name, c := range map[string]struct {
		body  string
		kind  fault.Kind
		code  string
		param string
		try   bool
	}{
		"unknown model":           {`{"model":"x","input":"a"}`, fault.Invalid, "model_not_found", "model", false},
		"no input":                {`{"model":"m"}`, fault.Invalid, "missing_required_parameter", "input", false},
		"temperature":             {`{"model":"m","input":"a","temperature":2.5}`, fault.Invalid, "invalid_value", "temperature", false},
		"top_p":                   {`{"model":"m","input":"a","top_p":-1}`, fault.Invalid, "invalid_value", "top_p", false},
		"top_logprobs":            {`{"model":"m","input":"a","top_logprobs":3}`, fault.Invalid, "invalid_value", "top_logprobs", false},
		"max_output_tokens":       {`{"model":"m","input":"a","max_output_tokens":0}`, fault.Invalid, "invalid_value", "max_output_tokens", false},
		"models":                  {`{"model":"m","models":["a","b","c","d","e","f","g","h"],"input":"a"}`, fault.Invalid, "invalid_value", "models", false},
		"max_tool_calls":          {`{"model":"m","input":"a","max_tool_calls":0}`, fault.Invalid, "invalid_value", "max_tool_calls", false},
		"truncation":              {`{"model":"m","input":"a","truncation":"some"}`, fault.Invalid, "invalid_value", "truncation", false},
		"service_tier":            {`{"model":"m","input":"a","service_tier":"gold"}`, fault.Invalid, "invalid_value", "service_tier", false},
		"background, not stored":  {`{"model":"m","input":"a","background":true,"store":false}`, fault.Invalid, "invalid_value", "background", false},
		"stored prompt":           {`{"model":"m","input":"a","prompt":{"id":"pmpt_1"}}`, fault.Invalid, "unsupported_parameter", "prompt", true},
		"compaction in the input": {`{"model":"m","input":[{"role":"user","content":"a"},{"type":"compaction","encrypted_content":"x"}]}`, fault.Invalid, "invalid_compaction", "input[1].encrypted_content", true},
		"context management":      {`{"model":"m","input":"a","context_management":[{"type":"forget"}]}`, fault.Invalid, "invalid_value", "context_management[0].type", true},
		"context threshold":       {`{"model":"m","input":"a","context_management":[{"type":"compaction","compact_threshold":0}]}`, fault.Invalid, "invalid_value", "context_management[0].compact_threshold", false},
		"context strategy":        {`{"model":"m","input":"a","context_management":[{"type":"compaction","strategy":"hope"}]}`, fault.Invalid, "invalid_value", "context_management[0].strategy", false},
		"context, no list":        {`{"model":"m","input":"a","context_management":{"type":"compaction"}}`, fault.Invalid, "invalid_type", "context_management", false},
		"context, no object":      {`{"model":"m","input":"a","context_management":["compaction"]}`, fault.Invalid, "invalid_type", "context_management[0]", false},
		"stream options":          {`{"model":"m","input":"a","stream":true,"stream_options":"fast"}`, fault.Invalid, "invalid_type", "stream_options", false},
		"stream options, a list":  {`{"model":"m","input":"a","stream_options":[]}`, fault.Invalid, "invalid_type", "stream_options", false},
		"include":                 {`{"model":"m","input":"a","include":["x"]}`, fault.Invalid, "invalid_value", "include[0]", false},
		"metadata pairs":          {`{"model":"m","input":"a","metadata":{` + pairs(17) + `}}`, fault.Invalid, "invalid_value", "metadata", false},
		"metadata key":            {`{"model":"m","input":"a","metadata":{"` + strings.Repeat("k", 65) + `":"v"}}`, fault.Invalid, "invalid_value", "metadata", false},
		"metadata value":          {`{"model":"m","input":"a","metadata":{"k":"` + strings.Repeat("v", 513) + `"}}`, fault.Invalid, "invalid_value", "metadata", false},
		"reasoning effort":        {`{"model":"m","input":"a","reasoning":{"effort":"huge"}}`, fault.Invalid, "invalid_value", "reasoning.effort", false},
		"reasoning context":       {`{"model":"m","input":"a","reasoning":{"context":"some"}}`, fault.Invalid, "invalid_value", "reasoning.context", false},
		"reasoning mode":          {`{"model":"m","input":"a","reasoning":{"mode":"fast"}}`, fault.Invalid, "invalid_value", "reasoning.mode", false},
		"summary, older":          {`{"model":"m","input":"a","reasoning":{"generate_summary":"all"}}`, fault.Invalid, "invalid_value", "reasoning.generate_summary", false},
		"cache retention":         {`{"model":"m","input":"a","prompt_cache_retention":"7d"}`, fault.Invalid, "invalid_value", "prompt_cache_retention", false},
		"text format":             {`{"model":"m","input":"a","text":{"format":{"type":"xml"}}}`, fault.Invalid, "invalid_value", "text.format.type", false},
		"text schema":             {`{"model":"m","input":"a","text":{"format":{"type":"json_schema","name":"x"}}}`, fault.Invalid, "invalid_value", "text.format", false},
		"verbosity":               {`{"model":"m","input":"a","text":{"verbosity":"mute"}}`, fault.Invalid, "invalid_value", "text.verbosity", false},
		"both chains":             {`{"model":"m","input":"a","conversation":"c","previous_response_id":"r"}`, fault.Invalid, "invalid_value", "previous_response_id", false},
		"unknown previous":        {`{"model":"m","input":"a","previous_response_id":"resp_x"}`, fault.NotFound, "previous_response_not_found", "previous_response_id", false},
		"tool type":               {`{"model":"m","input":"a","tools":[{"type":"function","name":"f"},{"type":"web_search"}]}`, fault.Invalid, "unsupported_tool", "tools[1].type", true},
		"tool without type":       {`{"model":"m","input":"a","tools":[{}]}`, fault.Invalid, "missing_required_parameter", "tools[0].type", false},
		"two shells":              {`{"model":"m","input":"a","tools":[{"type":"shell"},{"type":"shell"}]}`, fault.Invalid, "invalid_value", "tools[1]", false},
		"function name":           {`{"model":"m","input":"a","tools":[{"type":"function","name":"a b"}]}`, fault.Invalid, "invalid_value", "tools[0].name", false},
		"function twice":          {`{"model":"m","input":"a","tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}]}`, fault.Invalid, "invalid_value", "tools[1].name", false},
		"function parameters":     {`{"model":"m","input":"a","tools":[{"type":"function","name":"f","parameters":[]}]}`, fault.Invalid, "invalid_value", "tools[0].parameters", false},
		"choice word":             {`{"model":"m","input":"a","tool_choice":"maybe"}`, fault.Invalid, "invalid_value", "tool_choice", false},
		"required, no tool":       {`{"model":"m","input":"a","tool_choice":"required"}`, fault.Invalid, "invalid_value", "tool_choice", false},
		"choice of no function":   {`{"model":"m","input":"a","tool_choice":{"type":"function","name":"f"}}`, fault.Invalid, "invalid_value", "tool_choice.name", false},
		"choice of no shell":      {`{"model":"m","input":"a","tool_choice":{"type":"shell"}}`, fault.Invalid, "invalid_value", "tool_choice", false},
		"choice type":             {`{"model":"m","input":"a","tool_choice":{"type":"mcp"}}`, fault.Invalid, "invalid_value", "tool_choice.type", false},
		"allowed tools":           {`{"model":"m","input":"a","tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"shell"}]}}`, fault.Invalid, "invalid_value", "tool_choice.tools[0]", false},
		"environment type":        {env(`{"type":"moon"}`), fault.Invalid, "invalid_value", "tools[0].environment.type", false},
		"environment skills":      {env(`{"type":"container_auto","skills":[{"type":"skill_reference","skill_id":"none"}]}`), fault.Invalid, "invalid_skill_reference", "tools[0].environment.skills[0].skill_id", false},
		"skills without an id":    {env(`{"type":"container_auto","skills":[{"type":"skill_reference"}]}`), fault.Invalid, "invalid_skill_reference", "tools[0].environment.skills[0].skill_id", false},
		"skills of a reference":   {env(`{"type":"container_reference","container_id":"cntr_1","skills":[{"type":"skill_reference","skill_id":"s"}]}`), fault.Invalid, "shell_environment_rejected", "tools[0].environment.skills", true},
		"files of a reference":    {env(`{"type":"container_reference","container_id":"cntr_1","file_ids":["file_1"]}`), fault.Invalid, "shell_environment_rejected", "tools[0].environment.file_ids", true},
		"memory limit":            {env(`{"type":"container_auto","memory_limit":"lots"}`), fault.Invalid, "shell_environment_rejected", "tools[0].environment.memory_limit", true},
		"expiry":                  {env(`{"type":"container_auto","expires_after":{"anchor":"now","minutes":5}}`), fault.Invalid, "shell_environment_rejected", "tools[0].environment.expires_after.anchor", false},
		"network":                 {env(`{"type":"container_auto","network_policy":{"type":"open","allowed_domains":["a.example"]}}`), fault.Invalid, "shell_environment_rejected", "tools[0].environment.network_policy.type", false},
		"network of a reference":  {env(`{"type":"container_reference","container_id":"cntr_1","network_policy":{"type":"allowlist","allowed_domains":["a.example"]}}`), fault.Invalid, "shell_environment_rejected", "tools[0].environment.network_policy", true},
		"memory of a reference":   {env(`{"type":"container_reference","container_id":"cntr_1","memory_limit":"2g"}`), fault.Invalid, "shell_environment_rejected", "tools[0].environment.memory_limit", true},
		"reference without id":    {env(`{"type":"container_reference"}`), fault.Invalid, "missing_required_parameter", "tools[0].environment.container_id", false},
		"reference to none":       {env(`{"type":"container_reference","container_id":"cntr_none"}`), fault.NotFound, "container_not_found", "tools[0].environment.container_id", false},
		"reference expired":       {env(`{"type":"container_reference","container_id":"cntr_old"}`), fault.Expired, "container_expired", "tools[0].environment.container_id", false},
		"item type":               {input(`{"type":"computer_call","id":"x"}`), fault.Invalid, "unsupported_item", "input[0].type", false},
		"item without type":       {input(`{"text":"x"}`), fault.Invalid, "missing_required_parameter", "input[0].type", false},
		"item reference":          {input(`{"id":"msg_1"}`), fault.NotFound, "item_not_found", "input[0]", true},
		"role":                    {input(`{"role":"robot","content":"x"}`), fault.Invalid, "invalid_value", "input[0].role", false},
		"no content":              {input(`{"role":"user"}`), fault.Invalid, "missing_required_parameter", "input[0].content", false},
		"part type":               {input(`{"role":"user","content":[{"type":"input_audio"}]}`), fault.Invalid, "invalid_value", "input[0].content[0].type", false},
		"image by id":             {input(`{"role":"user","content":[{"type":"input_image","file_id":"f"}]}`), fault.Invalid, "invalid_value", "input[0].content[0]", true},
		"output without call":     {input(`{"type":"function_call_output","call_id":"c","output":"x"}`), fault.Invalid, "invalid_value", "input[0].call_id", false},
		"shell output, no call":   {input(`{"type":"shell_call_output","call_id":"c","output":[]}`), fault.Invalid, "invalid_value", "input[0].call_id", false},
		"outcome":                 {input(`{"type":"shell_call_output","call_id":"c","output":[{"stdout":"","stderr":"","outcome":{"type":"died"}}]}`), fault.Invalid, "invalid_value", "input[0].output[0].outcome", false},
		"output of parts":         {input(`{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"data:"}]}`), fault.Invalid, "invalid_value", "input[0].output[0].type", true},
		"call without output":     {input(`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`), fault.Invalid, "invalid_value", "input", false},
		"file by id":              {user(`{"type":"input_file","file_id":"file_1"}`), fault.Invalid, "invalid_input_file_id", "input[0].content[0].file_id", true},
		"file by url":             {user(`{"type":"input_file","file_url":"https://example.com/a"}`), fault.Invalid, "invalid_input_file_url", "input[0].content[0].file_url", true},
		"file without data":       {user(`{"type":"input_file","filename":"a"}`), fault.Invalid, "invalid_input_file", "input[0].content[0]", false},
		"file not base64":         {user(`{"type":"input_file","file_data":"!!"}`), fault.Invalid, "invalid_input_file_data", "input[0].content[0].file_data", false},
		"too many files":          {user(strings.TrimSuffix(strings.Repeat(`{"type":"input_file","file_data":"YQ=="},`, 33), ",")), fault.Invalid, "too_many_input_files", "input[0].content[32]", false},
		"binary without shell":    {input(`{"role":"user","content":[{"type":"input_file","file_data":"data:image/png;base64,iVBORw0KGgo="}]}`), fault.Invalid, "invalid_input_file", "input[0].content[0]", true},
		"long text without shell": {input(`{"role":"user","content":[{"type":"input_file","filename":"a.txt","file_data":"data:text/plain,` + strings.Repeat("a", maxInlineBytes+1) + `"}]}`), fault.TooLarge, "input_file_too_large", "input[0].content[0]", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.gone["cntr_none"] = fault.New(fault.NotFound, "no container").WithCode("container_not_found")
			w.gone["cntr_old"] = fault.New(fault.Expired, "expired").WithCode("container_expired")
			_, err := w.create(request(t, c.body))
			e, ok := fault.As(err)
			if !ok {
				t.Fatalf("err = %v, want a fault", err)
			}
			if e.Kind != c.kind || e.Code != c.code || e.Param != c.param || (e.Try != "") != c.try || e.Message == "" {
				t.Errorf("got kind %v code %q param %q try %q message %q", e.Kind, e.Code, e.Param, e.Try, e.Message)
			}
			if len(w.begun)+len(w.made) != 0 {
				t.Error("something was begun")
			}
		})
	}
}

// TestFieldsThatAskForNothing: what the vendor's SDKs may send without meaning anything by it is taken.
func TestFieldsThatAskForNothing(t *testing.T) {
	for _, fields := range []string{
		`"prompt":null,"context_management":null,"stream_options":null`,
		`"context_management":[],"stream_options":{"include_obfuscation":false}`,
		`"conversation":null,"previous_response_id":null,"truncation":"auto","prompt_cache_retention":"24h"`,
		`"reasoning":{"context":"all_turns","mode":"pro","x_unknown":1},"moderation":{},"x_unknown":[{"deep":{}}]`,
		`"metadata":{"prompt":"x"}`,
	} {
		w := newWorld(t)
		if _, err := w.create(request(t, `{"model":"m","input":"a",`+fields+`}`)); err != nil {
			t.Errorf("%s: %v", fields, err)
		}
	}
}

func pairs(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = `"k` + strings.Repeat("x", i) + `":"v"`
	}
	return strings.Join(out, ",")
}

func TestUnsupportedToolNamesToolAndProvider(t *testing.T) {
	_, err := newWorld(t).create(request(t, `{"model":"m","input":"a","tools":[{"type":"mcp"}]}`))
	if err == nil || !strings.Contains(err.Error(), `"mcp"`) || !strings.Contains(err.Error(), `"fake"`) {
		t.Errorf("err = %v", err)
	}
}

// TestTemplate holds every field of the Response object, with defaults and with all that a request may set.
func TestTemplate(t *testing.T) {
	for name, body := range map[string]string{
		"template_default": `{"model":"m","input":"a"}`,
		"template_full": `{"model":"m","input":"a","instructions":"be brief","max_output_tokens":99,"max_tool_calls":3,
			"metadata":{"a":"b"},"parallel_tool_calls":false,"prompt_cache_key":"k","reasoning":{"effort":"low"},
			"safety_identifier":"s","service_tier":"auto","store":false,"temperature":0.5,"text":{"verbosity":"low"},"top_p":0.9,
			"tool_choice":{"type":"shell"},"truncation":"auto","user":"u","tools":[
			{"type":"function","name":"f","x_unknown":1},
			{"type":"function","name":"g","description":"d","parameters":{"type":"object"},"strict":true},
			{"type":"shell","environment":{"type":"container_auto","network_policy":{"type":"disabled","domain_secrets":[{"domain":"a","name":"N","value":"sealed"}]}}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, body)
			raw, err := json.MarshalIndent(template(r, echoText(r.Text)), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), "sealed") {
				t.Error("a secret is echoed")
			}
			golden(t, name, string(raw)+"\n")
		})
	}
}

func TestBeginCarriesTheTurn(t *testing.T) {
	w := newWorld(t, says("ok"))
	w.chains["resp_1"] = response.Chain{Items: []openai.Item{openai.UserText("before")}}
	w.run(`{"model":"m","input":"now","previous_response_id":"resp_1","store":false}`)
	b := w.begun[0]
	if b.Org != "org_a" || b.KeyID != "key_a" || b.PreviousID != "resp_1" || b.Store || b.Background {
		t.Errorf("begin = %+v", b)
	}
	if len(b.Input) != 1 || b.Input[0].ID == "" || !strings.Contains(string(b.Input[0].Raw), `"input_text"`) {
		t.Errorf("input = %s", b.Input[0].Raw)
	}
	if got := texts(w.asked[0].Items); got != "before|now" {
		t.Errorf("the model was shown %q", got)
	}
}

func texts(items []openai.Item) string {
	var out []string
	for _, i := range items {
		var m openai.Message
		if i.Type == openai.TypeMessage && i.Decode(&m) == nil {
			out = append(out, m.Content.Text())
		}
	}
	return strings.Join(out, "|")
}
