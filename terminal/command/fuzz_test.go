package command

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/hardshell-dev/hardshell/fault"
)

// FuzzParse holds what must be true of every text: no panic, no error but a limit's, every part's text shown whole on
// one line, and every byte of the source in some part, a keyword, an operator or a comment.
func FuzzParse(f *testing.F) {
	for _, c := range cases(f, "testdata/ordinary.txt") {
		f.Add(c[1], 0)
	}
	for i, s := range []string{"", " ", "\n", "a\\\nb", "case x in a|b) c;; esac", "coproc x { y; }", "select x in a; do b; done", "a <<E b\n$(c)\nE\n", "`a \\`b\\``", "\xff", "a\x00b", "a\rb",
		"a=(b $(c))", "declare -A x=([$(a)]=b)", "((x[$(y)]))", "let x=$(y)", "env -S 'a b'", "xargs -I", "bash -c", "bash -c 'a' <<< b", "find -exec", "git", "git -C", "sed", "[", "test", "printf",
		"a{b,c}d", "\u202ea", "$'a\\x41'", "busybox sh -c 'x'", "[[ a == (b|c) ]]", "function f { a; }", "a >&$b", "for ((;;)) { a; }", "x() (y)", "${a[$(b)]}", "flock", "timeout", "((", "trap"} {
		f.Add(s, i%4)
	}
	f.Fuzz(func(t *testing.T, script string, dialect int) {
		slow := time.AfterFunc(5*time.Second, func() { panic(fmt.Sprintf("%.300q in dialect %d takes longer than 5 s", script, dialect&3)) })
		defer slow.Stop()
		s, err := Parse(script, Dialect(dialect&3))
		if err != nil {
			if k := fault.KindOf(err); k != fault.TooLarge && k != fault.Invalid {
				t.Fatalf("%q: %v", script, err)
			}
			return
		}
		covered := make([]bool, len(script))
		for i := range s.Parts {
			p := &s.Parts[i]
			if p.Parent >= i || p.Parent < -1 {
				t.Fatalf("part %d of %q stands under %d", i, script, p.Parent)
			}
			shown := p.Display()
			if strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%q is shown as %q", p.Text, shown)
			}
			if back := restore(shown); back != p.Text {
				t.Fatalf("%q is shown as %q, which says %q", p.Text, shown, back)
			}
			if p.Class == ReadOnly && len(p.Findings) > 0 || p.Class != ReadOnly && len(p.Findings) == 0 {
				t.Fatalf("%q is %v with findings %v", p.Text, p.Class, p.Findings)
			}
			var text strings.Builder
			for n, span := range p.Spans {
				if n > 0 {
					text.WriteString("\n")
				}
				text.WriteString(script[span.From:span.To])
				for at := span.From; at < span.To; at++ {
					covered[at] = true
				}
			}
			if p.Spans != nil && text.String() != p.Text {
				t.Fatalf("part %d of %q is %q, its spans say %q", i, script, p.Text, text.String())
			}
		}
		if s.Class() == ReadOnly && !strings.Contains(script, "<<") {
			uncovered(t, script, covered)
		}
	})
}

var skeleton = regexp.MustCompile(`^(if|then|elif|else|fi|while|until|do|done|for|case|in|esac|time|-p|\{|\}|!)$`)

// uncovered fails if a byte outside every part is more than the grammar's own words.
func uncovered(t *testing.T, script string, covered []bool) {
	t.Helper()
	var rest strings.Builder
	for i := range covered {
		if covered[i] {
			rest.WriteByte(' ')
		} else {
			rest.WriteByte(script[i])
		}
	}
	text := strings.ReplaceAll(rest.String(), "\\\n", "")
	text = regexp.MustCompile(`(^|[\s;&|()])#[^\n]*`).ReplaceAllString(text, "$1")
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()", r) }) {
		if !skeleton.MatchString(field) {
			t.Fatalf("%q of %q is in no part", field, script)
		}
	}
}

var escape = regexp.MustCompile(`⟨(U\+[0-9A-F]+|byte [0-9A-F]{2}|[0-9]+ spaces)⟩`)

// restore reads a displayed line back.
func restore(line string) string {
	return escape.ReplaceAllStringFunc(line, func(m string) string {
		m = strings.TrimSuffix(strings.TrimPrefix(m, "⟨"), "⟩")
		if code, ok := strings.CutPrefix(m, "U+"); ok {
			r, _ := strconv.ParseUint(code, 16, 32)
			return string(rune(r))
		}
		if code, ok := strings.CutPrefix(m, "byte "); ok {
			b, _ := strconv.ParseUint(code, 16, 8)
			return string([]byte{byte(b)})
		}
		var n int
		fmt.Sscanf(m, "%d", &n)
		return strings.Repeat(" ", n)
	})
}
