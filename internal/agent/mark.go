package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// mark is an entry of a response's journal: how far the loop is, for an owner who has to go on. Added is what came to
// the conversation since the mark before; all else is as it stands.
type mark struct {
	Rounds    int                 `json:"rounds"`
	Calls     int                 `json:"calls"`
	Tokens    int64               `json:"tokens"`
	Usage     *openai.Usage       `json:"usage,omitempty"`
	Container string              `json:"container,omitempty"`
	Staged    bool                `json:"staged,omitempty"`
	Next      int                 `json:"next"` // the first place of the output that is free
	Added     []openai.Item       `json:"added,omitempty"`
	Files     []openai.OutputFile `json:"files,omitempty"`
	Recent    []openai.OutputFile `json:"recent,omitempty"`
	Trouble   *troubleNote        `json:"trouble,omitempty"`

	Turn []entryNote `json:"turn,omitempty"` // a whole turn whose calls may be started from now on
	Asks []entryNote `json:"asks,omitempty"` // one of which nothing may be started yet: its questions are open
	Told bool        `json:"told,omitempty"` // the outputs of that turn's calls were announced before
	Last bool        `json:"last,omitempty"` // that turn was the last one allowed
	Ends bool        `json:"ends,omitempty"` // where a command of that turn changes files, an endNote comes before its end

	Lent bool `json:"lent,omitempty"` // from here on the upstream may run commands that nobody here knows of

	End   *response.End `json:"end,omitempty"`   // how the response ends; what is still open is closed
	Final *openai.Item  `json:"final,omitempty"` // and its last message becomes this

	Ended *endNote `json:"ended,omitempty"` // then the entry is this and no mark: the loop is where it was
}

// endNote is what a command's end has that the event of it has not: the files that it changed.
type endNote struct {
	Output  int                 `json:"output"` // the place of its call's output
	Command int                 `json:"command"`
	Files   []openai.OutputFile `json:"files,omitempty"`
	More    int                 `json:"more,omitempty"`
	Partial bool                `json:"partial,omitempty"`
}

// turn notes a whole turn and whether its calls may be started.
func (m *mark) turn(t *turn) {
	if m.Last, m.Ends = t.last, true; t.asks() {
		m.Asks = t.entryNotes()
	} else {
		m.Turn = t.entryNotes()
	}
}

// troubleNote is why no command of a round could be started.
type troubleNote struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

// entryNote is one item of a turn.
type entryNote struct {
	Fate   fate         `json:"fate"`
	Type   string       `json:"type"`
	Item   *openai.Item `json:"item,omitempty"`
	CallID string       `json:"call_id,omitempty"`
	Why    string       `json:"why,omitempty"`
	Words  bool         `json:"words,omitempty"` // a message that says something
	Call   *callNote    `json:"call,omitempty"`
}

// callNote is a call of ours with the item that its output becomes.
type callNote struct {
	Item        openai.ShellCall `json:"item"`
	Index       int              `json:"index"`
	Problem     string           `json:"problem,omitempty"`
	OutputID    string           `json:"output_id"`
	OutputIndex int              `json:"output_index"`
	Ruling      *ruling          `json:"ruling,omitempty"`
}

// mark writes how far the loop is. It is on record with the next event that is.
func (l *loop) mark(fill func(*mark)) {
	n := mark{Rounds: l.rounds, Calls: l.calls, Tokens: l.tokens, Usage: l.usage, Container: l.container, Staged: l.staged,
		Next: l.wire.places(), Added: l.added[l.noted:], Files: l.files, Recent: l.recent, Trouble: noteTrouble(l.trouble), Lent: l.plan.lent != nil}
	if fill != nil {
		fill(&n)
	}
	if l.journal(n) {
		l.noted = len(l.added)
	}
}

func (l *loop) journal(n any) bool {
	raw, err := openai.Marshal(n)
	if err != nil { // strings and numbers always marshal
		l.agent.options.Logger.Error("write journal", "response", l.run.ID(), "error", err)
		return false
	}
	l.run.Journal(raw)
	return true
}

// noteEnd notes the files that a command has changed, before its end is told.
func (l *loop) noteEnd(c *call, command int, e ended) {
	if len(e.files)+e.more == 0 && !e.partial {
		return
	}
	l.journal(struct {
		Ended endNote `json:"ended"`
	}{endNote{Output: c.outputIndex, Command: command, Files: e.files, More: e.more, Partial: e.partial}})
}

func noteTrouble(err error) *troubleNote {
	if err == nil {
		return nil
	}
	f := failure(err)
	return &troubleNote{Code: f.Code, Message: f.Message}
}

func (t *troubleNote) err() error {
	if t == nil {
		return nil
	}
	return fault.New(fault.Unavailable, "%s", t.Message).WithCode(t.Code)
}

// entryNotes is a finished turn as the journal keeps it.
func (t *turn) entryNotes() []entryNote {
	notes := make([]entryNote, 0, len(t.entries))
	for _, n := range t.entries {
		e := entryNote{Fate: n.fate, Type: n.typ, CallID: n.callID, Why: n.why, Words: n.words()}
		if n.fate == ours {
			e.Call = &callNote{Item: n.call.item, Index: n.call.index, OutputID: n.call.output.ID, OutputIndex: n.call.outputIndex,
				Ruling: n.call.ruling}
			if n.call.problem != nil {
				e.Call.Problem = n.call.problem.Error()
			}
		} else {
			e.Item = &n.item
		}
		notes = append(notes, e)
	}
	return notes
}

// turnOf is the turn that a mark keeps.
func (l *loop) turnOf(n mark) *turn {
	t := newTurn(l, n.Last)
	for _, e := range slices.Concat(n.Turn, n.Asks) { // it has one of them
		x := &entry{fate: e.Fate, typ: e.Type, callID: e.CallID, why: e.Why, said: e.Words, done: true}
		if e.Item != nil {
			x.item, x.id = *e.Item, e.Item.ID
		}
		if e.Call != nil {
			x.call = &call{item: e.Call.Item, index: e.Call.Index, read: true, outputIndex: e.Call.OutputIndex, ruling: e.Call.Ruling}
			x.id, x.index = e.Call.Item.ID, e.Call.Index
			if e.Call.Problem != "" {
				x.call.problem = fmt.Errorf("%s", e.Call.Problem)
			}
			x.call.output = emptyOutput(x.call.item, e.Call.OutputID)
		}
		t.entries = append(t.entries, x)
	}
	return t
}

// work is what the row of an open response keeps of its request, for an owner who has to go on. What the room of
// responses keeps anyway, the input and the chain before it, is not in it; secrets are not either.
type work struct {
	Request json.RawMessage `json:"request"`
	Place   placeNote       `json:"place"`
	Files   []fileNote      `json:"files,omitempty"`
	Tools   string          `json:"tools,omitempty"` // those with secrets, sealed
}

type placeNote struct {
	ID       string                   `json:"id,omitempty"`
	Used     bool                     `json:"used,omitempty"`
	Memory   string                   `json:"memory,omitempty"`
	Network  *container.NetworkPolicy `json:"network,omitempty"`
	Spec     container.CreateSpec     `json:"spec"` // while there is no container
	Replaced bool                     `json:"replaced,omitempty"`
	Local    bool                     `json:"local,omitempty"`
	Lent     *lentNote                `json:"lent,omitempty"`
	Skills   []localSkill             `json:"skills,omitempty"` // of a local one
}

type fileNote struct {
	Name     string `json:"name"`
	Data     []byte `json:"data"`
	Replayed bool   `json:"replayed,omitempty"`
	ID       string `json:"id,omitempty"`
	Key      string `json:"key,omitempty"`
}

// work writes the plan for the row.
func (p *plan) work() ([]byte, error) {
	kept := *p.request
	kept.Tools = make([]openai.Tool, len(p.request.Tools))
	for i, t := range p.request.Tools {
		if kept.Tools[i] = t; t.Type == "mcp" { // what it shows its server may be a secret
			kept.Tools[i].Raw = echoTool(t)
		}
	}
	request, err := openai.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("write work: %w", err)
	}
	w := work{Request: response.WithoutSecrets(request), Place: placeNote{ID: p.place.id, Used: p.place.used, Memory: p.place.memory,
		Network: p.place.network, Replaced: p.place.replaced, Local: p.place.local, Skills: p.place.localSkills}}
	w.Tools = sealTools(p.sealer, p.principal.Org, p.request.Tools)
	if p.lent != nil {
		w.Place.Lent = &lentNote{Provider: p.lent.provider, ID: p.lent.id}
	}
	if p.place.id == "" && p.lent == nil { // one with secrets has its container
		w.Place.Spec = p.place.spec
		w.Place.Spec.Secrets = nil
	}
	for _, f := range p.files {
		w.Files = append(w.Files, fileNote{f.name, f.data, f.replayed, f.id, f.key})
	}
	return openai.Marshal(w)
}

// replan makes the plan of a response that another owner began.
func (a *Agent) replan(ctx context.Context, c *response.Claim) (*plan, error) {
	if c.Work == nil {
		return nil, fault.New(fault.Internal, "The server stopped before the response was complete.")
	}
	var w work
	var req openai.CreateRequest
	err := json.Unmarshal(c.Work, &w)
	if err == nil {
		err = json.Unmarshal(w.Request, &req)
	}
	if err != nil {
		return nil, fmt.Errorf("read work: %w", err)
	}
	if err := unsealTools(a.options.Sealer, c.Org, w.Tools, req.Tools); err != nil {
		return nil, err
	}
	route, err := a.models.Resolve(ctx, c.Org, req.Model, req.Models...)
	if err != nil {
		return nil, err
	}
	p := &plan{request: &req, route: route, names: map[string]bool{}, input: c.Input, parallel: !isFalse(req.ParallelToolCalls)}
	p.principal.Org, p.principal.KeyID = c.Org, c.KeyID
	if p.compaction, err = a.readCompaction(&req, route); err != nil {
		return nil, err
	}
	if p.choice, err = readChoice(req.ToolChoice, req.Tools); err != nil {
		return nil, err
	}
	if _, err := a.continued(ctx, p, true); err != nil {
		return nil, err
	}
	if err := p.takeCompactions(a.options.Compaction.Enabled); err != nil {
		return nil, err
	}
	p.place = place{id: w.Place.ID, used: w.Place.Used, memory: w.Place.Memory, network: w.Place.Network, spec: w.Place.Spec,
		replaced: w.Place.Replaced, local: w.Place.Local, localSkills: w.Place.Skills}
	if w.Place.Lent != nil {
		return p, a.relend(ctx, p, *w.Place.Lent, c.Container)
	}
	if p.place.id == "" {
		p.place.id = c.Container // made for its first call
	}
	if p.place.id != "" {
		if p.place.skills, err = a.containers.Skills(ctx, c.Org, p.place.id); err != nil {
			return nil, err
		}
	}
	a.readFunctions(ctx, p)
	for _, f := range w.Files {
		p.files = append(p.files, inputFile{name: f.Name, data: f.Data, id: f.ID, key: f.Key, replayed: f.Replayed})
	}
	return p, nil
}
