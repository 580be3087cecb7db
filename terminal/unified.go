package terminal

import (
	"fmt"
	"strings"
)

// maxEdits bounds the search for the shortest edit. Files that differ by more are shown as replaced between their common
// ends.
const maxEdits = 1000

// context is how many unchanged lines stand around a change.
const diffContext = 3

// edit is one line of a comparison.
type edit struct {
	op   byte // ' ', '-' or '+'
	line string
}

// unified compares lines and returns the hunks of a patch; empty when there is no difference.
func unified(old, new []string) string {
	edits := compare(old, new)
	var b strings.Builder
	oldAt, newAt := 0, 0
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' {
			i, oldAt, newAt = i+1, oldAt+1, newAt+1
			continue
		}
		from := max(0, i-diffContext)
		to, quiet := i, 0
		for to < len(edits) && quiet <= 2*diffContext {
			if edits[to].op == ' ' {
				quiet++
			} else {
				quiet = 0
			}
			to++
		}
		to -= max(0, quiet-diffContext)
		lead := i - from
		oldN, newN := 0, 0
		for _, e := range edits[from:to] {
			if e.op != '+' {
				oldN++
			}
			if e.op != '-' {
				newN++
			}
		}
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", span(oldAt-lead, oldN), span(newAt-lead, newN))
		for _, e := range edits[from:to] {
			b.WriteByte(e.op)
			b.WriteString(e.line)
			if !strings.HasSuffix(e.line, "\n") {
				b.WriteString("\n\\ No newline at end of file\n")
			}
		}
		oldAt, newAt, i = oldAt-lead+oldN, newAt-lead+newN, to
	}
	return b.String()
}

func span(at, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", at)
	case 1:
		return fmt.Sprintf("%d", at+1)
	}
	return fmt.Sprintf("%d,%d", at+1, n)
}

// compare finds the shortest edit from old to new (Myers), or replaces all between the common ends if that is long.
func compare(old, new []string) (out []edit) {
	head := 0
	for head < len(old) && head < len(new) && old[head] == new[head] {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(new)-head && old[len(old)-1-tail] == new[len(new)-1-tail] {
		tail++
	}
	for _, line := range old[:head] {
		out = append(out, edit{' ', line})
	}
	a, b := old[head:len(old)-tail], new[head:len(new)-tail]
	out = append(out, shortest(a, b)...)
	for _, line := range old[len(old)-tail:] {
		out = append(out, edit{' ', line})
	}
	return out
}

func shortest(a, b []string) (out []edit) {
	limit := min(len(a)+len(b), maxEdits)
	reach := make([]int, 2*limit+2) // reach[limit+k]: how far in a the path on diagonal k has come
	var trace [][]int
	for d := 0; d <= limit; d++ {
		trace = append(trace, append([]int(nil), reach...))
		for k := -d; k <= d; k += 2 {
			var x int
			if k == -d || k != d && reach[limit+k-1] < reach[limit+k+1] {
				x = reach[limit+k+1]
			} else {
				x = reach[limit+k-1] + 1
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			reach[limit+k] = x
			if x >= len(a) && y >= len(b) {
				return walkBack(a, b, trace, limit, d)
			}
		}
	}
	for _, line := range a {
		out = append(out, edit{'-', line})
	}
	for _, line := range b {
		out = append(out, edit{'+', line})
	}
	return out
}

// walkBack reads the edit off the trace, from its end.
func walkBack(a, b []string, trace [][]int, limit, d int) []edit {
	var back []edit
	x, y := len(a), len(b)
	for ; d > 0; d-- {
		reach, k := trace[d], x-y
		down := k == -d || k != d && reach[limit+k-1] < reach[limit+k+1]
		before := k - 1
		if down {
			before = k + 1
		}
		px := reach[limit+before]
		py := px - before
		for x > px && y > py && (down && y > py+1 || !down && x > px+1) {
			x, y = x-1, y-1
			back = append(back, edit{' ', a[x]})
		}
		if down {
			y--
			back = append(back, edit{'+', b[y]})
		} else {
			x--
			back = append(back, edit{'-', a[x]})
		}
	}
	for x > 0 && y > 0 {
		x, y = x-1, y-1
		back = append(back, edit{' ', a[x]})
	}
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	return back
}
