package session

import "bytes"

// leastSecret is the length from which a password is masked where it is printed. A shorter one would mask half of every
// text.
const leastSecret = 4

var mask = []byte("•••")

// masker takes passwords that a person gave out of output. It holds back the end of a stream as long as that may be the
// start of one.
type masker struct {
	secrets [][]byte
	held    [3][]byte
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

// take returns what may be shown after the next bytes of a stream.
func (m *masker) take(stream int, p []byte) []byte {
	if len(m.secrets) == 0 {
		return p
	}
	text := append(m.held[stream], p...)
	m.held[stream] = nil
	for _, secret := range m.secrets {
		text = bytes.ReplaceAll(text, secret, mask)
	}
	keep := 0
	for _, secret := range m.secrets {
		for n := min(len(secret)-1, len(text)); n > keep; n-- {
			if bytes.HasSuffix(text, secret[:n]) {
				keep = n
			}
		}
	}
	m.held[stream] = bytes.Clone(text[len(text)-keep:])
	return text[:len(text)-keep]
}

// release returns what is held back of a stream: as it is while it could be anything, masked once it is most of a
// password.
func (m *masker) release(stream int) []byte {
	held := m.held[stream]
	m.held[stream] = nil
	for _, secret := range m.secrets {
		if len(held) >= leastSecret && bytes.HasPrefix(secret, held) && 2*len(held) >= len(secret) {
			return mask
		}
	}
	return held
}
