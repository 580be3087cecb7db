// Package command parses a command line into one tree of parts and says what each part is known to do. The same parts
// serve the prompt, the rules, the audit and the display, so that what a person reads is what was judged.
//
// It does not contain anything. A part that is called read-only was proven so from a table of programs and options;
// whatever is not proven is Unknown, and text can never prove what a program does with its input. The sandbox and the
// proxy are the boundary: this package only makes questions rarer and better.
//
// What holds: every byte that can run is in the text of some part; an unknown node of the grammar, an unknown option
// of a known program and a word whose value is not known are never read-only; input beyond a limit is refused as an
// error, never judged more mildly.
package command

import (
	"path"
	"strings"
)

// Dialect says whose grammar a script is read by.
type Dialect int

// The dialects. POSIX is for sh, whose identity is not known: it is read as POSIX and as Bash, and only what both
// readings agree on is proven. Zsh is read as Zsh and as Bash.
const (
	Bash Dialect = iota
	POSIX
	Zsh
	Korn
)

// DialectOf names the dialect of a shell by its program name, and false for a shell whose grammar is not known here.
func DialectOf(shell string) (Dialect, bool) {
	switch path.Base(shell) {
	case "bash", "rbash":
		return Bash, true
	case "sh", "dash", "ash":
		return POSIX, true
	case "zsh":
		return Zsh, true
	case "ksh", "mksh", "lksh", "ksh93":
		return Korn, true
	}
	return Bash, false
}

// Class is what a part is known to do, in order of weight.
type Class int

// The classes. Unknown weighs more than Writes and Network, since it may be both.
const (
	ReadOnly    Class = iota // proven: it reads and prints
	Network                  // it is known to talk to other machines
	Writes                   // it is known to change files
	Unknown                  // nothing is proven
	Destructive              // it is known to remove or overwrite what cannot be got back
)

// String returns the class in one word.
func (c Class) String() string {
	switch c {
	case ReadOnly:
		return "read-only"
	case Network:
		return "network"
	case Writes:
		return "writes"
	case Destructive:
		return "destructive"
	}
	return "unknown"
}

// Kind says what construct of the grammar a part is.
type Kind int

// The kinds of part.
const (
	Simple      Kind = iota // a program or built-in with its words
	Assignment              // NAME=value without a program
	Declaration             // export, declare, local, readonly, typeset, let
	Test                    // [[ … ]]
	Arithmetic              // (( … ))
	Header                  // the words of a loop or case
	Function                // a function's name
	Redirection             // the redirections of a compound command
	Broken                  // text that could not be parsed, whole
)

// Form is how much is known of a word before it is expanded.
type Form int

// The forms, from all to nothing. An Expansion runs no code of its own (the commands of a substitution are parts
// themselves), but its value is not known; Code may run something while it is expanded.
const (
	Literal   Form = iota // Value is what the program will see
	Pattern               // a glob or a tilde: file names that begin with Prefix
	Expansion             // a value that only the shell will know
	Code                  // an expansion that can carry code, or one whose meaning shells disagree on
)

// Span is a range of bytes of Script.Source.
type Span struct{ From, To int }

// Word is one word of a command.
type Word struct {
	Text   string // as written
	Value  string // what the program sees; only for a Literal
	Form   Form
	Prefix string // the literal text before the first piece that is not
	Single bool   // it expands to exactly one word
	Why    string // what makes it Code
	Span   Span   // where it was written; the zero Span if it was not (xargs adds words)
}

// Assign is one NAME=value, before a command or alone.
type Assign struct {
	Text  string
	Name  string
	Value Word
	Plain bool // one name, one value: no index, no array, no append
}

// Redirect is one redirection.
type Redirect struct {
	Text   string
	Op     string
	FD     string // "2" of 2>file, "{name}" of a named one, else empty
	Target Word
	Body   Word // of a here-document
	Safe   bool // it reads, copies a descriptor, or opens the null device
	Why    string
}

// Finding is one reason why a part is not proven read-only.
type Finding struct {
	Word int // the word at fault, or -1 for the part as a whole
	Why  string
	// Hard findings run programs, write files or poison what follows: a rule's prefix covers them only if it names
	// them (Word lies within the prefix), and never when Word is -1.
	Hard bool
}

// Part is one thing that a script does.
type Part struct {
	Kind      Kind
	Text      string // every byte of it, as written, here-documents included
	Spans     []Span // where Text lies in Script.Source; nil for parts of a nested script, whose source is a word
	Words     []Word // program first; empty if Kind has none
	Assigns   []Assign
	Redirects []Redirect

	Parent      int      // the wrapper's part, or -1
	Wrappers    []string // the names of the wrappers around it, outermost first
	Wrapper     bool     // it runs another program; what it runs, as far as it can be told, follows as parts
	Transparent bool     // a wrapper that adds nothing to what it runs
	Opaque      string   // why what it runs cannot be told, or empty
	Doubtful    bool     // shells read its text in different ways: no rule may vouch for it

	Class         Class
	Findings      []Finding
	ForcedRemoval bool   // it removes files without asking
	Chdir         string // where a plain cd goes, else empty
}

// Name is the program's base name, or empty if it is not known.
func (p *Part) Name() string {
	if len(p.Words) == 0 || p.Words[0].Form != Literal {
		return ""
	}
	return path.Base(p.Words[0].Value)
}

// Argv is the part's words if every one is literal.
func (p *Part) Argv() ([]string, bool) {
	if len(p.Words) == 0 {
		return nil, false
	}
	argv := make([]string, len(p.Words))
	for i, w := range p.Words {
		if w.Form != Literal {
			return nil, false
		}
		argv[i] = w.Value
	}
	return argv, true
}

// Reasons lists in sentences why the part is not proven read-only.
func (p *Part) Reasons() []string {
	var out []string
	for _, f := range p.Findings {
		out = append(out, f.Why)
	}
	return out
}

// find records a finding and raises the part's class.
func (p *Part) find(class Class, word int, hard bool, why string) {
	p.Class = max(p.Class, class)
	p.Findings = append(p.Findings, Finding{Word: word, Why: why, Hard: hard})
}

// Script is a parsed command line.
type Script struct {
	Source  string // the exact bytes; for an argv, its words quoted
	Dialect Dialect
	Parts   []Part // outer before inner, in order of writing
	Err     error  // why it could not be parsed; then one of its parts is Broken

	readings *int // how many nested scripts were read so far, counted over every reading of the outer ones
}

// Class is the heaviest class of any part. An empty script does nothing and is read-only.
func (s *Script) Class() Class {
	class := ReadOnly
	for i := range s.Parts {
		class = max(class, s.Parts[i].Class)
	}
	return class
}

// Has reports whether any part has exactly this class.
func (s *Script) Has(class Class) bool {
	for i := range s.Parts {
		if s.Parts[i].Class == class {
			return true
		}
	}
	return false
}

// Classify returns the heaviest class of any part and why each part that is not read-only is not, one line a finding.
func (s *Script) Classify() (Class, []string) {
	var why []string
	for i := range s.Parts {
		for _, reason := range s.Parts[i].Reasons() {
			why = append(why, s.Parts[i].Display()+": "+reason)
		}
	}
	return s.Class(), why
}

// ForcedRemoval reports whether any part removes files without asking.
func (s *Script) ForcedRemoval() bool {
	for i := range s.Parts {
		if s.Parts[i].ForcedRemoval {
			return true
		}
	}
	return false
}

// quote writes a word so that every shell reads it as itself.
func quote(word string) string {
	plain := word != "" && strings.IndexFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+,", r))
	}) < 0
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
