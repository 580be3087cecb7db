package terminal

import "strings"

// plain is what a terminal would finally show of an output.
func plain(raw string) string { return strings.ToValidUTF8(raw, "\uFFFD") }
