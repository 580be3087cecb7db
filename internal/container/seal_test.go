package container

import (
	"strings"
	"testing"
)

// What is sealed for one owner opens for that one, also after a restart, and for no other.
func TestASealIsItsOwners(t *testing.T) {
	dir := t.TempDir()
	open := func() *Service {
		s, err := newSealer(dir)
		if err != nil {
			t.Fatal(err)
		}
		return &Service{seal: s}
	}
	text := open().Seal("org", []byte("canary"))
	if strings.Contains(text, "canary") || text == open().Seal("org", []byte("canary")) {
		t.Errorf("it is no seal: %s", text)
	}
	if plain, err := open().Unseal("org", text); err != nil || string(plain) != "canary" {
		t.Errorf("%q, %v", plain, err)
	}
	for name, c := range map[string][2]string{"another owner": {"rival", text}, "nobody": {"", text}, "a changed text": {"org", "A" + text[1:]}, "no base64": {"org", "%"}, "nothing": {"org", ""}} {
		if text[0] == 'A' && name == "a changed text" {
			continue
		}
		if plain, err := open().Unseal(c[0], c[1]); err == nil {
			t.Errorf("%s: %q", name, plain)
		}
	}
}
