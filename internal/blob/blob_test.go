package blob

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"a", "file/file_06x", "a.b/C-9_"} {
		if err := CheckKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", ".hidden", "a/.b", "a b", "a\x00", "ü", "a\\b", "$(x)",
		strings.Repeat("x", 201)} {
		if CheckKey(key) == nil {
			t.Errorf("%q is a key", key)
		}
	}
}

func TestANameThatIsNotConfigured(t *testing.T) {
	s := NewStores("a", map[string]Store{"a": nopStore{}})
	if name, store := s.Current(); name != "a" || store == nil {
		t.Errorf("current is %q", name)
	}
	if _, err := s.Named("b"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("an unknown place: %v", err)
	}
}

type nopStore struct{ Store }
