package egress

import (
	"encoding/binary"
	"errors"
)

// errShort says that a parser needs more bytes than it was given.
var errShort = errors.New("more bytes are needed")

// errHello says that bytes are no ClientHello that we can vouch for.
var errHello = errors.New("not a TLS ClientHello")

// Record and handshake types of TLS, RFC 8446.
const (
	recordHandshake    = 22
	messageClientHello = 1
	extensionSNI       = 0
	nameHost           = 0
	maxRecord          = 1 << 14
)

// parseHello reads the server name of the ClientHello that a TLS connection begins with, from as many records as it
// was cut into, and the number of bytes those take. A hello without a name has the name "". It is strict: what one
// reader could take for another name (two names, two extensions, lengths that do not add up) is an error.
func parseHello(b []byte) (sni string, n int, err error) {
	var message []byte
	for {
		rest := b[n:]
		if len(rest) > 0 && rest[0] != recordHandshake || len(rest) > 1 && rest[1] != 3 {
			return "", 0, errHello
		}
		if len(rest) < 5 {
			return "", 0, errShort
		}
		size := int(binary.BigEndian.Uint16(rest[3:]))
		if size == 0 || size > maxRecord {
			return "", 0, errHello
		}
		if len(rest) < 5+size {
			return "", 0, errShort
		}
		n += 5 + size
		if message == nil {
			message = rest[5 : 5+size : 5+size] // the usual single record is not copied
		} else {
			message = append(message, rest[5:5+size]...)
		}
		if message[0] != messageClientHello {
			return "", 0, errHello
		}
		if len(message) < 4 {
			continue
		}
		switch length := int(message[1])<<16 | int(message[2])<<8 | int(message[3]); {
		case length > 1<<16 || len(message) > 4+length:
			return "", 0, errHello // nothing may follow a hello before the answer
		case len(message) == 4+length:
			sni, err = serverName(message[4:])
			return sni, n, err
		}
	}
}

// field is bytes that are eaten from the front; ok turns false when they run out.
type field struct {
	b  []byte
	ok bool
}

func (f *field) take(n int) []byte {
	if n > len(f.b) {
		f.ok, n = false, 0
	}
	out := f.b[:n]
	f.b = f.b[n:]
	return out
}

// vector takes a length of so many bytes and what it counts.
func (f *field) vector(width int) []byte {
	n := 0
	for _, c := range f.take(width) {
		n = n<<8 | int(c)
	}
	return f.take(n)
}

func (f *field) uint16() int {
	b := f.take(2)
	if len(b) < 2 {
		return -1
	}
	return int(b[0])<<8 | int(b[1])
}

func serverName(body []byte) (string, error) {
	f := field{body, true}
	f.take(2 + 32) // legacy version, random
	f.vector(1)    // session id
	f.vector(2)    // cipher suites
	f.vector(1)    // compression
	if !f.ok {
		return "", errHello
	}
	if len(f.b) == 0 {
		return "", nil
	}
	extensions := field{f.vector(2), true}
	if !f.ok || len(f.b) > 0 {
		return "", errHello
	}
	sni := ""
	seen := false
	for len(extensions.b) > 0 {
		kind, data := extensions.uint16(), extensions.vector(2)
		if !extensions.ok {
			return "", errHello
		}
		if kind != extensionSNI {
			continue
		}
		list := field{data, true}
		names := field{list.vector(2), true}
		isHost := names.take(1)
		name := names.vector(2)
		if seen || !list.ok || !names.ok || len(list.b) > 0 || len(names.b) > 0 || isHost[0] != nameHost || len(name) == 0 {
			return "", errHello
		}
		sni, seen = string(name), true
	}
	return sni, nil
}

// alert is a fatal TLS alert, "access denied": all that a client can be told before keys are agreed on.
const alert = "\x15\x03\x01\x00\x02\x02\x31"
