package command

import (
	"reflect"
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"github.com/hardshell-dev/hardshell/fault"
)

// walker turns a syntax tree into parts. Every kind of node is named here; one that is not becomes an Unknown part.
type walker struct {
	script  *Script
	src     string
	dialect Dialect
	frame
	err error
}

func (w *walker) cut(from, to int) string {
	from, to = max(0, min(from, len(w.src))), max(0, min(to, len(w.src)))
	if from >= to {
		return ""
	}
	return w.src[from:to]
}

// add appends a part and returns its index. Beyond the limit it records the refusal.
func (w *walker) add(p Part) int {
	if len(w.script.Parts) >= MaxParts {
		if w.err == nil {
			w.err = fault.New(fault.TooLarge, "The command has more than %d parts.", MaxParts).WithParam("command").
				WithTry("write the script to a file and run that")
		}
		p.Parent = w.parent
		w.script.Parts[MaxParts-1] = p // the script is refused: what the slot says no longer matters
		return MaxParts - 1
	}
	p.Parent, p.Wrappers = w.parent, slices.Clip(w.wrappers)
	w.script.Parts = append(w.script.Parts, p)
	return len(w.script.Parts) - 1
}

// part adds a part whose text is the given ranges of the source.
func (w *walker) part(kind Kind, spans ...Span) int {
	p := Part{Kind: kind}
	for _, s := range spans {
		s.From, s.To = max(0, min(s.From, len(w.src))), max(0, min(s.To, len(w.src)))
		if s.From >= s.To {
			continue
		}
		if p.Text != "" {
			p.Text += "\n"
		}
		p.Text += w.cut(s.From, s.To)
		if w.source {
			p.Spans = append(p.Spans, s)
		}
	}
	return w.add(p)
}

// within walks the commands of a substitution: their parts stand below the part that the substitution is in.
func (w *walker) within(parent int, stmts []*syntax.Stmt) {
	saved := w.parent
	w.parent = parent
	w.stmts(stmts)
	w.parent = saved
}

// inner finds the commands inside a node that is itself not judged.
func (w *walker) inner(parent int, n syntax.Node) {
	if n == nil || reflect.ValueOf(n).IsNil() {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			w.within(parent, n.Stmts)
			return false
		case *syntax.ProcSubst:
			w.within(parent, n.Stmts)
			return false
		}
		return w.err == nil
	})
}

func (w *walker) stmts(stmts []*syntax.Stmt) {
	for _, s := range stmts {
		if w.err != nil {
			return
		}
		w.stmt(s)
	}
}

func span(n syntax.Node) Span { return Span{int(n.Pos().Offset()), int(n.End().Offset())} }

// spans returns where a statement's own command and redirections lie: one range for both, then here-documents.
func spans(cmd syntax.Command, redirs []*syntax.Redirect) []Span {
	var out []Span
	var whole Span
	grow := func(s Span) {
		if whole.To == 0 {
			whole = s
		}
		whole = Span{min(whole.From, s.From), max(whole.To, s.To)}
	}
	if cmd != nil {
		grow(span(cmd))
	}
	for _, r := range redirs {
		from := int(r.Pos().Offset())
		if r.N != nil {
			from = int(r.N.Pos().Offset())
		}
		grow(Span{from, int(r.Word.End().Offset())})
	}
	out = append(out, whole)
	for _, r := range redirs {
		if r.Hdoc != nil {
			out = append(out, span(r.Hdoc))
		}
	}
	return out
}

func (w *walker) stmt(s *syntax.Stmt) {
	if s == nil || w.err != nil {
		return
	}
	start := len(w.script.Parts)
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		w.call(cmd, s.Redirs)
	case nil:
		w.redirections(s.Redirs)
	case *syntax.TestClause:
		i := w.part(Test, spans(cmd, s.Redirs)...)
		w.redirects(i, s.Redirs)
		w.bracket(i, cmd.X)
	case *syntax.ArithmCmd:
		i := w.part(Arithmetic, spans(cmd, s.Redirs)...)
		w.redirects(i, s.Redirs)
		w.at(i).find(Unknown, -1, true, "arithmetic can run what a variable holds")
		w.inner(i, cmd.X)
	case *syntax.LetClause:
		i := w.part(Declaration, spans(cmd, s.Redirs)...)
		w.redirects(i, s.Redirs)
		w.at(i).find(Unknown, -1, true, "arithmetic can run what a variable holds")
		w.inner(i, cmd)
	case *syntax.DeclClause:
		w.declaration(cmd, s.Redirs)
	default:
		w.compound(s.Cmd)
		w.redirections(s.Redirs)
	}
	if s.Background || s.Coprocess || s.Disown {
		for i := start; i < len(w.script.Parts); i++ {
			w.at(i).find(Unknown, -1, false, "it is left running in the background")
		}
	}
}

func (w *walker) at(i int) *Part { return &w.script.Parts[i] }

// redirections adds the part for redirections that belong to no simple command.
func (w *walker) redirections(redirs []*syntax.Redirect) {
	if len(redirs) > 0 {
		w.redirects(w.part(Redirection, spans(nil, redirs)...), redirs)
	}
}

func (w *walker) compound(cmd syntax.Command) {
	switch cmd := cmd.(type) {
	case *syntax.BinaryCmd:
		w.stmt(cmd.X)
		w.stmt(cmd.Y)
	case *syntax.Block:
		w.stmts(cmd.Stmts)
	case *syntax.Subshell:
		w.stmts(cmd.Stmts)
	case *syntax.TimeClause:
		w.stmt(cmd.Stmt)
	case *syntax.IfClause:
		for c := cmd; c != nil; c = c.Else {
			w.stmts(c.Cond)
			w.stmts(c.Then)
		}
	case *syntax.WhileClause:
		w.stmts(cmd.Cond)
		w.stmts(cmd.Do)
	case *syntax.ForClause:
		w.loop(cmd)
	case *syntax.CaseClause:
		w.choice(cmd)
	case *syntax.FuncDecl:
		from, to := span(cmd).From, int(cmd.Body.Pos().Offset())
		i := w.part(Function, Span{from, to})
		// From here on a name means something else than the tables say.
		w.at(i).find(Unknown, -1, true, "it defines a function, which can stand for any program")
		w.stmt(cmd.Body)
	case *syntax.CoprocClause:
		i := w.part(Header, Span{span(cmd).From, int(cmd.Stmt.Pos().Offset())})
		w.at(i).find(Unknown, -1, true, "it starts a co-process")
		w.inner(i, cmd.Name)
		w.stmt(cmd.Stmt)
	default:
		i := w.part(Broken, span(cmd))
		w.at(i).Opaque = "it is a construct that is not judged"
		w.at(i).find(Unknown, -1, true, w.at(i).Opaque)
		w.inner(i, cmd)
	}
}

func (w *walker) loop(cmd *syntax.ForClause) {
	i := w.part(Header, Span{span(cmd).From, int(cmd.DoPos.Offset())})
	if cmd.Select {
		w.at(i).find(Unknown, -1, true, "it waits for somebody to choose")
	}
	switch loop := cmd.Loop.(type) {
	case *syntax.WordIter:
		if !localName(loop.Name.Value, w.dialect) {
			w.at(i).find(Unknown, -1, true, "it sets "+loop.Name.Value+", which other programs may heed")
		}
		for _, item := range loop.Items {
			w.carries(i, -1, w.word(item, i))
		}
	default:
		w.at(i).find(Unknown, -1, true, "arithmetic can run what a variable holds")
		w.inner(i, cmd.Loop)
	}
	w.stmts(cmd.Do)
}

func (w *walker) choice(cmd *syntax.CaseClause) {
	i := w.part(Header, Span{span(cmd).From, int(cmd.In.Offset()) + len("in")})
	w.carries(i, -1, w.word(cmd.Word, i))
	for _, item := range cmd.Items {
		if n := len(item.Patterns); n > 0 {
			j := w.part(Header, Span{span(item.Patterns[0]).From, span(item.Patterns[n-1]).To})
			for _, p := range item.Patterns {
				w.carries(j, -1, w.word(p, j))
			}
		}
		w.stmts(item.Stmts)
	}
}

// carries records a finding if a word's expansion may run code.
func (w *walker) carries(part, index int, word Word) {
	if word.Form == Code {
		w.at(part).find(Unknown, index, true, visible(word.Text)+": "+word.Why)
	}
}

func (w *walker) call(cmd *syntax.CallExpr, redirs []*syntax.Redirect) {
	i := w.part(Simple, spans(cmd, redirs)...)
	if len(cmd.Args) == 0 {
		w.at(i).Kind = Assignment
	}
	w.assigns(i, cmd.Assigns)
	words := make([]Word, 0, len(cmd.Args))
	for _, arg := range cmd.Args {
		words = append(words, w.word(arg, i))
	}
	w.at(i).Words = words
	w.redirects(i, redirs)
	if w.err == nil && len(words) > 0 {
		w.judge(i)
	}
}

func (w *walker) declaration(cmd *syntax.DeclClause, redirs []*syntax.Redirect) {
	i := w.part(Declaration, spans(cmd, redirs)...)
	words := []Word{{Text: cmd.Variant.Value, Value: cmd.Variant.Value, Prefix: cmd.Variant.Value, Single: true, Span: span(cmd.Variant)}}
	for _, arg := range cmd.Args {
		s := span(arg)
		text := w.cut(s.From, s.To)
		word := Word{Text: text, Value: text, Prefix: text, Single: true, Span: s}
		if arg.Name == nil && arg.Value != nil { // an option or a name that is computed
			word = w.word(arg.Value, i)
		} else if a := w.assign(arg, i); a.Value.Form != Literal || !a.Plain {
			word.Form, word.Value, word.Prefix, word.Single = a.Value.Form, "", a.Name+"=", false
			word.Form = max(word.Form, Expansion)
		} else if !arg.Naked {
			word.Value = a.Name + "=" + a.Value.Value
			word.Prefix = word.Value
		}
		words = append(words, word)
	}
	w.at(i).Words = words
	w.redirects(i, redirs)
	w.at(i).find(Unknown, -1, true, cmd.Variant.Value+" changes what later commands see")
	for n, word := range words {
		w.carries(i, n, word)
	}
}
