package llm

import (
	"context"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Hosted has the calls of Request.Shell run by the upstream itself, in a container of its own. The calls and their outputs
// then are items of the turn, as of any other tool that the upstream runs, and are told while they run.
type Hosted struct {
	Container string // the upstream's id of the container; empty: it makes one
	Own       string // our id of it
	Limit     *int64 // the most calls of the upstream's tools; nil: any number
	Names     Names
}

// Names gives what an upstream has made an id of ours: none of its own leaves its provider. An error ends the turn.
type Names interface {
	Container(ctx context.Context, theirs string) (ours string, err error)
	File(ctx context.Context, container, theirs string) (ours string, err error)
}

// A Host is a provider whose upstream may run a shell of its own: its Stream takes Request.Hosted. One that was asked so
// is not asked again once it may have begun.
type Host interface {
	HostsShell() bool
}

// Hosts are the routes among those that r stands for whose upstream runs a shell of its own, in their order.
func (r Route) Hosts() []Route {
	routes, ok := r.Provider.(fallbacks)
	if !ok {
		routes = fallbacks{r}
	}
	var hosts []Route
	for _, one := range routes {
		if h, ok := one.Provider.(Host); ok && h.HostsShell() {
			hosts = append(hosts, one)
		}
	}
	return hosts
}

// Live is an item of a tool that the upstream is running. It is open until End.
type Live struct {
	turn  *Turn
	index int
}

// Live opens an item that the upstream runs and tells about. Its ids are ours.
func (t *Turn) Live(item openai.Item) *Live {
	t.Flush(false)
	t.endItem(openai.Completed)
	l := &Live{turn: t, index: t.next}
	t.next++
	t.emit(openai.NewItemEvent(openai.EventItemAdded, l.index, item))
	return l
}

// Index is the item's place in the turn, for the events that are said of it.
func (l *Live) Index() int { return l.index }

// Say says an event of the item's.
func (l *Live) Say(ev openai.Event) bool { return l.turn.emit(ev) }

// End closes the item.
func (l *Live) End(item openai.Item) bool {
	return l.turn.emit(openai.NewItemEvent(openai.EventItemDone, l.index, item))
}
