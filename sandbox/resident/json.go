package resident

// The resident writes two small JSON texts; encoding/json would cost its start more than these lines.

func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

func appendField(b []byte, name string, n int64) []byte {
	b = appendText(append(b, ','), name)
	return append(append(b, ':'), decimal(n)...)
}

func appendFlag(b []byte, name string, v bool) []byte {
	if !v {
		return b
	}
	return append(appendText(append(b, ','), name), ":true"...)
}

// appendJSON writes what encoding/json would read back as the same Exit.
func (e Exit) appendJSON(b []byte) []byte {
	b = append(append(b, `{"code":`...), decimal(int64(e.Code))...)
	if e.Signal != "" {
		b = appendText(append(b, `,"signal":`...), e.Signal)
	}
	b = appendFlag(b, "timed_out", e.TimedOut)
	b = appendFlag(b, "cancelled", e.Cancelled)
	b = appendFlag(b, "out_of_memory", e.OutOfMemory)
	b = appendField(b, "started", e.Started)
	b = appendField(b, "ended", e.Ended)
	b = appendField(b, "stdout", e.Stdout)
	b = appendField(b, "stderr", e.Stderr)
	if e.StdoutLost > 0 {
		b = appendField(b, "stdout_lost", e.StdoutLost)
	}
	if e.StderrLost > 0 {
		b = appendField(b, "stderr_lost", e.StderrLost)
	}
	b = appendField(b, "order", e.Order)
	if e.Error != "" {
		b = appendText(append(b, `,"error":`...), e.Error)
	}
	if e.Limit != "" {
		b = appendText(append(b, `,"limit":`...), e.Limit)
	}
	return append(b, "}\n"...)
}

// appendJSON writes the request for people to read. The environment's values may be secrets; only names are kept.
func (s *Start) appendJSON(b []byte) []byte {
	b = append(b, `{"argv":[`...)
	for i, a := range s.Argv {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, a)
	}
	b = append(b, ']')
	if s.Arg0 != "" {
		b = appendText(append(b, `,"arg0":`...), s.Arg0)
	}
	b = appendText(append(b, `,"dir":`...), s.Dir)
	b = append(b, `,"env":[`...)
	for i, e := range s.Env {
		if i > 0 {
			b = append(b, ',')
		}
		for k := range len(e) {
			if e[k] == '=' {
				e = e[:k]
				break
			}
		}
		b = appendText(b, e)
	}
	b = append(b, ']')
	b = appendField(b, "timeout_ms", s.Timeout.Milliseconds())
	if s.Rows > 0 {
		b = appendField(b, "rows", int64(s.Rows))
		b = appendField(b, "cols", int64(s.Cols))
	}
	return append(b, "}\n"...)
}

func decimal(n int64) string {
	var b [20]byte
	i := len(b)
	u := uint64(n)
	if n < 0 {
		u = -u
	}
	for {
		i--
		b[i] = byte('0' + u%10)
		if u /= 10; u == 0 {
			break
		}
	}
	if n < 0 {
		i--
		b[i] = '-'
	}
	return string(b[i:])
}
