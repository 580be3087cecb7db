package command

import (
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/hardshell-dev/hardshell/fault"
)

// The limits. Beyond each the input is refused with fault.TooLarge: a checker that gives up must not let pass.
const (
	// MaxScript is the kernel's own limit for one argument (32 pages): no longer script can be handed to a shell.
	MaxScript = 128<<10 - 1
	// MaxParts bounds what a person could be asked to read, far above what honest scripts have.
	MaxParts = 2000
	// MaxNesting bounds scripts within words of scripts (sh -c "sh -c …"), maxDepth the brackets within one.
	MaxNesting = 8
	maxDepth   = 4000
	// maxReadings bounds nested scripts in all: each is read once for every reading of the one around it.
	maxReadings = 1000
)

// Parse reads a script. It fails only for input that no shell should be handed (over a limit, a NUL byte); text that
// does not parse becomes one Broken part, which nothing proves and no rule covers.
func Parse(script string, dialect Dialect) (*Script, error) {
	s := &Script{Source: script, Dialect: dialect, readings: new(int)}
	if err := check(script); err != nil {
		return nil, err
	}
	if err := s.read(script, dialect, frame{parent: -1, source: true}); err != nil {
		return nil, err
	}
	return s, nil
}

// Argv reads a command that is run without a shell: every word is literal.
func Argv(argv []string) (*Script, error) {
	if len(argv) == 0 {
		return nil, fault.New(fault.Invalid, "The command is empty.").WithParam("command")
	}
	quoted := make([]string, len(argv))
	for i, word := range argv {
		quoted[i] = quote(word)
	}
	s := &Script{Source: strings.Join(quoted, " "), Dialect: POSIX, readings: new(int)}
	if err := check(s.Source); err != nil {
		return nil, err
	}
	w := &walker{script: s, src: s.Source, dialect: POSIX, frame: frame{parent: -1, source: true}}
	words, at := make([]Word, len(argv)), 0
	for i, word := range argv {
		words[i] = Word{Text: quoted[i], Value: word, Prefix: word, Single: true, Span: Span{at, at + len(quoted[i])}}
		at += len(quoted[i]) + 1
	}
	i := w.add(Part{Kind: Simple, Text: s.Source, Spans: []Span{{0, len(s.Source)}}, Words: words})
	w.judge(i)
	return s, w.err
}

func check(script string) error {
	if len(script) > MaxScript {
		return fault.New(fault.TooLarge, "The command has %d bytes; the limit is %d.", len(script), MaxScript).
			WithParam("command").WithTry("write the script to a file and run that")
	}
	if strings.IndexByte(script, 0) >= 0 {
		return fault.New(fault.Invalid, "The command contains a NUL byte.").WithParam("command")
	}
	return nil
}

// frame is where a script stands: within which wrapper's part, and how deep.
type frame struct {
	parent   int
	wrappers []string
	nesting  int
	source   bool // its text is Script.Source itself, so spans mean something
}

// read parses text in every grammar that its dialect could mean and adds the parts.
func (s *Script) read(text string, dialect Dialect, f frame) error {
	if f.nesting > MaxNesting {
		return fault.New(fault.TooLarge, "The command nests shells more than %d deep.", MaxNesting).WithParam("command")
	}
	if *s.readings++; *s.readings > maxReadings {
		return fault.New(fault.TooLarge, "The command nests more than %d scripts.", maxReadings).WithParam("command")
	}
	readings := []syntax.LangVariant{syntax.LangBash}
	switch dialect {
	case POSIX:
		readings = []syntax.LangVariant{syntax.LangPOSIX, syntax.LangBash}
	case Zsh:
		readings = []syntax.LangVariant{syntax.LangZsh, syntax.LangBash}
	case Korn:
		readings = []syntax.LangVariant{syntax.LangMirBSDKorn, syntax.LangBash}
	}
	if text == "" {
		return nil
	}
	odd := oddity(text)
	start := len(s.Parts)
	var trouble error
	for n, lang := range readings {
		file, err := parseAs(text, lang)
		if err != nil {
			if f, ok := fault.As(err); ok && f.Kind == fault.TooLarge {
				return err
			}
			trouble = err
			continue
		}
		reading := &Script{Source: s.Source, Dialect: s.Dialect, readings: s.readings, Parts: slices.Clone(s.Parts[:start])}
		w := &walker{script: reading, src: text, dialect: dialect, frame: f}
		w.stmts(file.Stmts)
		if w.err != nil {
			return w.err
		}
		added, earlier := reading.Parts[start:], len(s.Parts)
		if n > 0 && trouble == nil && slices.EqualFunc(s.Parts[start:], added, sameMeaning) {
			continue // this reading says nothing new
		}
		for i := range added {
			if n > 0 || trouble != nil {
				added[i].Doubtful = true
				added[i].find(Unknown, -1, true, "shells read this text in different ways")
			}
			if odd != "" {
				added[i].Doubtful = true
				added[i].find(Unknown, -1, true, odd)
			}
		}
		for i := range added {
			if added[i].Parent >= start {
				added[i].Parent += earlier - start
			}
		}
		s.Parts = append(s.Parts, added...)
	}
	if trouble == nil && odd != "" {
		trouble = fault.New(fault.Invalid, "%s", odd)
	}
	if trouble == nil {
		return nil
	}
	// A shell runs the lines before the one that it cannot read, so nothing is known of any of it. A reading that
	// worked stays beside it: rules that forbid should see its parts.
	if f.source {
		s.Err = fault.Wrap(fault.Invalid, trouble, "The command cannot be read: %v.", trouble).WithParam("command")
	}
	broken := Part{Kind: Broken, Doubtful: true, Text: text, Parent: f.parent, Wrappers: f.wrappers, Opaque: "it cannot be read: " + trouble.Error()}
	if f.source {
		broken.Spans = []Span{{0, len(text)}}
	}
	broken.find(Unknown, -1, true, broken.Opaque)
	s.Parts = append(s.Parts, broken)
	return nil
}

func parseAs(text string, lang syntax.LangVariant) (file *syntax.File, err error) {
	if depth(text) > maxDepth {
		return nil, fault.New(fault.TooLarge, "The command nests more than %d levels.", maxDepth).WithParam("command")
	}
	// The parser is not ours: if it should panic, the text is one that does not parse.
	defer func() {
		if recover() != nil {
			file, err = nil, fault.New(fault.Invalid, "the parser gave up")
		}
	}()
	return syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(false)).Parse(strings.NewReader(text), "")
}

// depth counts brackets that stay open, quoted or not. It is no measure of structure: it keeps the parser, which
// recurses on each, from half a gigabyte of stack.
func depth(text string) int {
	level, deepest := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(', '{':
			level++
			deepest = max(deepest, level)
		case ')', '}':
			level = max(0, level-1)
		}
	}
	return deepest
}

// sameMeaning compares the parts of two readings.
func sameMeaning(a, b Part) bool {
	return a.Kind == b.Kind && a.Text == b.Text && a.Class == b.Class && a.Opaque == b.Opaque &&
		slices.EqualFunc(a.Words, b.Words, func(x, y Word) bool { return x.Form == y.Form && x.Value == y.Value && x.Text == y.Text }) &&
		len(a.Redirects) == len(b.Redirects) && len(a.Assigns) == len(b.Assigns)
}

// oddity names bytes that shells, terminals and this parser treat differently. A lone carriage return is the name of a program to a shell and nothing to the parser.
func oddity(text string) string {
	if !utf8.ValidString(text) {
		return "it contains bytes that are not UTF-8"
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' && c != '\t' && c != '\n' || c == 0x7f {
			return "it contains control characters"
		}
	}
	// For this parser a backslash at a line's end joins lines around a comment sign where shells do not, so that a
	// command after the comment would look like its text.
	if strings.Contains(text, "\\\n") && strings.Contains(text, "#") {
		return "it has a comment sign and lines that are joined, which shells read differently"
	}
	return ""
}
