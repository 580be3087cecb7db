package id

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNew(t *testing.T) {
	seen := map[string]bool{}
	for range 10000 {
		s := New(Response)
		if !Valid(Response, s) || seen[s] || len(s) != len("resp_")+26 {
			t.Fatalf("%q", s)
		}
		seen[s] = true
	}
}

func TestIDsSortByAge(t *testing.T) {
	at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	var ids []string
	for i := range 200 {
		ids = append(ids, At(Message, at.Add(time.Duration(i*i)*time.Hour)))
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by age")
	}
	a, b := At(Message, at), At(Message, at.Add(time.Microsecond))
	if a[:13] != b[:13] || a == b { // prefix, underscore and the whole characters of the 48 bits
		t.Errorf("%q and %q of one millisecond", a, b)
	}
}

func TestValid(t *testing.T) {
	good := New(Call)
	body := strings.TrimPrefix(good, "call_")
	for s, want := range map[string]bool{
		good:                              true,
		"call_" + strings.Repeat("0", 26): true,
		"":                                false,
		"call_":                           false,
		"call":                            false,
		"msg_" + body:                     false,
		"call-" + body:                    false,
		"call_" + body[1:]:                false,
		"call_" + body + "0":              false,
		"call_" + strings.ToUpper(body[:25]) + "U": false,
		"call_../../../../../../../../":            false,
		"call_" + body[:25] + "\n":                 false,
		"call_" + body[:25] + "\x00":               false,
		"call_" + body[:23] + "\xff00":             false,
		"call_" + body[:24] + "é":                  false,
		"call_call_" + body[5:]:                    false,
	} {
		if Valid(Call, s) != want {
			t.Errorf("Valid(%q) = %v", s, !want)
		}
	}
}

func FuzzValid(f *testing.F) {
	f.Add(New(File))
	f.Add("file_x\n")
	f.Fuzz(func(t *testing.T, s string) {
		if Valid(File, s) && (len(s) != 31 || strings.ContainsAny(s, "/\\.\x00\n\r ") || s != strings.ToLower(s)) {
			t.Errorf("%q is taken as an id", s)
		}
	})
}

// A list pages by id: what one process makes in one millisecond must sort as it was made.
func TestIDsOfOneMillisecondKeepTheirOrder(t *testing.T) {
	now := time.Now()
	last := At(File, now)
	for range 100_000 {
		next := At(File, now)
		if next <= last {
			t.Fatalf("%s was made after %s", next, last)
		}
		last = next
	}
}

func TestMade(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	if got, ok := Made(At(Message, at)); !ok || !got.Equal(at) {
		t.Errorf("%v, %v", got, ok)
	}
	body := strings.TrimPrefix(At(Message, at), "msg_")
	for _, s := range []string{"", "_" + body, "msg_", "%_" + body, "M_" + body, "m g_" + body, strings.Repeat("m", 60_000) + "_" + body, "msg_" + body[1:]} {
		if at, ok := Made(s); ok {
			t.Errorf("%.40q was made at %v", s, at)
		}
	}
}
