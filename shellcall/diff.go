package shellcall

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// A diff of apply_patch is V4A without its headers: hunks that are found by what stands around a change, not by numbers of
// lines. "@@" alone begins a hunk; "@@ text" looks for the line text first and begins after it; then each line begins with
// a blank (it is there), "-" (it goes) or "+" (it comes); "*** End of File" says that the hunk stands at the file's end.

// hunk is one group of neighbouring lines of a diff.
type hunk struct {
	anchors []string // lines to find first, each after the one before
	old     []string // what is there: context and what goes
	body    []string // all lines, each behind its blank, - or +
	added   int
	removed int
	end     bool // it stands at the end of the file
	open    bool // nothing ends its last line
	line    int  // of the diff, from 1
}

const (
	endOfFile  = "*** End of File"
	endOfPatch = "*** End Patch"
	noNewline  = `\ No newline at end of file`
)

// parseDiff reads the diff of an update.
func parseDiff(diff string) (hunks []hunk, err error) {
	var h *hunk
	body := false // h has lines
	begin := func(at int) {
		hunks = append(hunks, hunk{line: at})
		h, body = &hunks[len(hunks)-1], false
	}
	lines := diffLines(diff)
	for i, text := range lines {
		switch {
		case text == endOfPatch:
			if i != len(lines)-1 {
				return nil, badDiff(i, "there are lines behind *** End Patch")
			}
		case text == endOfFile:
			if h == nil || !body {
				return nil, badDiff(i, "*** End of File ends no hunk")
			}
			h.end = true
		case text == "@@" || strings.HasPrefix(text, "@@ "):
			if h == nil || body {
				begin(i + 1)
			}
			if anchor := strings.TrimPrefix(strings.TrimPrefix(text, "@@"), " "); strings.TrimSpace(anchor) != "" && !numbers(anchor) {
				h.anchors = append(h.anchors, anchor)
			}
		case text == noNewline:
			if h != nil && body {
				h.open = true // until another line follows
			}
		case strings.HasPrefix(text, "***"):
			return nil, badDiff(i, "a diff is for one file, and has no line %q", text)
		default:
			if h == nil {
				begin(i + 1)
			}
			if h.end {
				return nil, badDiff(i, "there are lines behind *** End of File; another hunk begins with @@")
			}
			body = true
			if text == "" { // models drop the blank of an empty line
				text = " "
			}
			switch text[0] {
			case ' ':
				h.old = append(h.old, text[1:])
			case '-':
				h.old, h.removed = append(h.old, text[1:]), h.removed+1
			case '+':
				h.added++
			default:
				return nil, badDiff(i, "a line begins with a blank, -, + or @@, and this one is %s", quoted([]string{text}))
			}
			h.body, h.open = append(h.body, text), false
		}
	}
	if h != nil && !body {
		return nil, badDiff(len(lines)-1, "the last hunk is empty")
	}
	if len(hunks) == 0 {
		return nil, fault.New(fault.Invalid, "the diff is empty")
	}
	return hunks, nil
}

// numbers says whether an anchor is the line numbers of a unified diff, "-1,3 +1,4 @@", which say nothing here.
func numbers(anchor string) bool {
	fields := strings.Fields(anchor)
	return len(fields) >= 3 && fields[2] == "@@" && strings.HasPrefix(fields[0], "-") && strings.HasPrefix(fields[1], "+") &&
		strings.Trim(fields[0], "-,0123456789") == "" && strings.Trim(fields[1], "+,0123456789") == ""
}

// parseCreate reads the diff of a new file: each of its lines, behind a "+".
func parseCreate(diff string) (text string, lines int, err error) {
	var b strings.Builder
	all := diffLines(diff)
	for i, line := range all {
		if line == endOfPatch && i == len(all)-1 {
			break
		}
		if !strings.HasPrefix(line, "+") {
			return "", 0, badDiff(i, "in a new file's diff every line begins with +")
		}
		b.WriteString(line[1:])
		b.WriteByte('\n')
		lines++
	}
	return b.String(), lines, nil
}

// diffLines are the lines of a diff, without their ends.
func diffLines(diff string) []string {
	lines := strings.Split(strings.ReplaceAll(diff, "\r\n", "\n"), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func badDiff(at int, format string, args ...any) error {
	return fault.New(fault.Invalid, "line %d of the diff: %s", at+1, fmt.Sprintf(format, args...))
}

// apply makes a file's new text. Lines keep the end that the file's lines have, and so does the file.
func apply(text string, hunks []hunk) (string, error) {
	newline := "\n"
	if strings.Contains(text, "\r\n") && strings.Count(text, "\r\n") == strings.Count(text, "\n") {
		newline = "\r\n"
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	closed := text == "" || strings.HasSuffix(text, "\n")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		lines = nil
	}
	var out []string
	at := 0 // lines before it are done
	for _, h := range hunks {
		from := at
		for _, anchor := range h.anchors {
			if found := find(lines, []string{anchor}, from, false); found >= 0 {
				from = found + 1
			} else if len(h.old) == 0 { // nothing else says where
				return "", fault.New(fault.Conflict, "the hunk at line %d of the diff: there is no line %q behind line %d of the file", h.line, anchor, from)
			}
		}
		start := find(lines, h.old, from, h.end)
		if start < 0 && from > at { // the anchor may stand within the context
			start = find(lines, h.old, at, h.end)
		}
		if len(h.old)+len(h.anchors) == 0 { // nothing says where
			start = len(lines)
		}
		if start < 0 {
			return "", fault.New(fault.Conflict, "the hunk at line %d of the diff: its lines are not in the file behind line %d: %s", h.line, at, quoted(h.old)).
				WithTry("read the file again; the lines that stay and go must stand there as the diff has them")
		}
		out = append(out, lines[at:start]...)
		out = append(out, h.lay(lines[start:start+len(h.old)])...)
		at = start + len(h.old)
	}
	out = append(out, lines[at:]...)
	if len(out) == 0 {
		return "", nil
	}
	last := hunks[len(hunks)-1]
	if at == len(lines) && !strings.HasPrefix(last.body[len(last.body)-1], " ") { // the last line is another one now
		closed = !last.open || out[len(out)-1] == ""
	}
	result := strings.Join(out, newline)
	if closed {
		result += newline
	}
	return result, nil
}

// lay is what stands there after the hunk. Lines that stay are the file's own, also where the diff spells their blanks
// differently.
func (h hunk) lay(there []string) (out []string) {
	for _, line := range h.body {
		switch line[0] {
		case ' ':
			out, there = append(out, there[0]), there[1:]
		case '-':
			there = there[1:]
		default:
			out = append(out, line[1:])
		}
	}
	return out
}

// find returns where lines stand in a file from a line on: exactly, else but for blanks at their ends, else but for blanks
// on both sides. At the file's end they are sought there first.
func find(file, lines []string, from int, end bool) int {
	if len(lines) == 0 {
		if end {
			return len(file)
		}
		return from
	}
	for _, same := range []func(a, b string) bool{
		func(a, b string) bool { return a == b },
		func(a, b string) bool { return strings.TrimRight(a, " \t\r") == strings.TrimRight(b, " \t\r") },
		func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) },
	} {
		if last := len(file) - len(lines); end && last >= from && slices.EqualFunc(file[last:], lines, same) {
			return last
		}
		for at := from; at+len(lines) <= len(file); at++ {
			if slices.EqualFunc(file[at:at+len(lines)], lines, same) {
				return at
			}
		}
	}
	return -1
}

// quoted shows the beginning of what was sought.
func quoted(lines []string) string {
	const most = 3
	var b strings.Builder
	for i, line := range lines[:min(len(lines), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		if len(line) > 80 {
			line = strings.ToValidUTF8(line[:80], "") + "…"
		}
		fmt.Fprintf(&b, "%q", line)
	}
	if len(lines) > most {
		fmt.Fprintf(&b, " and %d more", len(lines)-most)
	}
	return b.String()
}
