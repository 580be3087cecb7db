// Package compact makes room in a conversation that has grown too long for a model.
//
// It says how much a conversation weighs, shortens what commands printed, leaves the oldest parts out, writes the request
// for a summary, and seals the result so that a client can carry it. All but the sealing's key are pure functions: it asks
// no model, stores nothing and knows no response; package agent does. What holds: system and developer messages are never
// left out, nor is the last thing that the user said; a call and its output stay or go together, with the thinking that
// led to them; what the model is not shown any more it is told of.
package compact

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Strategies.
const (
	Truncate = "truncate" // outputs are shortened, then the oldest parts are left out
	Summary  = "llm"      // the model writes a summary of them
)

// Window is a conversation as the model is shown it: what is left of the items, and what stands in place of the rest.
type Window struct {
	Items   []openai.Item `json:"items"`
	At      int           `json:"at,omitempty"`      // before which of the items the note stands
	Summary string        `json:"summary,omitempty"` // of items that are left out
	Summed  int           `json:"summed,omitempty"`  // how many those are
	Left    int           `json:"left,omitempty"`    // items that are left out and in no summary
	Native  *Native       `json:"native,omitempty"`  // then the rest is empty
}

// Native is a compaction of a provider's own, which that provider alone can read.
type Native struct {
	Provider string `json:"provider"`
	Content  string `json:"content"`
}

// Note is what the model reads in place of what is left out; empty where nothing is.
func (w Window) Note() string {
	var b strings.Builder
	if w.Summary != "" {
		fmt.Fprintf(&b, "[The beginning of this conversation, %s, was left out to make room. This is a summary of it; it is an "+
			"account of what was said and done, not a new request.]\n\n%s\n\n[End of the summary.]", items(w.Summed), w.Summary)
	}
	if w.Left > 0 {
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "[Here %s of this conversation were left out to make room: earlier messages, commands and their output. "+
			"Files that they made are still there. If something that you need was among them, look at the files or ask.]", items(w.Left))
	}
	return b.String()
}

func items(n int) string {
	if n == 1 {
		return "1 item"
	}
	return fmt.Sprintf("%d items", n)
}

// Conversation is the window's items with the note where it stands. The note is a user's message and never a system's: a
// summary is made of what commands and web pages said.
func (w Window) Conversation() []openai.Item {
	note := w.Note()
	if note == "" {
		return w.Items
	}
	at := min(max(w.At, 0), len(w.Items))
	return slices.Insert(slices.Clone(w.Items), at, openai.UserText(note))
}

// Limits are what a conversation is to be brought under.
type Limits struct {
	Threshold int64   // tokens
	Keep      int     // how many of the latest items stay
	Fixed     int     // what stands beside the items, by its weight: instructions and tools
	Ratio     float64 // tokens for a unit of weight; 0 is [DefaultRatio]
	MaxOutput int     // bytes of a stream that the model reads at most; 0 is no limit
	Force     bool    // room is made also under the threshold
	// Omitted reads how many characters a view of a stream leaves out; nil reads none.
	Omitted func(view string) int64
}

// Tokens is how many tokens the model would count for a window, as far as can be known.
func (l Limits) Tokens(w Window) int64 {
	return l.tokens(l.Weight(w))
}

// Weight is what a window weighs with what stands beside it.
func (l Limits) Weight(w Window) int {
	total := l.Fixed
	if note := w.Note(); note != "" {
		total += len(note) + overhead
	}
	for _, i := range w.Items {
		total += Weigh(i, l.MaxOutput)
	}
	return total
}

func (l Limits) tokens(weight int) int64 {
	r := l.Ratio
	if r <= 0 {
		r = DefaultRatio
	}
	return int64(float64(weight) * r)
}

// Over says whether there is to be made room.
func (l Limits) Over(w Window) bool { return l.Force || l.Tokens(w) > l.Threshold }

// goal is how many tokens are aimed at: less than the threshold, so that not every turn makes room again.
func (l Limits) goal(now int64) int64 {
	goal := l.Threshold - l.Threshold/4
	if l.Force {
		goal = min(goal, now/2)
	}
	return goal
}

// levels are to how many characters a stream of the latest items is shortened, one after the other.
var levels = [...]int{2000, 500, 0}

// Shorten makes room without a model: old outputs of commands become stubs, then other outputs do, then the oldest calls
// go with their outputs, then the oldest messages, and if the latest items are too much by themselves their outputs are
// shortened. It stops as soon as there is room enough, and says whether it gained anything.
func (l Limits) Shorten(w Window) (Window, bool) {
	c := l.cut(w)
	for _, typ := range []string{openai.TypeShellCallOutput, ""} {
		c.shrink(0, c.split, typ, 0)
	}
	c.drop(func(u *unit) bool { return u.calls })
	c.drop(func(*unit) bool { return true })
	c.shrinkLatest()
	next := c.window()
	return next, c.gained(next) && !same(w, next)
}

// Fold parts a window for a summary: what goes into it, and the window that is left, to which [Limits.Folded] adds it. It
// says false where there is too little to sum up.
func (l Limits) Fold(w Window) (old []openai.Item, rest Window, ok bool) {
	c := l.cut(w)
	before := c.total
	for i := range c.items {
		if u := c.units[c.of[i]]; !u.kept && !u.gone {
			old = append(old, c.items[i])
		}
	}
	c.goal, c.fits = -1, false
	c.drop(func(*unit) bool { return true })
	rest = c.window()
	rest.Left = w.Left // these go into the summary
	return old, rest, l.tokens(before-c.total) >= max(l.Threshold/10, 1) || l.Force && len(old) > 0
}

// Folded is the window with its summary. More than a quarter of the threshold is no summary: it is cut.
func (l Limits) Folded(w, rest Window, summary string, folded int) (Window, bool) {
	r := l.Ratio
	if r <= 0 {
		r = DefaultRatio
	}
	rest.Summary = clip(strings.TrimSpace(summary), max(int(float64(l.Threshold)/4/r), 2000))
	rest.Summed += folded
	l.Force = false // what is left may stay if it fits
	c := l.cut(rest)
	c.before = l.Weight(w)
	c.shrinkLatest()
	next := c.window()
	return next, c.gained(next)
}

// clip keeps the first bytes of a text, whole characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " […]"
}

// cutting is a window while room is made in it.
type cutting struct {
	limits Limits
	from   Window
	items  []openai.Item
	weight []int
	of     []int // the unit of each item
	units  []*unit
	split  int // items from here on stay
	left   int // items that were left out
	total  int
	before int
	goal   int64
	fits   bool // it fitted before anything was done
}

func (l Limits) cut(w Window) *cutting {
	c := &cutting{limits: l, from: w, items: slices.Clone(w.Items), total: l.Weight(w)}
	c.before, c.goal = c.total, l.goal(l.tokens(c.total))
	c.fits = !l.Over(w)
	for _, i := range c.items {
		c.weight = append(c.weight, Weigh(i, l.MaxOutput))
	}
	c.of, c.units = group(c.items)
	c.split = max(len(c.items)-max(l.Keep, 0), 0)
	c.keep()
	return c
}

// keep marks what never goes.
func (c *cutting) keep() {
	said := false
	for i := len(c.items) - 1; i >= 0; i-- {
		u, item := c.units[c.of[i]], c.items[i]
		switch {
		case i >= c.split, item.Role == "system", item.Role == "developer", item.Type == openai.TypeCompaction:
			u.kept = true
		case item.Type == openai.TypeMessage && item.Role == "user" && !said:
			u.kept = true
		}
		said = said || item.Role == "user"
	}
}

// enough says whether there is room.
func (c *cutting) enough() bool { return c.fits || c.limits.tokens(c.total) <= c.goal }

// shrink shortens the outputs from one item to another, the oldest first; an empty typ is every one.
func (c *cutting) shrink(from, to int, typ string, chars int) {
	for i := from; i < to && !c.enough(); i++ {
		if c.units[c.of[i]].gone || typ != "" && c.items[i].Type != typ {
			continue
		}
		if small, ok := shrink(c.items[i], chars, c.limits.Omitted); ok {
			w := Weigh(small, c.limits.MaxOutput)
			c.total += w - c.weight[i]
			c.items[i], c.weight[i] = small, w
		}
	}
}

// shrinkLatest shortens the outputs of what stays.
func (c *cutting) shrinkLatest() {
	for _, chars := range levels {
		c.shrink(0, len(c.items), "", chars)
	}
}

// drop leaves the oldest units of a kind out.
func (c *cutting) drop(of func(*unit) bool) {
	for i := range c.items {
		u := c.units[c.of[i]]
		if c.enough() {
			return
		}
		if u.kept || u.gone || !of(u) {
			continue
		}
		u.gone = true
		for _, n := range u.items {
			c.total -= c.weight[n]
			c.left++
		}
	}
}

// window is what is left.
func (c *cutting) window() Window {
	w := c.from
	w.Items, w.At, w.Left = make([]openai.Item, 0, len(c.items)), -1, w.Left+c.left
	noted := c.from.Note() != ""
	for i, item := range c.items {
		gone := c.units[c.of[i]].gone
		if w.At < 0 && (gone || noted && i >= c.from.At) {
			w.At = len(w.Items)
		}
		if !gone {
			w.Items = append(w.Items, item)
		}
	}
	if w.At < 0 {
		w.At = min(c.from.At, len(w.Items))
	}
	return w
}

// gained says whether a window is worth it: it fits now, or it is a twentieth lighter.
func (c *cutting) gained(w Window) bool {
	now := c.limits.Weight(w)
	return now < c.before && (c.limits.tokens(now) <= c.limits.Threshold || c.before-now >= c.before/20)
}

func same(a, b Window) bool {
	return a.Note() == b.Note() && slices.EqualFunc(a.Items, b.Items, func(a, b openai.Item) bool { return bytes.Equal(a.Raw, b.Raw) })
}
