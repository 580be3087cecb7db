package config

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hardshell-dev/hardshell/fault"
)

// document is a configuration file's text, for telling where something stands in it.
type document struct {
	path string
	data []byte
}

// place is a line and a column of a file, from 1. The zero value is no place.
type place struct{ line, column int }

func placeOf(e *toml.DecodeError) place {
	line, column := e.Position()
	return place{line, column}
}

// point writes "file:line:column: text" and the lines around, with a mark under the column.
func (d document) point(at place, text string) string {
	lines := strings.Split(string(d.data), "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s", d.path, at.line, at.column, text)
	for n := max(1, at.line-1); n <= at.line && n <= len(lines); n++ {
		fmt.Fprintf(&b, "\n%4d | %s", n, strings.TrimRight(hideValue(lines[n-1]), "\r"))
	}
	fmt.Fprintf(&b, "\n     | %s^", strings.Repeat(" ", max(0, at.column-1)))
	return b.String()
}

// hideValue masks what is assigned to a key whose name says that it is a secret: an excerpt goes to a terminal, a
// log, a bug report.
func hideValue(line string) string {
	key, value, ok := strings.Cut(line, "=")
	if !ok {
		return line
	}
	value = strings.Trim(strings.TrimSpace(value), `"'`)
	if strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:") {
		return line
	}
	name := strings.ToLower(key)
	for _, part := range []string{"api_key", "apikey", "token", "secret", "password", "authorization"} {
		if strings.Contains(name, part) && !strings.Contains(name, "max_tokens_field") {
			return key + "= " + masked
		}
	}
	return line
}

// keys returns the place of every leaf in the file. The text has been decoded, so it parses.
func (d document) keys() map[string]place {
	found := map[string]place{}
	var p unstable.Parser
	p.Reset(d.data)
	var table string
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table, _ = d.dottedKey(&p, e)
		case unstable.KeyValue:
			d.pair(&p, e, table, found)
		}
	}
	return found
}

// pair records one assignment; the pairs of an inline table are recorded one by one.
func (d document) pair(p *unstable.Parser, e *unstable.Node, table string, found map[string]place) {
	key, at := d.dottedKey(p, e)
	if table != "" {
		key = table + "." + key
	}
	value := e.Value()
	if value.Kind != unstable.InlineTable {
		found[key] = at
		return
	}
	for it := value.Children(); it.Next(); {
		d.pair(p, it.Node(), key, found)
	}
}

// dottedKey returns the dotted key of one expression and where it begins.
func (d document) dottedKey(p *unstable.Parser, e *unstable.Node) (string, place) {
	var parts []string
	var at place
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if at.line == 0 {
			start := p.Shape(n.Raw).Start
			at = place{start.Line, start.Column}
		}
		parts = append(parts, string(n.Data))
	}
	return strings.Join(parts, "."), at
}

// wrong says which key has a value that cannot be, and where it was set.
func (l *Loaded) wrong(key string, cause error) error {
	e := fault.New(fault.Invalid, "%s", cause.Error())
	if f, ok := fault.As(cause); ok {
		e = fault.New(fault.Invalid, "%s", f.Message).WithTry("%s", f.Try)
	}
	text := key + ": " + e.Message
	switch o := l.sources[key]; {
	case o.variable != "":
		e.Message = text + " (from " + o.variable + ")"
	case o.at.line > 0:
		e.Message = l.doc.point(o.at, text)
	default:
		e.Message = text
	}
	e.Param = key
	return e
}
