package compact

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestOnlyItsOwnerOpensASealedWindow(t *testing.T) {
	s := NewSealer()
	w := Window{Items: history(3, 100), At: 1, Left: 2, Summary: "so"}
	text, err := s.Seal("org", "key_1", w)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Open("org", "key_1", text)
	if err != nil || shape(got) != shape(w) || got.Note() != w.Note() {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := s.Open("org", "", text); err != nil {
		t.Errorf("the server does not read what it has kept: %v", err)
	}
	if strings.Contains(text, "Be kind") || strings.Contains(text, "org") {
		t.Error("it can be read")
	}
	other := NewSealer()
	for name, open := range map[string]func() error{
		"another organisation": func() error { _, err := s.Open("org2", "key_1", text); return err },
		"any key of another":   func() error { _, err := s.Open("org2", "", text); return err },
		"another key":          func() error { _, err := s.Open("org", "key_2", text); return err },
		"another server":       func() error { _, err := other.Open("org", "key_1", text); return err },
		"a sealer without key": func() error { _, err := Sealer{}.Open("org", "key_1", text); return err },
		"another's name in it": func() error {
			fields := strings.Split(text, ".")
			_, err := s.Open("org", "key_2", fields[0]+"."+encode([]byte("key_2"))+"."+fields[2])
			return err
		},
		"nothing":       func() error { _, err := s.Open("org", "key_1", ""); return err },
		"the vendor's":  func() error { _, err := s.Open("org", "key_1", "gAAAAABnothing=="); return err },
		"half of it":    func() error { _, err := s.Open("org", "key_1", text[:len(text)/2]); return err },
		"more":          func() error { _, err := s.Open("org", "key_1", text+"A"); return err },
		"more fields":   func() error { _, err := s.Open("org", "key_1", text+".A"); return err },
		"empty content": func() error { _, err := s.Open("org", "key_1", version+"."+encode([]byte("key_1"))+"."); return err },
	} {
		if err := open(); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for at := range text {
		changed := []byte(text)
		changed[at] ^= 1
		if string(changed) == text {
			continue
		}
		if _, err := s.Open("org", "key_1", string(changed)); fault.KindOf(err) != fault.Invalid {
			t.Fatalf("byte %d changed: %v", at, err)
		}
	}
}

func TestTheKeyIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), KeyFile)
	s, err := OpenSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.Seal("o", "k", Window{Items: []openai.Item{said("user", "hello")}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	if w, err := again.Open("o", "k", text); err != nil || len(w.Items) != 1 {
		t.Errorf("%+v, %v", w, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSealer(path); err == nil {
		t.Error("half a key is taken")
	}
}
