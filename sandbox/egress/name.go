package egress

import (
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// Limits of DNS, RFC 1035 2.3.4.
const (
	maxName  = 253
	maxLabel = 63
)

// Name brings a host name into the one form that is compared: lower case, without the root's dot. It refuses all that
// could be read differently by a matcher, a resolver and a certificate: addresses in every notation, bytes beyond
// letters, digits, hyphen and underscore, empty labels. International names are written in their xn-- form.
func Name(host string) (string, error) {
	if host == "" {
		return "", nameFault(host, "it is empty")
	}
	if strings.ContainsAny(host, ":[]") {
		return "", nameFault(host, "an address is not a name")
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxName {
		return "", nameFault(host[:maxName]+"…", "it is longer than 253 bytes")
	}
	lower := make([]byte, len(host))
	label := 0 // where the current label began
	for i := 0; i <= len(host); i++ {
		if i == len(host) || host[i] == '.' {
			if why := labelFault(host[label:i]); why != "" {
				return "", nameFault(host, why)
			}
			if i < len(host) {
				lower[i] = '.'
			}
			label = i + 1
			continue
		}
		c := host[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case c >= 0x80:
			return "", nameFault(host, "write an international name in its xn-- form")
		default:
			return "", nameFault(host, "it holds "+strconv.QuoteRune(rune(c)))
		}
		lower[i] = c
	}
	if numeric(string(lower[strings.LastIndexByte(string(lower), '.')+1:])) {
		return "", nameFault(host, "an address is not a name")
	}
	return string(lower), nil
}

func labelFault(label string) string {
	switch {
	case label == "":
		return "it has an empty label"
	case len(label) > maxLabel:
		return "a label is longer than 63 bytes"
	case label[0] == '-' || label[len(label)-1] == '-':
		return "a label begins or ends with a hyphen"
	}
	return ""
}

// numeric says whether a last label makes the whole an IPv4 address for some reader: 127.0.0.1, 2130706433, 0x7f.1,
// 0177.1. No top-level domain looks like that, so nothing is lost by refusing more than any one reader takes.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func nameFault(host, why string) error {
	return fault.New(fault.Invalid, "%s is not a host name that may be asked for: %s", strconv.QuoteToASCII(host), why)
}

// port reads a decimal port as one reader only would: no sign, no leading zero, no space.
func port(s string) (uint16, bool) {
	if s == "" || len(s) > 5 || s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil
}

// dest is where a connection wants to go. Its host has passed [Name].
type dest struct {
	host string
	port uint16
}

func (d dest) String() string { return d.host + ":" + strconv.Itoa(int(d.port)) }

// parseDest reads host:port; with a default, the port may be left out.
func parseDest(s string, byDefault uint16) (dest, error) {
	host, rest, found := strings.Cut(s, ":")
	d := dest{port: byDefault}
	if strings.HasPrefix(s, "[") || strings.Contains(rest, ":") {
		return dest{}, nameFault(s, "an address is not a name")
	}
	if found || byDefault == 0 {
		var ok bool
		if d.port, ok = port(rest); !ok {
			return dest{}, fault.New(fault.Invalid, "%s has no port from 1 to 65535", strconv.QuoteToASCII(s))
		}
	}
	var err error
	if d.host, err = Name(host); err != nil {
		return dest{}, err
	}
	return d, nil
}
