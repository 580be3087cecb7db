package egress

import (
	"context"
	"net"

	"github.com/hardshell-dev/hardshell/fault"
)

// Dialer returns a dial function for a client of our own that goes where somebody else tells it to. It keeps the rules
// of a box's connections: names and no addresses, every answer checked, and what was checked is what is dialled. It
// uses Pinned, Resolver, Dial and the limit on the dial time; a refused destination is a [fault.Forbidden].
func (o Options) Dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	o = o.filled()
	d := dialer{o.Resolver, o.Pinned, new(ownAddresses).hold, o.Limits.DialTime, o.Dial}
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		where, err := parseDest(address, 0)
		if err != nil {
			return nil, fault.Wrap(fault.Forbidden, err, "%s", printable(err.Error()))
		}
		conn, err := d.to(ctx, where)
		if err == nil {
			return conn, nil
		}
		r := refused(err, Unreachable, where.String()+" cannot be reached")
		kind := fault.Unavailable
		if r.verdict() == Blocked {
			kind = fault.Forbidden
		}
		return nil, fault.Wrap(kind, r.cause, "%s", r.text)
	}
}
