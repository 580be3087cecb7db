package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word evaluates a word as far as it can be before it runs, and walks the commands inside it.
func (w *walker) word(x *syntax.Word, parent int) Word {
	if x == nil {
		return Word{Single: true}
	}
	return w.wordAs(x, parent, false)
}

// wordAs evaluates a word, or with quoted a here-document, whose text is read as if it stood in double quotes.
func (w *walker) wordAs(x *syntax.Word, parent int, quoted bool) Word {
	e := evaluation{w: w, parent: parent, single: true}
	if x.Lit() == "[" {
		e.text("[") // the program; as a glob it would need its other half
	} else {
		for i, part := range x.Parts {
			e.piece(part, quoted, i == 0)
		}
	}
	from, to := int(x.Pos().Offset()), int(x.End().Offset())
	out := Word{Text: w.cut(from, to), Form: e.form, Prefix: e.prefix.String(), Single: e.single, Why: e.why}
	if w.source {
		out.Span = Span{from, to}
	}
	if e.form == Literal {
		out.Value = out.Prefix
	}
	return out
}

// evaluation gathers what is known of one word.
type evaluation struct {
	w      *walker
	parent int
	form   Form
	prefix strings.Builder
	single bool
	why    string
}

func (e *evaluation) raise(form Form, single bool, why string) {
	e.form = max(e.form, form)
	e.single = e.single && single
	if why != "" && e.why == "" {
		e.why = why
	}
}

func (e *evaluation) text(s string) {
	if e.form == Literal {
		e.prefix.WriteString(s)
	}
}

// piece evaluates one part of a word; quoted is true within double quotes.
func (e *evaluation) piece(x syntax.WordPart, quoted, first bool) {
	switch x := x.(type) {
	case *syntax.Lit:
		if quoted {
			e.text(unescape(x.Value))
		} else {
			e.bare(x.Value, first)
		}
	case *syntax.SglQuoted:
		if !x.Dollar {
			e.text(x.Value)
		} else if value, ok := ansi(x.Value); ok {
			e.text(value)
		} else {
			e.raise(Code, true, "it spells characters by number")
		}
	case *syntax.DblQuoted:
		if x.Dollar {
			e.raise(Code, true, "it is translated by the shell before use")
		}
		for _, part := range x.Parts {
			e.piece(part, true, false)
		}
	case *syntax.ParamExp:
		e.param(x, quoted)
	case *syntax.CmdSubst:
		if x.TempFile || x.ReplyVar {
			e.raise(Code, false, "it substitutes a command in this shell")
		}
		e.raise(Expansion, quoted, "")
		e.w.within(e.parent, x.Stmts)
	case *syntax.ArithmExp:
		if number(x.X) {
			e.raise(Expansion, true, "")
		} else {
			// A variable's value is evaluated again in arithmetic: a[$(…)] runs.
			e.raise(Code, quoted, "it evaluates arithmetic")
		}
		e.w.inner(e.parent, x.X)
	case *syntax.ProcSubst:
		if x.Op == syntax.CmdIn && e.w.dialect == Bash {
			e.text("/dev/fd/") // and a number: one word that is no option; what it reads from is a part of its own
			e.raise(Expansion, true, "")
		} else {
			e.raise(Code, true, "it substitutes a process")
		}
		e.w.within(e.parent, x.Stmts)
	default: // ExtGlob, BraceExp and whatever the grammar may gain
		e.raise(Code, false, "it uses a kind of expansion that is not judged")
		e.w.inner(e.parent, x)
	}
}

// bare reads unquoted literal text: backslashes, globs, braces, tildes, and what only some shells expand.
func (e *evaluation) bare(s string, first bool) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] >= 0x80 {
				e.raise(Code, true, "it has characters outside ASCII without quotes")
			}
			if s[i] != '\n' {
				e.text(s[i : i+1])
			}
		case c >= 0x80:
			// Some shells and locales take such a byte for a blank.
			e.raise(Code, true, "it has characters outside ASCII without quotes")
		case c == '*' || c == '?' || c == '[':
			e.raise(Pattern, false, "")
		case c == '~' && (first && i == 0 || i > 0 && (s[i-1] == '=' || s[i-1] == ':')):
			e.text("~")
			e.raise(Pattern, true, "")
		case c == '{' && strings.ContainsAny(s, ",.") || c == '{' && !strings.Contains(s, "}"):
			e.raise(Expansion, false, "")
			e.text("{")
		case e.w.dialect == Zsh && (strings.IndexByte("(){}<>!", c) >= 0 || c == '=' && first && i == 0):
			e.raise(Code, false, "zsh may expand it")
		case e.w.dialect == Zsh && strings.IndexByte("^#~", c) >= 0:
			e.raise(Pattern, false, "")
		default:
			e.text(s[i : i+1])
		}
	}
}

// param judges a parameter expansion. Only the forms that replace a name by its value, a literal default or a value
// with a literal affix cut off are free of code; assignment, indirection, @-operators, subscripts, slices and all that
// a grammar may add are not.
func (e *evaluation) param(x *syntax.ParamExp, quoted bool) {
	single := x.Param != nil && (quoted && x.Param.Value != "@" || strings.Contains("?#$!", x.Param.Value))
	plain := x.Param != nil && x.Flags == nil && !x.Excl && !x.Width && !x.IsSet && x.Split == syntax.OptUnset && x.GlobSubst == syntax.OptUnset &&
		x.RcExpand == syntax.OptUnset && x.NestedParam == nil && x.Index == nil && x.Modifiers == nil && x.Slice == nil && x.Repl == nil && x.Names == 0
	if plain && x.Exp != nil {
		switch x.Exp.Op {
		case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AlternateUnset, syntax.AlternateUnsetOrNull,
			syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
			if x.Exp.Word != nil {
				inner := evaluation{w: e.w, parent: e.parent, single: true}
				for i, part := range x.Exp.Word.Parts {
					inner.piece(part, quoted, i == 0)
				}
				plain = inner.form != Code
			}
		default:
			plain = false
			e.w.inner(e.parent, x.Exp.Word)
		}
	}
	switch {
	case e.w.dialect == Zsh:
		e.raise(Code, single, "zsh may run code to expand it")
	case !plain:
		e.raise(Code, single, "its expansion can carry code")
	case x.Param.Value == "IFS" || x.Param.Value == "_" || strings.HasPrefix(x.Param.Value, "BASH_") || x.Param.Value == "PS4":
		e.raise(Code, single, "it glues words with "+x.Param.Value)
	default:
		e.raise(Expansion, single, "")
	}
	if !plain {
		for _, n := range []syntax.Node{x.Index, x.NestedParam} {
			e.w.inner(e.parent, n)
		}
		if x.Slice != nil {
			e.w.inner(e.parent, x.Slice.Offset)
			e.w.inner(e.parent, x.Slice.Length)
		}
		if x.Repl != nil {
			e.w.inner(e.parent, x.Repl.Orig)
			e.w.inner(e.parent, x.Repl.With)
		}
	}
}

// number reports arithmetic over written numbers alone.
func number(x syntax.ArithmExpr) bool {
	switch x := x.(type) {
	case *syntax.Word:
		return digits().MatchString(x.Lit())
	case *syntax.ParenArithm:
		return number(x.X)
	case *syntax.UnaryArithm:
		return x.Op != syntax.Inc && x.Op != syntax.Dec && number(x.X)
	case *syntax.BinaryArithm:
		return number(x.X) && number(x.Y)
	}
	return false
}

var digits = expression(`^[0-9]{1,18}$`)

// unescape reads literal text between double quotes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ansi reads $'…' if it uses only the escapes that hide nothing.
func ansi(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", false
		}
		at := strings.IndexByte(`nt\'"`, s[i])
		if at < 0 {
			return "", false
		}
		b.WriteByte("\n\t\\'\""[at])
	}
	return b.String(), true
}
