// Package sse reads and writes server-sent events: frames of "event:", "data:" and "id:" lines with a blank line
// behind them.
//
// It knows nothing of what the data means, keeps no connection and retries nothing. What holds: a [Reader] takes its
// bytes in any split, with LF, CR or CRLF; it allocates nothing per frame; a frame beyond the stated limit is an
// error and never a silent cut.
package sse

import "bytes"

// AppendFrame appends one frame to b. Data that holds line ends becomes several data lines, so that a reader gets
// it back whole (CR and CRLF inside data come back as LF). An empty name writes no event line.
func AppendFrame(b []byte, name string, data []byte) []byte {
	if name != "" {
		b = append(b, "event: "...)
		b = append(b, name...)
		b = append(b, '\n')
	}
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 { // JSON as we write it
		b = append(b, "data: "...)
		b = append(b, data...)
		return append(b, "\n\n"...)
	}
	return append(appendLines(b, "data: ", data), '\n')
}

// AppendComment appends a comment frame, which clients ignore and proxies take as a sign of life.
func AppendComment(b []byte, text string) []byte {
	return append(appendLines(b, ": ", text), '\n')
}

// appendLines writes text as one or more lines that begin with prefix.
func appendLines[T string | []byte](b []byte, prefix string, text T) []byte {
	b = append(b, prefix...)
	start := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\n' && c != '\r' {
			continue
		}
		b = append(b, text[start:i]...)
		b = append(b, '\n')
		b = append(b, prefix...)
		if c == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
		}
		start = i + 1
	}
	b = append(b, text[start:]...)
	return append(b, '\n')
}
