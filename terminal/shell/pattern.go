package shell

import (
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

// matchAny says whether one of the patterns fits the name.
func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if Match(p, name) {
			return true
		}
	}
	return false
}
