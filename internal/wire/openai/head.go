package openai

// head is what every item is known by.
type head struct {
	typ, id, callID, role, status string
}

// readHead reads the head of an item off valid JSON, in one pass and without reflection. It says false where the
// standard decoder has to look: what is no object, a key or one of these values with escapes or of another kind, a key
// that differs from one of these in case only.
func readHead(data []byte) (h head, ok bool) {
	c := cursor{data: data}
	if c.next() != '{' {
		return h, false
	}
	if c.next() == '}' {
		return h, true
	}
	c.at--
	for {
		key, plain := c.text()
		if !plain || c.next() != ':' {
			return h, false
		}
		var to *string
		switch string(key) {
		case "type":
			to = &h.typ
		case "id":
			to = &h.id
		case "call_id":
			to = &h.callID
		case "role":
			to = &h.role
		case "status":
			to = &h.status
		default:
			if alike(key) {
				return h, false
			}
		}
		if to == nil {
			c.skip()
		} else {
			value, plain := c.text()
			if !plain {
				return h, false
			}
			*to = known(value)
		}
		switch c.next() {
		case ',':
		case '}':
			return h, c.next() == 0
		default:
			return h, false
		}
	}
}

// known is the value as text; the few that nearly every item has cost no memory.
func known(value []byte) string {
	switch string(value) {
	case TypeMessage:
		return TypeMessage
	case Completed:
		return Completed
	case InProgress:
		return InProgress
	case "user":
		return "user"
	case "assistant":
		return "assistant"
	}
	return string(value)
}

// alike says whether the standard decoder could take a key for one of the head's: it does not mind the case.
func alike(key []byte) bool {
	switch len(key) {
	case len("id"), len("type"), len("status"), len("call_id"): // and role is as long as type
	default:
		return false
	}
	for _, c := range key {
		if 'A' <= c && c <= 'Z' {
			return true
		}
	}
	return false
}

// cursor walks over valid JSON. On what is not it ends somewhere, without a panic.
type cursor struct {
	data []byte
	at   int
}

// next takes the next byte that is not white space; 0 at the end.
func (c *cursor) next() byte {
	for c.at < len(c.data) {
		b := c.data[c.at]
		c.at++
		switch b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// text takes a string without escapes, control characters and bytes beyond ASCII, which need a decoder.
func (c *cursor) text() (s []byte, plain bool) {
	if c.next() != '"' {
		return nil, false
	}
	for i := c.at; i < len(c.data); i++ {
		switch b := c.data[i]; {
		case b == '"':
			s, c.at = c.data[c.at:i], i+1
			return s, true
		case b == '\\' || b < 0x20 || b >= 0x80:
			return nil, false
		}
	}
	return nil, false
}

// skip passes over one value.
func (c *cursor) skip() {
	depth := 0
	for {
		switch c.next() {
		case 0:
			return
		case '"':
			c.skipText()
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':':
			continue
		default: // a number or a word
			for c.at < len(c.data) && !ends(c.data[c.at]) {
				c.at++
			}
		}
		if depth <= 0 {
			return
		}
	}
}

func (c *cursor) skipText() {
	for c.at < len(c.data) {
		switch c.data[c.at] {
		case '"':
			c.at++
			return
		case '\\':
			c.at++
		}
		c.at++
	}
}

func ends(b byte) bool {
	switch b {
	case ',', '}', ']', ':', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}
