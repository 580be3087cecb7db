package session

import "bytes"

// leastSecret is the length from which a password is masked where it is printed. A shorter one would mask half of every
// text.
const leastSecret = 4

const mask = "•••"

// masker takes passwords that a person gave out of output. It holds back the end of a stream as long as that may be the
// start of one.
type masker struct {
	secrets [][]byte
	held    [3][]byte
	shown   [3]int // of held, what reveal has given
}

func (m *masker) add(secret []byte) {
	if len(secret) >= leastSecret {
		m.secrets = append(m.secrets, bytes.Clone(secret))
	}
}

// wipe forgets the passwords.
func (m *masker) wipe() {
	for _, secret := range m.secrets {
		clear(secret)
	}
	m.secrets = nil
}

// take returns what may be told after the next bytes of a stream, and what of it reveal has not shown yet.
func (m *masker) take(stream int, p []byte) (told, fresh []byte) {
	if len(m.secrets) == 0 {
		return p, p
	}
	text, shown, i := append(m.held[stream], p...), m.shown[stream], 0
	for i < len(text) {
		n, begun := m.at(text[i:])
		if begun {
			break
		}
		part := text[i : i+max(n, 1)]
		if n > 0 {
			part = []byte(mask)
		}
		told = append(told, part...)
		if i += max(n, 1); i > shown {
			fresh = append(fresh, part...)
		}
	}
	m.held[stream], m.shown[stream] = bytes.Clone(text[i:]), max(shown-i, 0)
	return told, fresh
}

// at says how long the password is that text begins with, or that it may be the start of one.
func (m *masker) at(text []byte) (n int, begun bool) {
	for _, secret := range m.secrets {
		if bytes.HasPrefix(text, secret) {
			n = max(n, len(secret))
		}
		begun = begun || len(text) < len(secret) && bytes.HasPrefix(secret, text)
	}
	return n, n == 0 && begun
}

// reveal returns of what is held back so little that it is no secret: a prompt is not to lack its last character.
func (m *masker) reveal(stream int) []byte {
	held, from := m.held[stream], m.shown[stream]
	if len(held) >= leastSecret {
		return nil
	}
	m.shown[stream] = len(held)
	return held[from:]
}

// release returns what is held back when nothing more comes, likewise in two parts.
func (m *masker) release(stream int) (told, fresh []byte) {
	held, shown := m.held[stream], m.shown[stream]
	m.held[stream], m.shown[stream] = nil, 0
	if len(held) >= leastSecret {
		return []byte(mask), []byte(mask)
	}
	return held, held[shown:]
}
