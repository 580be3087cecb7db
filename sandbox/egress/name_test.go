package egress

import (
	"strings"
	"testing"
)

func TestNamesThatMayBeAskedFor(t *testing.T) {
	for in, want := range map[string]string{
		"example.test":                  "example.test",
		"Example.TEST":                  "example.test",
		"example.test.":                 "example.test",
		"a-b.c_d.test":                  "a-b.c_d.test",
		"localhost":                     "localhost",
		"xn--bcher-kva.example":         "xn--bcher-kva.example",
		"1.2.3.4.example.test":          "1.2.3.4.example.test",
		"0x7f.test":                     "0x7f.test",
		strings.Repeat("a", 63):         strings.Repeat("a", 63),
		"169.254.169.254.nip.test":      "169.254.169.254.nip.test",
		strings.Repeat("a.", 126) + "a": strings.Repeat("a.", 126) + "a",
	} {
		if got, err := Name(in); err != nil || got != want {
			t.Errorf("Name(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

// The tricks of escape 50 and of S43: each was a way past somebody's list.
func TestNamesThatAreRefused(t *testing.T) {
	for name, in := range map[string]string{
		"empty":              "",
		"only the root":      ".",
		"two trailing dots":  "example.test..",
		"empty label":        "a..test",
		"leading dot":        ".example.test",
		"NUL":                "evil.test\x00.allowed.test",
		"percent":            "evil%2etest",
		"percent NUL":        "evil.test%00.allowed.test",
		"userinfo":           "allowed.test@evil.test",
		"space":              "allowed.test evil.test",
		"tab":                "allowed.test\t",
		"line end":           "allowed.test\r\nHost: evil.test",
		"slash":              "allowed.test/evil",
		"backslash":          `allowed.test\evil`,
		"fragment":           "evil.test#.allowed.test",
		"query":              "evil.test?.allowed.test",
		"star":               "*.allowed.test",
		"zone":               "fe80::1%eth0",
		"unicode":            "bücher.example",
		"fullwidth":          "ａllowed.test",
		"ideographic dot":    "evil。test",
		"Kelvin sign":        "\u212aernel.test",
		"leading hyphen":     "-a.test",
		"trailing hyphen":    "a-.test",
		"long label":         strings.Repeat("a", 64) + ".test",
		"long name":          strings.Repeat("a.", 127) + "aa",
		"IPv4":               "127.0.0.1",
		"IPv4 with root":     "127.0.0.1.",
		"metadata":           "169.254.169.254",
		"decimal":            "2130706433",
		"octal":              "0177.0.0.1",
		"octal, whole":       "017700000001",
		"hex":                "0x7f000001",
		"hex, upper":         "0X7F000001",
		"hex, dotted":        "0x7f.0x0.0x0.0x1",
		"empty hex":          "127.0x",
		"short":              "127.1",
		"overflowing":        "4294967297",
		"IPv6":               "::1",
		"IPv6 in brackets":   "[::1]",
		"v4-mapped":          "[::ffff:127.0.0.1]",
		"v4-mapped hex":      "::ffff:7f00:1",
		"IPv6 with zone":     "[fe80::1%25lo]",
		"port":               "allowed.test:80",
		"NAT64":              "[64:ff9b::a9fe:a9fe]",
		"numeric last label": "allowed.test.1",
		"delete":             "a\x7f.test",
	} {
		if got, err := Name(in); err == nil {
			t.Errorf("%s: Name(%q) = %q", name, in, got)
		}
	}
}

func TestDestinations(t *testing.T) {
	for in, want := range map[string]dest{"Example.test.:443": {"example.test", 443}, "a.test:1": {"a.test", 1}, "a.test:65535": {"a.test", 65535}} {
		if got, err := parseDest(in, 0); err != nil || got != want {
			t.Errorf("%q = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"a.test", "a.test:", "a.test:0", "a.test:65536", "a.test:080", "a.test:+80", "a.test: 80", "a.test:80:80",
		"a.test:http", "[a.test]:80", "user@a.test:80", ":80", "a.test:８０", "a.test:99999999999999999999"} {
		if got, err := parseDest(in, 0); err == nil {
			t.Errorf("%q = %v", in, got)
		}
	}
	if got, err := parseDest("a.test", 80); err != nil || got.port != 80 {
		t.Errorf("the default port: %v, %v", got, err)
	}
	if _, err := parseDest("a.test:", 80); err == nil {
		t.Error("an empty port is not a left out one")
	}
}

func FuzzName(f *testing.F) {
	f.Add("Example.test.")
	f.Add("0x7f.1")
	f.Fuzz(func(t *testing.T, in string) {
		name, err := Name(in)
		if err != nil {
			return
		}
		again, err := Name(name)
		if err != nil || again != name {
			t.Fatalf("%q is not stable: %q, %v", name, again, err)
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Fatalf("%q holds more than a name", name)
		}
	})
}
