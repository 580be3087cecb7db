package sandbox

import (
	"context"
)

func Probe(ctx context.Context) []Layer   { return nil }
func Supported(ctx context.Context) error { return nil }
