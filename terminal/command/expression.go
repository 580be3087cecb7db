package command

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// findTests are find's words that look and print, with how many words each takes.
var findTests = map[string]int{
	"(": 0, ")": 0, "!": 0, "-not": 0, "-a": 0, "-and": 0, "-o": 0, "-or": 0, ",": 0,
	"-name": 1, "-iname": 1, "-path": 1, "-ipath": 1, "-wholename": 1, "-iwholename": 1, "-regex": 1, "-iregex": 1, "-regextype": 1, "-lname": 1, "-ilname": 1,
	"-type": 1, "-xtype": 1, "-maxdepth": 1, "-mindepth": 1, "-size": 1, "-empty": 0, "-perm": 1, "-user": 1, "-group": 1, "-uid": 1, "-gid": 1, "-nouser": 0, "-nogroup": 0,
	"-mtime": 1, "-mmin": 1, "-atime": 1, "-amin": 1, "-ctime": 1, "-cmin": 1, "-newer": 1, "-anewer": 1, "-cnewer": 1, "-newermt": 1, "-newerct": 1, "-newerat": 1, "-daystart": 0,
	"-links": 1, "-inum": 1, "-samefile": 1, "-readable": 0, "-writable": 0, "-executable": 0, "-true": 0, "-false": 0, "-fstype": 1,
	"-prune": 0, "-depth": 0, "-d": 0, "-mount": 0, "-xdev": 0, "-follow": 0, "-noleaf": 0, "-ignore_readdir_race": 0, "-quit": 0,
	"-print": 0, "-print0": 0, "-printf": 1, "-ls": 0, "-H": 0, "-L": 0, "-P": 0,
}

// findRunners are find's actions that run a program, up to ; or +.
var findRunners = words("-exec -execdir -ok -okdir")

func proveFind(w []Word) (findings []Finding) {
	bad := func(i int, why string) { findings = append(findings, Finding{i, why, true}) }
	expression := false
	for i := 1; i < len(w); i++ {
		text := w[i].Prefix
		dash := w[i].Form == Literal && (strings.HasPrefix(text, "-") || text == "(" || text == ")" || text == "!" || text == ",")
		switch takesWords, known := findTests[text]; {
		case w[i].Form == Code:
		case dash && known:
			expression = expression || text != "-H" && text != "-L" && text != "-P"
			if i+takesWords >= len(w) {
				bad(i, visible(text)+" lacks its value")
			}
			for n := i + 1; n <= i+takesWords && n < len(w); n++ {
				if w[n].Form != Literal && !(w[n].Form == Expansion && w[n].Single) {
					bad(n, visible(w[n].Text)+" could become an action")
				}
			}
			i += takesWords
		case dash:
			bad(i, visible(text)+" is not known to be read-only")
			if findRunners[text] {
				for i+1 < len(w) && !(w[i].Value == ";" || w[i].Value == "+" && w[i-1].Value == "{}") {
					i++ // these words are the program's, and parts of their own
				}
			}
		case w[i].Form != Literal && (!plainOperand(w[i]) || expression):
			bad(i, visible(w[i].Text)+" could become an action")
		}
	}
	return findings
}

// The forms of a sed script that only print: addresses with p, =, d or q, or a single s with harmless flags.
var (
	sedAddress = `([0-9]+(~[0-9]+)?|\$|/([^/\\\n\[]|\\[^\n])+/I?)`
	sedPrint   = expression(`^( *(` + sedAddress + `(,(` + sedAddress + `|[+~][0-9]+))?)?!? *[p=dq] *(;|$))+$`)
	sedReplace = expression(`^ *(` + sedAddress + `(,` + sedAddress + `)?)?s(/([^/\\\n]|\\[^\n])*/([^/\\\n]|\\[^\n])*/|\|([^|\\\n]|\\[^\n])*\|([^|\\\n]|\\[^\n])*\||,([^,\\\n]|\\[^\n])*,([^,\\\n]|\\[^\n])*,|#([^#\\\n]|\\[^\n])*#([^#\\\n]|\\[^\n])*#)[gIip0-9]*$`)
)

func proveSed(w []Word) (findings []Finding) {
	bad := func(i int, why string) { findings = append(findings, Finding{i, why, true}) }
	script := func(i int) {
		if i >= len(w) || w[i].Form != Literal || !sedPrint().MatchString(w[i].Value) && !sedReplace().MatchString(w[i].Value) {
			bad(min(i, len(w)-1), "its script is not one that only prints")
		}
	}
	scripts, operands := 0, []int{}
	for i := 1; i < len(w); i++ {
		text := w[i].Prefix
		switch {
		case w[i].Form != Literal && !plainOperand(w[i]):
			bad(i, visible(w[i].Text)+" could become an option")
		case !strings.HasPrefix(text, "-") || text == "-":
			operands = append(operands, i)
		case text == "-e" || text == "--expression" || regexp.MustCompile(`^-[nErzu]+e$`).MatchString(text):
			scripts++
			i++
			script(i)
		case regexp.MustCompile(`^-[nErzu]+$`).MatchString(text) || slices.Contains([]string{"--quiet", "--silent", "--regexp-extended", "--posix", "--null-data", "--sandbox"}, text):
		default:
			bad(i, visible(text)+" is not known to be read-only")
		}
	}
	if scripts == 0 {
		if len(operands) == 0 {
			bad(-1, "it has no script")
		} else {
			script(operands[0])
		}
	}
	return findings
}

var (
	testUnary   = words("-e -f -d -r -w -x -s -h -L -z -n -b -c -p -S -u -g -k -O -G -t")
	testStrings = words("= == != -nt -ot -ef")
	testNumbers = words("-eq -ne -lt -le -gt -ge")
	integer     = expression(`^[-+]?[0-9]{1,18}$`)
)

// proveTest judges test and [ by the number of their words, as the standard does. -v and arithmetic on anything but
// numbers evaluate subscripts in some shells.
func proveTest(w []Word, d Dialect) []Finding {
	args := w[1:]
	if w[0].Value == "[" && len(args) > 0 && args[len(args)-1].Value == "]" {
		args = args[:len(args)-1]
	}
	for _, a := range args {
		if !a.Single {
			return []Finding{{-1, visible(a.Text) + " could become several words", true}}
		}
	}
	if len(args) > 1 && args[0].Value == "!" {
		args = args[1:]
	}
	number := func(w Word) bool {
		return w.Form == Literal && integer().MatchString(w.Value) || w.Form == Expansion && (d == Bash || d == POSIX)
	}
	switch {
	case len(args) <= 1:
		return nil
	case len(args) == 2 && args[0].Form == Literal && testUnary[args[0].Value]:
		return nil
	case len(args) == 3 && args[1].Form == Literal && testStrings[args[1].Value]:
		return nil
	case len(args) == 3 && args[1].Form == Literal && testNumbers[args[1].Value] && number(args[0]) && number(args[2]):
		return nil
	}
	return []Finding{{-1, "it is a test that is not judged", true}}
}

// bracket judges [[ … ]]: the same tests; arithmetic there evaluates its operands, so only numbers are proven.
func (w *walker) bracket(i int, x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.ParenTest:
		w.bracket(i, x.X)
	case *syntax.UnaryTest:
		if x.Op != syntax.TsNot && !testUnary[x.Op.String()] {
			w.at(i).find(Unknown, -1, true, x.Op.String()+" evaluates its operand")
		}
		w.bracket(i, x.X)
	case *syntax.BinaryTest:
		switch x.Op.String() {
		case "&&", "||", "=", "==", "!=", "=~", "-nt", "-ot", "-ef", "<", ">":
			w.bracket(i, x.X)
			w.bracket(i, x.Y)
		default:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				word, ok := side.(*syntax.Word)
				if !ok {
					w.at(i).find(Unknown, -1, true, "it is a test that is not judged")
				} else if v := w.word(word, i); v.Form != Literal || !integer().MatchString(v.Value) {
					w.at(i).find(Unknown, -1, true, visible(v.Text)+" is evaluated as arithmetic")
				}
			}
		}
	case *syntax.Word:
		w.carries(i, -1, w.word(x, i))
	default:
		w.at(i).find(Unknown, -1, true, "it is a test that is not judged")
		w.inner(i, x)
	}
}
