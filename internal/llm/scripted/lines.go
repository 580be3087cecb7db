package scripted

import (
	"fmt"
	"strings"
)

// maxEcho bounds what is quoted of a message that holds no commands, in bytes.
const maxEcho = 400

// step is one call that the user's lines ask for.
type step struct {
	commands []string
	ifFailed bool // only if the last call made failed
}

// plan reads the user's lines.
func plan(user string) []step {
	var steps []step
	for line := range strings.Lines(user) {
		line = strings.TrimRight(line, "\r\n")
		if cmd, ok := strings.CutPrefix(line, "$$ "); ok && len(steps) > 0 {
			last := &steps[len(steps)-1]
			last.commands = append(last.commands, cmd)
		} else if cmd, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, step{commands: []string{cmd}})
		} else if cmd, ok := strings.CutPrefix(line, "? "); ok {
			steps = append(steps, step{commands: []string{cmd}, ifFailed: true})
		}
	}
	return steps
}

// follow decides the turn by the user's lines.
func follow(c conversation, t *tool) turn {
	steps := plan(c.user)
	if len(steps) == 0 && len(c.calls) == 0 {
		return turn{text: label + "I have no mind; I follow lines that begin with `$ `, and there are none. You wrote: " + echo(c.user)}
	}
	next, skipped := c.next(steps)
	switch {
	case next == nil:
		return turn{text: quote(c.calls, skipped)}
	case t == nil && len(c.calls) > 0:
		return turn{text: quote(c.calls, skipped) + "\nI may run nothing more now; I would run: " + strings.Join(next.commands, "; ") + "\n"}
	case t == nil:
		return turn{text: label + "no shell was given to me. I would run:\n\n" + asCode(steps)}
	}
	return turn{calls: []call{{name: t.name, arguments: t.arguments(next.commands)}}}
}

// next is the first step that has not been made, nil when all are done. Each call of the past is one step, in order.
func (c conversation) next(steps []step) (next *step, skipped []string) {
	done := 0
	for i := range steps {
		s := &steps[i]
		if s.ifFailed && (done == 0 || !c.calls[done-1].failed()) {
			skipped = append(skipped, strings.Join(s.commands, "; "))
			continue
		}
		if done == len(c.calls) {
			return s, skipped
		}
		done++
	}
	return nil, skipped
}

// quote tells what the calls printed.
func quote(calls []made, skipped []string) string {
	var b strings.Builder
	commands := 0
	for _, m := range calls {
		commands += max(1, len(m.results))
	}
	fmt.Fprintf(&b, "%sthat was %s in %s.\n", label, count(commands, "command"), count(len(calls), "call"))
	for _, m := range calls {
		if len(m.results) == 0 {
			fmt.Fprintf(&b, "\n%s %s\n(no answer)\n", m.name, m.arguments)
		}
		for _, r := range m.results {
			b.WriteByte('\n')
			if r.command != "" {
				fmt.Fprintf(&b, "$ %s\n", r.command)
			}
			quoteStream(&b, "", r.stdout)
			quoteStream(&b, "stderr: ", r.stderr)
			if r.ending != "" {
				fmt.Fprintf(&b, "[%s]\n", r.ending)
			}
			quoteStream(&b, "note: ", r.note)
		}
	}
	for _, s := range skipped {
		fmt.Fprintf(&b, "\nNot run, as nothing failed before it: %s\n", s)
	}
	return b.String()
}

func quoteStream(b *strings.Builder, prefix, s string) {
	if s = strings.TrimRight(s, "\n"); s != "" {
		b.WriteString(prefix)
		b.WriteString(s)
		b.WriteByte('\n')
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func asCode(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		for _, cmd := range s.commands {
			b.WriteString("$ " + cmd + "\n")
		}
	}
	return b.String()
}

// echo quotes the start of what the user wrote.
func echo(s string) string {
	limit := int64(maxEcho / bytesPerToken)
	text, cut := bound(strings.TrimSpace(s), &limit)
	if cut {
		return text + "…"
	}
	return text
}
