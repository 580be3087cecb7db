package command

import (
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

func tooDeep() error {
	return fault.New(fault.TooLarge, "The command nests wrappers or shells too deep.").WithParam("command")
}

// shell judges sh and its kin: with -c and a literal script the script's parts follow, and they decide. A script from
// a literal here-document is shown the same way, but proves nothing.
func (w *walker) shell(i int, name string, ws []Word) {
	p := w.at(i)
	p.Wrapper = true
	dialect, _ := DialectOf(name)
	code, at := false, 1
	for ; at < len(ws); at++ {
		text := ws[at].Prefix
		if ws[at].Form != Literal || len(text) < 2 || text[0] != '-' && text[0] != '+' {
			break
		}
		if text == "--" {
			at++
			break
		}
		switch {
		case text == "--norc" || text == "--noprofile" || text == "--posix" || text == "--login" || text == "-o" || text == "+o":
			if text[1] == 'o' {
				at++
				if at >= len(ws) || !shellOptions[ws[at].Value] {
					p.find(Unknown, -1, true, "its options are not judged")
				}
			}
		case text == "--version" && len(ws) == 2:
			return
		case text[0] == '-' && text[1] != '-' && strings.Trim(text[1:], "celux") == "":
			code = code || strings.Contains(text, "c")
		default:
			p.find(Unknown, at, true, visible(text)+" is not judged")
			code = code || text[1] != '-' && strings.Contains(text, "c")
			if strings.HasSuffix(text, "o") || strings.HasSuffix(text, "O") {
				at++
			}
		}
	}
	if code {
		if at >= len(ws) || ws[at].Form != Literal {
			p.Opaque = "the script is not known before it runs"
			p.find(Unknown, -1, true, p.Opaque)
			return
		}
		p.Transparent = len(p.Findings) == 0
		w.nest(i, name, ws[at].Value, dialect)
		return
	}
	if at < len(ws) {
		p.find(Unknown, -1, true, "it runs a script from a file")
		return
	}
	p.Opaque = "it runs its input as a script"
	p.find(Unknown, -1, true, p.Opaque)
	for _, r := range p.Redirects {
		if r.Body.Form == Literal && r.Body.Text != "" {
			w.nest(i, name, r.Body.Value, dialect)
			return
		}
	}
}

var shellOptions = words("pipefail errexit nounset xtrace noclobber")

// join judges words that a program glues together and runs as a script.
func (w *walker) join(i int, ws []Word, dialect Dialect) {
	var script []string
	for _, word := range ws {
		if word.Form != Literal {
			w.at(i).Opaque = "the code is not known before it runs"
			w.at(i).find(Unknown, -1, true, w.at(i).Opaque)
			return
		}
		script = append(script, word.Value)
	}
	w.nest(i, w.at(i).Name(), strings.Join(script, " "), dialect)
}

// nest parses a script that stands in a word and adds its parts.
func (w *walker) nest(parent int, name, text string, dialect Dialect) {
	if w.err != nil {
		return
	}
	wrappers := append(append([]string(nil), w.wrappers...), name)
	if err := w.script.read(text, dialect, frame{parent: parent, wrappers: wrappers, nesting: w.nesting + 1}); err != nil {
		w.err = err
	}
}
