package egress

import (
	"errors"
	"testing"
)

func TestSocksMessages(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		n    int
		want error
	}{
		"no authentication": {"\x05\x01\x00rest", 3, nil},
		"several":           {"\x05\x03\x02\x01\x00", 5, nil},
		"only a password":   {"\x05\x01\x02", 3, errSocksAuth},
		"no methods":        {"\x05\x00", 0, errSocks},
		"version 4":         {"\x04\x01\x00", 0, errSocks},
		"short":             {"\x05\x02\x00", 0, errShort},
		"nothing":           {"", 0, errShort},
	} {
		if _, n, err := parseGreeting([]byte(c.in)); n != c.n || !errors.Is(err, c.want) {
			t.Errorf("greeting, %s: %d, %v", name, n, err)
		}
	}
	for name, c := range map[string]struct {
		in   string
		host string
		want error
	}{
		"a name":       {"\x05\x01\x00\x03\x06a.test\x01\xbb", "a.test", nil},
		"a NUL":        {"\x05\x01\x00\x03\x08a.test\x00x\x01\xbb", "a.test\x00x", nil}, // Name refuses it, S43
		"an address":   {"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50", "", errSocksAddress},
		"an address 6": {"\x05\x01\x00\x04" + "0123456789abcdef" + "\x00\x50", "", errSocksAddress},
		"bind":         {"\x05\x02\x00\x03\x06a.test\x01\xbb", "", errSocksCommand},
		"udp":          {"\x05\x03\x00\x03\x06a.test\x01\xbb", "", errSocksCommand},
		"reserved":     {"\x05\x01\x01\x03\x06a.test\x01\xbb", "", errSocks},
		"kind 2":       {"\x05\x01\x00\x02\x06a.test\x01\xbb", "", errSocks},
		"version":      {"\x04\x01\x00\x03\x06a.test\x01\xbb", "", errSocks},
		"short":        {"\x05\x01\x00\x03\x06a.test\x01", "", errShort},
		"nothing":      {"", "", errShort},
	} {
		if req, _, err := parseRequest([]byte(c.in)); req.host != c.host || !errors.Is(err, c.want) {
			t.Errorf("request, %s: %+v, %v", name, req, err)
		}
	}
}

func FuzzSocks(f *testing.F) {
	f.Add([]byte("\x05\x01\x00"))
	f.Add([]byte("\x05\x01\x00\x03\x06a.test\x01\xbb"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, n, err := parseGreeting(b); n > len(b) || err == nil && n < 3 {
			t.Fatalf("greeting of %d bytes", n)
		}
		if req, n, err := parseRequest(b); n > len(b) || err == nil && (n != 7+len(req.host) || string(b[5:5+len(req.host)]) != req.host) {
			t.Fatalf("request %+v of %d bytes", req, n)
		}
	})
}
