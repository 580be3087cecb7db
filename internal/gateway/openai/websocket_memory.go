package openai

import (
	"slices"

	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// maxTurns is how many responses a connection keeps: the one that a client goes on from, and some that it may return to.
const maxTurns = 8

// memory is what a connection keeps of responses that are not stored, so that the next one can go on from them. It is gone
// with the connection. The oldest give way to new ones, so that all of them together are no larger than a request may be.
type memory struct {
	most  int64 // bytes
	turns []remembered
}

// remembered is a response with everything before it.
type remembered struct {
	id      string
	carried *wire.Carried
	bytes   int64
}

// find is what is known of a response; nil is nothing.
func (m *memory) find(id string) *wire.Carried {
	at := m.at(id)
	if at < 0 {
		return nil
	}
	return m.turns[at].carried
}

func (m *memory) at(id string) int {
	return slices.IndexFunc(m.turns, func(r remembered) bool { return r.id == id })
}

func (m *memory) forget(id string) {
	if at := m.at(id); at >= 0 {
		m.turns = slices.Delete(m.turns, at, at+1)
	}
}

// keep remembers a response that has ended, with what it went on from and what it was asked.
func (m *memory) keep(end *wire.Response, before *wire.Carried, input []wire.Item) {
	now := remembered{id: end.ID, carried: &wire.Carried{ContainerID: end.ContainerID}}
	if before != nil {
		now.carried.Items = slices.Clone(before.Items)
		if end.ContainerID == "" {
			now.carried.ContainerID = before.ContainerID
		}
	}
	now.carried.Items = append(append(now.carried.Items, input...), end.Output...)
	for _, i := range now.carried.Items {
		now.bytes += int64(len(i.Raw))
	}
	m.turns = append(m.turns, now)
	total := int64(0)
	for at := len(m.turns) - 1; at >= 0; at-- {
		if total += m.turns[at].bytes; total > m.most || len(m.turns)-at > maxTurns {
			m.turns = slices.Delete(m.turns, 0, at+1)
			return
		}
	}
}
