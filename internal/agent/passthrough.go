package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/container/passthrough"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Where the operator leaves hosted shells to the vendor, the upstream runs the calls in a container of its own while it
// answers. Nothing is run here then: the items are forwarded, and what is kept is whose the container is.

// Vendors is what the loop uses of the room of vendors' containers.
type Vendors interface {
	// Make makes a container at a provider, Usable finds one in which commands can run.
	Make(ctx context.Context, org, provider string, spec container.CreateSpec) (passthrough.Container, error)
	Usable(ctx context.Context, org, id string) (passthrough.Container, error)
	// Met and MetFile are our ids of what a provider has named.
	Met(ctx context.Context, org, provider, theirs string) (string, error)
	MetFile(ctx context.Context, org, provider, theirs, file string) (string, error)
	Put(ctx context.Context, org, id, name string, r io.Reader) (container.File, error)
	PutUpload(ctx context.Context, org, id, fileID, name string) (container.File, error)
}

// lent is the shell of a response whose calls the upstream runs.
type lent struct {
	room     Vendors
	org      string
	provider string
	id       string // our id of the container; empty until there is one
	theirs   string // the vendor's
	used     bool   // it was there before this request
	met      func(id string)
}

// Container is our id of a container that the vendor has used. What comes later in the response goes there.
func (v *lent) Container(ctx context.Context, theirs string) (string, error) {
	own, err := v.room.Met(ctx, v.org, v.provider, theirs)
	if err == nil && own != v.id {
		v.id, v.theirs = own, theirs
		if v.met != nil {
			v.met(own)
		}
	}
	return own, err
}

// File is our id of a file in it.
func (v *lent) File(ctx context.Context, container, theirs string) (string, error) {
	return v.room.MetFile(ctx, v.org, v.provider, container, theirs)
}

// lends says whether calls with an environment are the vendor's to run.
func (a *Agent) lends(env *openai.Environment) bool {
	if a.options.Vendors == nil {
		return false
	}
	if env == nil {
		return a.options.DefaultEnvironment != envLocal
	}
	return env.Type != envLocal
}

// lend decides where the vendor is to run the calls of a shell: which of the request's routes it goes, and in which
// container. Nothing is made here.
func (a *Agent) lend(ctx context.Context, p *plan, env *openai.Environment, param, chained string) error {
	hosts := p.route.Hosts()
	if len(hosts) == 0 {
		return fault.New(fault.Invalid, "The shell of this server is run by OpenAI's containers, which provider %q does not have.", p.route.ProviderName).
			WithCode("shell_passthrough_unsupported_provider").WithParam("model").
			WithTry(`a model of a provider of type "openai", or the environment {"type":"local"}`)
	}
	if env == nil {
		env = &openai.Environment{Type: envAuto}
	}
	p.route = hosts[0]
	p.lent = &lent{room: a.options.Vendors, org: p.principal.Org, provider: p.route.ProviderName}
	p.place = place{param: param}
	switch env.Type {
	case envAuto:
		return a.lendAuto(ctx, p, hosts, env, param, chained)
	case envReference:
		return a.lendReference(ctx, p, hosts, env, param)
	case "":
		return invalid(param+".type", "An environment needs a type.").WithCode("missing_required_parameter")
	}
	return invalid(param+".type", "environment.type has an unknown value %q.", env.Type)
}

func (a *Agent) lendAuto(ctx context.Context, p *plan, hosts []llm.Route, env *openai.Environment, param, chained string) error {
	spec, err := container.ReadRequest(openai.ContainerRequest{FileIDs: env.FileIDs, ExpiresAfter: env.ExpiresAfter,
		MemoryLimit: env.MemoryLimit, NetworkPolicy: env.NetworkPolicy, Skills: env.Skills})
	if err != nil {
		return underSkills(param, err)
	}
	p.place.spec = spec
	if chained == "" {
		return nil
	}
	c, err := p.lent.room.Usable(ctx, p.principal.Org, chained)
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Expired:
		p.place.replaced = true
		return nil
	}
	if err != nil {
		return err
	}
	if !p.enter(c, hosts) { // another model, of another vendor: it cannot go there
		p.place.replaced = true
		return nil
	}
	if asked := passthrough.Asked(spec); asked != "" && asked != c.Asked {
		return rejected(param, "The container of this conversation is the vendor's, and its settings can't be changed.").
			WithTry(`{"type":"container_auto"} with nothing else, or a new conversation`)
	}
	return nil
}

func (a *Agent) lendReference(ctx context.Context, p *plan, hosts []llm.Route, env *openai.Environment, param string) error {
	for _, f := range []struct {
		key   string
		given bool
	}{{"memory_limit", env.MemoryLimit != nil}, {"network_policy", env.NetworkPolicy != nil}, {"file_ids", len(env.FileIDs) > 0},
		{"expires_after", env.ExpiresAfter != nil}, {"skills", present(env.Skills) && strings.TrimSpace(string(env.Skills)) != "[]"}} {
		if f.given {
			return rejected(param+"."+f.key, "A container of the vendor's that is there has the settings that it was made with.")
		}
	}
	if env.ContainerID == "" {
		return invalid(param+".container_id", "A container_reference needs a container_id.").WithCode("missing_required_parameter")
	}
	c, err := p.lent.room.Usable(ctx, p.principal.Org, env.ContainerID)
	if err != nil {
		if e, ok := fault.As(err); ok && e.Param == "" {
			return e.WithParam(param + ".container_id")
		}
		return err
	}
	if !p.enter(c, hosts) {
		return rejected(param+".container_id", "The container is of the provider %q, and the request goes to %q.", c.Provider, p.route.ProviderName).
			WithTry("a model of the provider %q", c.Provider)
	}
	return nil
}

// enter has the calls run in a container that is there, by its own provider; false where the request does not go there.
func (p *plan) enter(c passthrough.Container, hosts []llm.Route) bool {
	at := slices.IndexFunc(hosts, func(r llm.Route) bool { return r.ProviderName == c.Provider })
	if at < 0 {
		return false
	}
	p.route = hosts[at]
	p.lent.provider, p.lent.id, p.lent.theirs, p.lent.used = c.Provider, c.ID, c.Theirs, true
	p.place.id = c.ID
	return true
}

// lendOut makes the vendor's container now if something is asked of it, and puts the request's files there. A container
// that nothing is asked of is made by the vendor, when the model first calls.
func (a *Agent) lendOut(ctx context.Context, p *plan) error {
	v := p.lent
	if v.id == "" && (passthrough.Asked(p.place.spec) != "" || len(p.files) > 0) {
		c, err := v.room.Make(ctx, v.org, v.provider, p.place.spec)
		if err != nil {
			return underSkills(p.place.param, err)
		}
		v.id, v.theirs, p.place.id = c.ID, c.Theirs, c.ID
	}
	for _, f := range p.files {
		if v.used && f.replayed { // it is there, as the model has left it
			continue
		}
		var err error
		if f.id != "" {
			_, err = v.room.PutUpload(ctx, v.org, v.id, f.id, f.name)
		} else {
			_, err = v.room.Put(ctx, v.org, v.id, f.name, bytes.NewReader(f.data))
		}
		if err != nil {
			return fmt.Errorf("put %s into the container: %w", f.name, err)
		}
	}
	p.files = nil
	p.first = nil // it names no container yet
	return nil
}

// snapshot is a plan that does not change while the loop runs.
func (p *plan) snapshot() *plan {
	out := *p
	if p.lent != nil {
		out.lent = &lent{provider: p.lent.provider, id: p.lent.id}
	}
	return &out
}

// hosted is what a model call says of the vendor's shell. added is what the response has added so far, and none is true
// where the request allows no more calls.
func (p *plan) hosted(added []openai.Item) (h *llm.Hosted, none bool) {
	h = &llm.Hosted{Container: p.lent.theirs, Own: p.lent.id, Names: p.lent}
	if limit := p.request.MaxToolCalls; limit != nil {
		left := *limit
		for _, i := range added {
			if i.Type == openai.TypeShellCall || i.Type == openai.TypeApplyPatchCall {
				left--
			}
		}
		h.Limit, none = &left, left < 1
	}
	return h, none
}

// announceLent notes, before anything is told of the response and so before the upstream is asked, that it may run commands
// from now on. Every mark of such a response says so until one says how it ends.
func (l *loop) announceLent(ctx context.Context) error {
	if l.plan.lent == nil || isFalse(l.plan.request.Store) {
		return l.run.Announce()
	}
	if l.resumed == nil || !l.resumed.last.Lent {
		l.mark(nil)
	}
	if err := l.run.Announce(); err != nil {
		return err
	}
	return l.run.Sync(ctx)
}

// errLent is why a response is not gone on with whose commands an upstream was running.
var errLent = fault.New(fault.Unavailable, "The server stopped while the provider ran commands for this response; which of them were run is not known.").
	WithCode("server_error")

// recall ends what the upstream had begun in a response whose server died: asked again, it might run its calls again.
func (l *loop) recall(s *seen) {
	for _, c := range s.shells {
		if !c.done {
			l.cutCall(c)
		}
		if c.output != nil && !s.done[c.at] {
			l.cutOutput(c.at, *c.output, len(c.commands), s.calls.of(c.at), errLent)
		}
	}
}

// cutCall closes a shell_call that the upstream has not closed, with what there is of it.
func (l *loop) cutCall(c *shellItem) {
	var call openai.ShellCall
	if c.item.Decode(&call) != nil {
		return
	}
	var events []openai.Event
	for n := c.whole; n < len(c.commands); n++ {
		events = append(events, openai.NewCommand(openai.EventCommandDone, c.index, n, c.commands[n]))
	}
	call.Action.Commands, call.Status = append([]string{}, c.commands...), openai.Incomplete
	c.item = openai.NewItem(call)
	l.wire.emit(append(events, openai.NewItemEvent(openai.EventItemDone, c.index, c.item))...)
}

// cutOutput closes the output of a call that the upstream has not closed: of each of its commands what was heard.
func (l *loop) cutOutput(index int, item openai.Item, commands int, was *told, why error) openai.Item {
	var out openai.ShellCallOutput
	if item.Decode(&out) != nil {
		return item
	}
	var events []openai.Event
	out.Output, out.Status = []openai.ShellOutput{}, openai.Incomplete
	for n := range commands {
		e, ok := was.entries[n]
		if !ok {
			heard := was.heard(n)
			e = openai.ShellOutput{Stdout: string(heard.stdout), Stderr: joinLines(string(heard.stderr), "shell: "+public(why)), Outcome: openai.Exit(exitKilled)}
			events = append(events, &openai.OutputDoneEvent{Head: openai.Head{Type: openai.EventOutputDone}, ItemID: out.ID, OutputIndex: index,
				CommandIndex: n, Output: []openai.ShellOutput{e}})
		}
		out.Output = append(out.Output, e)
	}
	item = openai.NewItem(out)
	l.wire.emit(append(events, openai.NewItemEvent(openai.EventItemDone, index, item))...)
	return item
}

// lentState is how far the upstream is with an item.
type lentState struct {
	call shellItem // of a shell_call
	out  told      // of an output
}

// forward passes on what the upstream says of an item while it runs it.
func (t *turn) forward(n *entry, ev openai.Event) {
	if n.lent == nil {
		n.lent = &lentState{out: told{entries: map[int]openai.ShellOutput{}, tails: map[int]*tail{}}}
	}
	switch e := ev.(type) {
	case *openai.CommandEvent:
		e.OutputIndex = n.index
		switch c := &n.lent.call; {
		case e.Type == openai.EventCommandAdded:
			c.commands = append(c.commands, e.Text)
		case e.CommandIndex < 0 || e.CommandIndex >= len(c.commands):
			return // strict clients break at a command that was not begun
		case e.Type == openai.EventCommandDelta:
			c.commands[e.CommandIndex] += e.Text
		default:
			c.whole++
		}
	case *openai.OutputDeltaEvent:
		e.OutputIndex = n.index
		if n.lent.out.tails[e.CommandIndex] == nil {
			n.lent.out.tails[e.CommandIndex] = &tail{}
		}
		n.lent.out.tails[e.CommandIndex].add(container.Delta(e.Delta), lastView)
	case *openai.OutputDoneEvent:
		e.OutputIndex = n.index
		if len(e.Output) > 0 {
			n.lent.out.entries[e.CommandIndex] = e.Output[0]
		}
	}
	t.loop.wire.emit(ev)
}

// errCut is why an item of the upstream's is not whole.
var errCut = fault.New(fault.Upstream, "The provider's answer broke off while it ran this; whether it ended is not known.")

// cutLent closes an item that the upstream has not closed.
func (t *turn) cutLent(n *entry) {
	state := n.lent
	if state == nil {
		state = &lentState{}
	}
	if n.typ == openai.TypeShellCall {
		c := state.call
		c.item, c.index = n.item, n.index
		t.loop.cutCall(&c)
		n.item = c.item
		return
	}
	commands := 0
	for _, e := range t.entries {
		var c openai.ShellCall
		if e.typ == openai.TypeShellCall && e.item.CallID == n.item.CallID && e.item.Decode(&c) == nil {
			commands = len(c.Action.Commands)
		}
	}
	n.item = t.loop.cutOutput(n.index, n.item, commands, &state.out, errCut)
}

// lentItem says whether an item is one of a shell that the upstream runs.
func lentItem(typ string) bool {
	return typ == openai.TypeShellCall || typ == openai.TypeShellCallOutput
}

// lentNote is what the row of an open response keeps of a shell that the upstream runs.
type lentNote struct {
	Provider string `json:"provider"`
	ID       string `json:"id,omitempty"`
}

// relend finds the vendor's shell again of a response that another owner began. found is the container that it was seen
// to use.
func (a *Agent) relend(ctx context.Context, p *plan, n lentNote, found string) error {
	hosts := p.route.Hosts()
	at := slices.IndexFunc(hosts, func(r llm.Route) bool { return r.ProviderName == n.Provider })
	if a.options.Vendors == nil || at < 0 {
		return fault.New(fault.Unavailable, "The provider %q, which runs the commands of this response, is not to be had any more.", n.Provider)
	}
	p.route = hosts[at]
	p.lent = &lent{room: a.options.Vendors, org: p.principal.Org, provider: n.Provider, used: true}
	if found == "" {
		found = n.ID
	}
	if p.place.id = found; found != "" {
		c, err := a.options.Vendors.Usable(ctx, p.principal.Org, found)
		if err != nil {
			return err
		}
		p.lent.id, p.lent.theirs = c.ID, c.Theirs
	}
	a.readFunctions(ctx, p)
	return nil
}
