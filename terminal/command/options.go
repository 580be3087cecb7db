package command

import (
	"strings"
)

// program is what is proven of a program: the options that keep it read-only, exactly as they are spelt. An option
// that is not here, and a long option that is cut short, proves nothing.
type program struct {
	short   string // one-letter options without a value; they may cluster
	value   string // one-letter options with a value, attached or in the next word
	maybe   string // one-letter options with an optional value, only ever attached
	long    string // "all width= color?": no value, a value (attached or next), an optional value (attached)
	number  bool   // -5 is an option
	single  bool   // long options have one dash (find, java); short clusters are not read
	inert   bool   // no operand and no option of it, whatever its value, writes or runs anything
	most    int    // at most so many operands; 0 = any, -1 = none
	operand func(string) string
}

// args reads a program's words, the program first, and reports what is not proven about each.
func (d *program) args(words []Word) (findings []Finding, operands []int) {
	bad := func(i int, why string) { findings = append(findings, Finding{Word: i, Why: why, Hard: true}) }
	ended := false
	for i := 1; i < len(words); i++ {
		word := words[i]
		if word.Form != Literal && !ended && !plainOperand(word) {
			if !d.inert && word.Form != Code { // Code is a finding already
				bad(i, visible(word.Text)+" could become an option")
			}
			operands = append(operands, i)
			continue
		}
		text := word.Prefix
		switch {
		case ended || word.Form != Literal || text == "-" || !strings.HasPrefix(text, "-"):
			operands = append(operands, i)
		case text == "--":
			ended = true
		case d.number && numeric().MatchString(text):
		case strings.HasPrefix(text, "--") || d.single:
			next, ok := d.longOption(text, words, i)
			if !ok {
				bad(i, visible(text)+" is not known to be read-only")
			}
			i = next
		default:
			next, ok := d.cluster(text, words, i)
			if !ok {
				bad(i, visible(text)+" is not known to be read-only")
			}
			i = next
		}
	}
	if d.most < 0 && len(operands) > 0 || d.most > 0 && len(operands) > d.most {
		at := operands[max(0, d.most)]
		bad(at, visible(words[at].Text)+" is one operand too many to be read-only")
	}
	for _, at := range operands {
		word := words[at]
		if d.most > 0 && !(word.Form == Literal || word.Single) {
			bad(at, visible(word.Text)+" could become several operands")
		}
		if word.Form == Literal && device(word.Value) && !strings.HasPrefix(word.Value, "/dev/fd") {
			bad(at, visible(word.Value)+" is a device")
		}
		if d.operand != nil {
			why := "its value is not known"
			if word.Form == Literal {
				why = d.operand(word.Value)
			}
			if why != "" {
				bad(at, visible(word.Text)+": "+why)
			}
		}
	}
	return findings, operands
}

var (
	numeric     = expression(`^-[0-9]+$`)
	optionValue = expression(`^([^-].*|[-+]?[0-9]+[A-Za-z]*|-)?$`)
)

// plainOperand reports words whose value is not known but can never begin with a dash: src/*.go, ./*, ~/x, "a/$b".
func plainOperand(w Word) bool {
	if w.Prefix == "" || w.Prefix[0] == '-' {
		return false
	}
	return w.Form == Pattern || w.Form == Expansion && w.Single
}

// takes reports whether the word after i can be an option's value, without doubt about who reads it.
func takes(words []Word, i int) bool {
	if i+1 >= len(words) {
		return false
	}
	next := words[i+1]
	if next.Form != Literal {
		return plainOperand(next) && next.Single
	}
	return optionValue().MatchString(strings.ReplaceAll(next.Value, "\n", " "))
}

func (d *program) longOption(text string, words []Word, i int) (int, bool) {
	name, _, attached := strings.Cut(strings.TrimLeft(text, "-"), "=")
	for option := range strings.FieldsSeq(d.long) {
		bare := strings.TrimRight(option, "=?")
		if bare != name {
			continue
		}
		switch {
		case strings.HasSuffix(option, "?"):
			return i, true
		case strings.HasSuffix(option, "="):
			if attached {
				return i, true
			}
			return i + 1, takes(words, i)
		default:
			return i, !attached
		}
	}
	return i, false
}

func (d *program) cluster(text string, words []Word, i int) (int, bool) {
	for n := 1; n < len(text); n++ {
		c := text[n]
		switch {
		case strings.IndexByte(d.short, c) >= 0:
		case strings.IndexByte(d.maybe, c) >= 0:
			return i, true
		case strings.IndexByte(d.value, c) >= 0:
			if n+1 < len(text) {
				return i, true
			}
			return i + 1, takes(words, i)
		default:
			return i, false
		}
	}
	return i, true
}
