package egress

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// SOCKS5, RFC 1928.
const (
	socksVersion = 5

	socksConnect = 1 // command

	socksIPv4   = 1 // address types
	socksDomain = 3
	socksIPv6   = 4

	socksOK          = 0 // replies
	socksRefused     = 2 // not allowed by ruleset
	socksUnreachable = 4
	socksNoCommand   = 7
	socksNoAddress   = 8
)

var (
	errSocks        = errors.New("not a SOCKS5 message")
	errSocksAuth    = errors.New("the client insists on a SOCKS5 authentication")
	errSocksCommand = errors.New("only SOCKS5 CONNECT is spoken here")
	errSocksAddress = errors.New("an address is not a name; ask the proxy to resolve (socks5h)")
)

// parseGreeting reads a SOCKS5 greeting. It is an error if "no authentication" is not offered.
func parseGreeting(b []byte) (struct{}, int, error) {
	none := struct{}{}
	if len(b) > 0 && b[0] != socksVersion || len(b) > 1 && b[1] == 0 {
		return none, 0, errSocks
	}
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return none, 0, errShort
	}
	n := 2 + int(b[1])
	if bytes.IndexByte(b[2:n], 0) < 0 {
		return none, n, errSocksAuth
	}
	return none, n, nil
}

// socksRequest is what a client asks for after the greeting. The host is as it was sent.
type socksRequest struct {
	host string
	port uint16
}

// parseRequest reads a SOCKS5 request. One for an address is refused by kind, whatever the address.
func parseRequest(b []byte) (socksRequest, int, error) {
	if len(b) > 0 && b[0] != socksVersion || len(b) > 2 && b[2] != 0 {
		return socksRequest{}, 0, errSocks
	}
	if len(b) < 5 {
		return socksRequest{}, 0, errShort
	}
	switch b[3] {
	case socksIPv4, socksIPv6:
		return socksRequest{}, 0, errSocksAddress
	case socksDomain:
	default:
		return socksRequest{}, 0, errSocks
	}
	if b[1] != socksConnect {
		return socksRequest{}, 0, errSocksCommand
	}
	n := 5 + int(b[4])
	if len(b) < n+2 {
		return socksRequest{}, 0, errShort
	}
	return socksRequest{host: string(b[5:n]), port: binary.BigEndian.Uint16(b[n:])}, n + 2, nil
}

// socksReply is an answer with the unspecified address: where we dial from is nobody's business in the box.
func socksReply(code byte) []byte {
	return []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
}
