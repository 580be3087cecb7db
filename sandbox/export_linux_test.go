package sandbox

import "context"

// OpenRung makes a box of a rung, as if none above it could be had.
func OpenRung(ctx context.Context, spec Spec, rung Rung) (*Box, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	return open(ctx, &spec, rung)
}

// Remembering is how Supported remembers.
func Remembering(try func() error) func(context.Context) error { return (&success{try: try}).ask }
