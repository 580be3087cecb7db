package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirects judges a part's redirections. What opens a file for writing is safe only on the null device; the list of
// safe operators is complete, so an operator that a grammar may gain is not.
func (w *walker) redirects(i int, redirs []*syntax.Redirect) {
	for _, r := range redirs {
		s := span(r)
		if r.N != nil {
			s.From = min(s.From, span(r.N).From)
		}
		out := Redirect{Text: w.cut(s.From, span(r.Word).To), Op: r.Op.String(), Target: w.word(r.Word, i)}
		if r.N != nil {
			out.FD = r.N.Value
		}
		out.Safe, out.Why = safeRedirect(r, out.Target)
		if r.Hdoc != nil {
			out.Body = w.wordAs(r.Hdoc, i, true)
			out.Body.Span = Span{}
			if quotedDelimiter(r.Word) {
				out.Body = Word{Text: out.Body.Text, Value: raw(r.Hdoc), Single: true}
			}
		}
		if out.FD != "" && !descriptor().MatchString(out.FD) {
			out.Safe, out.Why = false, "it puts a descriptor into a variable"
		}
		p := w.at(i)
		p.Redirects = append(p.Redirects, out)
		if !out.Safe {
			class := Writes
			if strings.HasPrefix(out.Target.Value, "/dev/tcp/") || strings.HasPrefix(out.Target.Value, "/dev/udp/") {
				class = Network
			}
			if out.Target.Form != Literal {
				class = Unknown
			}
			p.find(class, -1, true, visible(out.Text)+": "+out.Why)
		}
		w.carries(i, -1, out.Target)
		w.carries(i, -1, out.Body)
	}
}

var (
	descriptor = expression(`^[0-9]{1,3}$`)
	duplicate  = expression(`^([0-9]{1,3}|-)$`)
)

func safeRedirect(r *syntax.Redirect, target Word) (bool, string) {
	null := target.Form == Literal && target.Value == "/dev/null"
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		if null {
			return true, ""
		}
		return false, "it opens a file for writing"
	case syntax.DplOut, syntax.DplIn:
		if target.Form == Literal && duplicate().MatchString(target.Value) {
			return true, ""
		}
		if null && r.Op == syntax.DplOut {
			return true, ""
		}
		return false, "it opens a file for writing or copies a descriptor that is not known"
	case syntax.RdrIn:
		switch {
		case target.Form != Literal && target.Form != Pattern:
			return false, "it opens a file whose name is not known"
		case strings.HasPrefix(target.Value, "/dev/tcp/") || strings.HasPrefix(target.Value, "/dev/udp/"):
			return false, "it opens a connection"
		case device(target.Value):
			return false, "it opens a device"
		}
		return true, ""
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return true, ""
	}
	return false, "it is a redirection that is not judged"
}

// device reports device files other than those that only read or echo.
func device(path string) bool {
	if !strings.HasPrefix(path, "/dev/") {
		return false
	}
	switch path {
	case "/dev/null", "/dev/zero", "/dev/stdin", "/dev/urandom", "/dev/random":
		return false
	}
	return true
}

// raw is the text of a here-document that nothing in is expanded.
func raw(x *syntax.Word) string {
	var text strings.Builder
	for _, part := range x.Parts {
		if lit, ok := part.(*syntax.Lit); ok {
			text.WriteString(lit.Value)
		}
	}
	return text.String()
}

func quotedDelimiter(x *syntax.Word) bool {
	for _, part := range x.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || strings.Contains(lit.Value, `\`) {
			return true
		}
	}
	return false
}

// assigns judges NAME=value before a command, or alone.
func (w *walker) assigns(i int, assigns []*syntax.Assign) {
	for _, x := range assigns {
		a := w.assign(x, i)
		p := w.at(i)
		p.Assigns = append(p.Assigns, a)
		switch {
		case !a.Plain:
			p.find(Unknown, -1, true, visible(a.Text)+": only plain assignments are judged")
		case p.Kind == Assignment && localName(a.Name, w.dialect) && a.Value.Form != Code:
		case p.Kind != Assignment && a.Value.Form == Literal && HarmlessVariable(a.Name, a.Value.Value):
		default:
			p.find(Unknown, -1, true, visible(a.Text)+": programs may heed "+visible(a.Name))
		}
		w.carries(i, -1, a.Value)
	}
}

func (w *walker) assign(x *syntax.Assign, parent int) Assign {
	s := span(x)
	a := Assign{Text: w.cut(s.From, s.To), Plain: !x.Append && x.Index == nil && x.Array == nil && x.Name != nil}
	if x.Name != nil {
		a.Name = x.Name.Value
	}
	a.Value = w.word(x.Value, parent)
	w.inner(parent, x.Index)
	if x.Array != nil {
		w.inner(parent, x.Array)
	}
	return a
}

// localName reports names that are the script's own by convention: lower case, and none that a shell or a library
// heeds. In zsh lower-case names are tied to PATH and others, so none is proven.
func localName(name string, d Dialect) bool {
	if d == Zsh || d == Korn || !local().MatchString(name) || strings.HasSuffix(name, "_proxy") {
		return false
	}
	switch name {
	case "_", "path", "fpath", "cdpath", "manpath", "mailpath", "prompt", "histchars", "auto_resume":
		return false
	}
	return !strings.HasPrefix(name, "npm_") && !strings.HasPrefix(name, "bash_") && !strings.HasPrefix(name, "git_")
}

var local = expression(`^[a-z_][a-z0-9_]*$`)

// HarmlessVariable reports whether setting a variable to a value for one command cannot change what that command
// runs or writes. Only the few that set language, zone, width and colour are; every other name is not proven.
func HarmlessVariable(name, value string) bool {
	switch name {
	case "LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "TERM", "COLUMNS", "LINES",
		"NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "CI":
		return plainValue().MatchString(value)
	case "TZ":
		return zone().MatchString(value)
	}
	return false
}

var (
	plainValue = expression(`^[A-Za-z0-9_@.-]{0,40}$`)
	zone       = expression(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$`)
)
