package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// plan is a checked request: all that the loop needs to run it.
type plan struct {
	principal tenant.Principal
	request   *openai.CreateRequest
	route     llm.Route
	template  openai.Response
	history   []openai.Item // the chain or the conversation before this turn
	input     []openai.Item // this turn's, as stored
	choice    choice
	functions []openai.Tool   // the client's, and tools that the upstream runs
	names     map[string]bool // of the client's functions
	shell     *openai.Tool    // our shell as a function; nil when the request has none
	patch     *openai.Tool    // apply_patch as a function; nil when the request has none
	maxOutput int             // the most characters of a stream that a command shows
	place     place
	lent      *lent // the shell whose calls the upstream runs; nil where it runs none
	files     []inputFile
	parallel  bool
	first     *llm.Request // the first model call's, which was made to be checked; nil once it is taken
	sealer    Sealer       // nil: secrets are not kept

	conversation string // that the response continues, at this revision
	revision     int64

	compaction compaction
}

// plan checks a request in full. It changes nothing, but for what reserve says.
func (a *Agent) plan(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (*plan, error) {
	out, err := a.draft(ctx, p, req)
	if err != nil {
		return nil, err
	}
	if out.lent != nil {
		err = a.lendOut(ctx, out)
	} else {
		out.place, err = a.reserve(ctx, p.Org, out.place)
	}
	if err != nil {
		return nil, err
	}
	out.template = template(req, echoText(req.Text))
	out.template.ContainerID = out.place.id
	rest := *req // without what may be large and has been read: the plan lives as long as the response
	rest.Input, rest.Raw = nil, nil
	out.request = &rest
	if out.template.Model == "" {
		out.template.Model = out.route.ProviderName + "/" + out.route.Model
	}
	return out, nil
}

// draft is as much of a plan as changes nothing.
func (a *Agent) draft(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (*plan, error) {
	if err := checkFields(req); err != nil {
		return nil, err
	}
	route, err := a.models.Resolve(ctx, p.Org, req.Model, req.Models...)
	if err != nil {
		return nil, asValue(err)
	}
	if err := checkTools(req.Tools); err != nil {
		return nil, err
	}
	out := &plan{principal: p, request: req, route: route, names: map[string]bool{}, parallel: !isFalse(req.ParallelToolCalls), sealer: a.options.Sealer}
	if out.compaction, err = a.readCompaction(req, route); err != nil {
		return nil, err
	}
	if out.choice, err = readChoice(req.ToolChoice, req.Tools); err != nil {
		return nil, err
	}
	chained, err := a.continued(ctx, out, false)
	if err != nil {
		return nil, err
	}
	input, err := finder(a.responses.Items).dereferenced(ctx, p.Org, req.Input, out.history, "input")
	if err != nil {
		return nil, err
	}
	if out.input, err = readInput(input, out.history); err != nil {
		return nil, err
	}
	if out.conversation != "" {
		if err := distinct(out.input, out.history, "input"); err != nil {
			return nil, err
		}
	}
	if err := out.takeCompactions(a.options.Compaction.Enabled); err != nil {
		return nil, err
	}
	if len(out.input)+len(out.history) == 0 && req.Instructions == nil {
		return nil, invalid("input", "A request needs input.").WithCode("missing_required_parameter")
	}
	if err := a.readTools(ctx, out, chained); err != nil {
		return nil, err
	}
	if out.input, out.files, err = a.takeFiles(ctx, out); err != nil {
		return nil, err
	}
	first, err := out.ask(true, false, nil)
	if err != nil {
		return nil, err
	}
	if err := llm.Check(out.route.Provider, first); err != nil {
		return nil, refusedTool(err, req.Tools, out.route.ProviderName)
	}
	req.Warn(out.route.Warnings(first)...)
	out.first = &first
	return out, nil
}

// asValue tells a model that is not there as what it is in a request: a bad value of a field, 400. As a path of its own
// it is a 404.
func asValue(err error) error {
	if e, ok := fault.As(err); ok && e.Kind == fault.NotFound {
		bad := *e
		bad.Kind = fault.Invalid
		return &bad
	}
	return err
}

// readTools parts the client's functions from our shell and decides where that one runs.
func (a *Agent) readTools(ctx context.Context, p *plan, chained string) (err error) {
	if err := countPatches(p.request.Tools); err != nil {
		return err
	}
	at := slices.IndexFunc(p.request.Tools, func(t openai.Tool) bool { return t.Type == "shell" })
	if at >= 0 {
		param := fmt.Sprintf("tools[%d].environment", at)
		env := p.request.Tools[at].Environment
		if p.request.Bash == nil && a.lends(env) {
			err = a.lend(ctx, p, env, param, chained)
		} else {
			p.place, err = a.readEnvironment(ctx, p.principal.Org, env, param, chained)
		}
		if err != nil {
			return err
		}
		if err := a.bashPlace(ctx, p); err != nil {
			return err
		}
	}
	a.readFunctions(ctx, p)
	return nil
}

// readFunctions writes the request's tools as the model gets them. The place must be known.
func (a *Agent) readFunctions(ctx context.Context, p *plan) {
	shell, patch := false, false
	for _, t := range p.request.Tools {
		switch t.Type {
		case "shell":
			shell = true
			continue
		case openai.ToolApplyPatch:
			patch = true
			continue
		}
		if t.Type == "function" {
			p.names[t.Name] = true
		}
		p.functions = append(p.functions, t)
	}
	if patch {
		p.patch = patchFunction(p.names)
	}
	if !shell {
		return
	}
	facts := a.containers.Facts(ctx)
	p.maxOutput = facts.MaxOutput
	if p.place.local || p.lent != nil {
		tool := localFunction(shellName(p.names), p.place, p.maxOutput)
		p.shell = &tool
		return
	}
	s := surround(facts, p.place, a.options.EnvironmentDescription)
	s.inOrder = a.options.InOrder
	tool := shellFunction(shellName(p.names), s)
	if p.request.Bash != nil {
		tool = bashFunction(p.names, s)
	}
	p.shell = &tool
}

// surround reads what the model is to know of where its commands run.
func surround(f container.Facts, p place, operator string) surroundings {
	s := surroundings{workdir: f.Workdir, network: f.Network, isolation: f.Isolation.Got,
		defaultTimeout: f.DefaultTimeout, maxTimeout: f.MaxTimeout, maxOutput: f.MaxOutput, memory: f.Memory, operator: operator}
	if s.isolation == "" {
		s.isolation = f.Isolation.Asked
	}
	if p.memory != "" {
		s.memory = p.memory
	}
	for _, k := range p.skills {
		s.skills = append(s.skills, k.String())
	}
	if p.network != nil && len(p.network.AllowedDomains) > 0 {
		s.network = p.network.Told()
	}
	if len(f.Isolation.Missing) > 0 {
		s.isolation += " (not to be had here: " + strings.Join(f.Isolation.Missing, ", ") + ")"
	}
	if f.Available != nil {
		s.unavailable = public(f.Available)
	}
	return s
}

// begin is the plan as the room of responses takes it.
func (p *plan) begin() response.Begin {
	b := response.Begin{Org: p.principal.Org, KeyID: p.principal.KeyID, Object: p.template, Input: p.input,
		Store: p.template.Store, Background: p.template.Background, Late: true,
		ConversationID: p.conversation, Revision: p.revision, Unread: !p.request.Streams(), Key: p.request.Key, Digest: p.request.Digest}
	if b.Store {
		noted := *p.snapshot() // the row may be written while the loop has taken the files and the first request from its plan
		noted.first, b.Work = nil, noted.work
	}
	p.link(&b)
	return b
}

// shellName is the name of our function, also for a history with shell calls in a turn without a shell.
func (p *plan) shellName() string {
	if p.shell != nil {
		return p.shell.Name
	}
	return shellName(p.names)
}

// ask makes one model call's request. added is what this response has added to the conversation so far.
func (p *plan) ask(first, last bool, added []openai.Item) (llm.Request, error) {
	r := p.request
	items := make([]openai.Item, 0, len(p.history)+len(p.input)+len(added))
	items = append(append(append(items, p.history...), p.input...), added...)
	window, err := p.window(items)
	if err == nil {
		items, err = p.bashed(window.Conversation())
	}
	if err == nil {
		items, err = clientsAnswers(items, p.patchName(), p.maxOutput)
	}
	if err == nil {
		items, err = forModel(items, p.shellName(), p.maxOutput)
	}
	if err != nil {
		return llm.Request{}, err
	}
	out := llm.Request{Model: p.route.Model, Items: items, MaxOutputTokens: r.MaxOutputTokens, Temperature: r.Temperature,
		TopP: r.TopP, Text: r.Text, Reasoning: r.Reasoning, ContextManagement: p.compaction.native, Whole: !r.Streams() && !r.InBackground()}
	for _, f := range []struct {
		to   *string
		from *string
	}{{&out.User, r.User}, {&out.PromptCacheKey, r.PromptCacheKey}, {&out.SafetyIdentifier, r.SafetyIdentifier}, {&out.ServiceTier, r.ServiceTier}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	var notes []string
	if p.place.replaced {
		notes = append(notes, noteFresh)
	}
	if last && len(r.Tools) > 0 {
		notes = append(notes, noteLast)
	}
	own := ""
	if r.Instructions != nil {
		own = *r.Instructions
	}
	out.Instructions = instructed(own, notes...)
	if last {
		return out, nil
	}
	for _, t := range p.functions {
		if p.choice.permits(t.Name) {
			out.Tools = append(out.Tools, t)
		}
	}
	none := false
	if p.lent != nil {
		out.Hosted, none = p.hosted(added)
	}
	if p.shell != nil && p.choice.permits(shellChoice) && !none {
		out.Tools = append(out.Tools, *p.shell)
		if r.Bash == nil {
			out.Shell = p.shell.Name
		}
	}
	if p.patch != nil && p.choice.permits(patchChoice) {
		out.Tools = append(out.Tools, *p.patch)
		out.Patch = p.patch.Name
	}
	if len(out.Tools) > 0 {
		out.ToolChoice = p.choice.forRound(first, p.shellName(), p.patchName())
		out.ParallelToolCalls = r.ParallelToolCalls
	}
	return out, nil
}
