package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Match says whether an environment variable's name fits a wildcard pattern: "*" is any run of characters, "?" any one,
// everything else itself. Case does not matter.
func Match(pattern, name string) bool {
	// Greedy with one point of return: after a mismatch the last star takes one character more. Earlier stars need no
	// second chance, so the work is bounded by the product of the lengths, whatever the pattern.
	p, n := 0, 0
	star, resume := -1, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			star, resume = p, n
			p++
			continue
		}
		c, width := letter(name[n:])
		if p < len(pattern) {
			want, wide := letter(pattern[p:])
			if want == '?' || want == c {
				p, n = p+wide, n+width
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, width = letter(name[resume:])
		resume += width
		p, n = star+1, resume
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// letter is the first character of s with its case taken off, and its width in bytes. A byte that is no UTF-8 is a
// character of its own, equal to itself only.
func letter(s string) (rune, int) {
	if c := s[0]; c < utf8.RuneSelf {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return rune(c), 1
	}
	r, width := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && width == 1 {
		return unicode.MaxRune + 1 + rune(s[0]), 1
	}
	return unicode.ToLower(unicode.ToUpper(r)), width
}

// patterns is a list of patterns made ready to be asked about many names: most are a plain name or a name with stars at
// its ends, and an environment is filtered for every command.
type patterns struct {
	exact    map[string]bool // folded names
	contains []string        // folded; "*X*"
	others   []string        // as written
}

func compile(list []string) patterns {
	p := patterns{exact: make(map[string]bool, len(list))}
	for _, one := range list {
		folded, ascii := fold(one)
		inner, _ := strings.CutPrefix(folded, "*")
		inner, _ = strings.CutSuffix(inner, "*")
		switch {
		case !ascii || strings.ContainsAny(inner, "*?"):
			p.others = append(p.others, one)
		case inner == folded:
			p.exact[folded] = true
		case len(folded) == len(inner)+2:
			p.contains = append(p.contains, inner)
		default:
			p.others = append(p.others, one)
		}
	}
	return p
}

// match says whether one of the patterns fits the name, as [Match] would.
func (p patterns) match(name string) bool {
	folded, ascii := fold(name)
	if ascii {
		if p.exact[folded] {
			return true
		}
		for _, inner := range p.contains {
			if strings.Contains(folded, inner) {
				return true
			}
		}
	} else {
		for one := range p.exact {
			if Match(one, name) {
				return true
			}
		}
		for _, inner := range p.contains {
			if Match("*"+inner+"*", name) {
				return true
			}
		}
	}
	for _, one := range p.others {
		if Match(one, name) {
			return true
		}
	}
	return false
}

// fold takes the case off a string of ASCII. Others are left to Match.
func fold(s string) (folded string, ascii bool) {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return s, false
		}
	}
	return strings.ToUpper(s), true // most names are: no copy
}
