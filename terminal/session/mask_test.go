package session

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// However the output is cut and whenever it is looked at, of a password no more than three characters come through.
func TestMaskedHoweverItIsCut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	secrets := []string{"hunter2-hunter3", "aabaab", "hunter2"}
	parts := append([]string{"hunt", "aab", "a", " ", "text ", "-hunter", "er2"}, secrets...)
	for range 3000 {
		var m masker
		for _, s := range secrets {
			m.add([]byte(s))
		}
		var in, told, shown strings.Builder
		for range r.IntN(8) {
			in.WriteString(parts[r.IntN(len(parts))])
		}
		for rest := in.String(); rest != ""; {
			k := 1 + r.IntN(len(rest))
			a, b := m.take(1, []byte(rest[:k]))
			told.Write(a)
			shown.Write(b)
			rest = rest[k:]
			if r.IntN(2) == 0 {
				shown.Write(m.reveal(1))
			}
		}
		a, b := m.release(1)
		told.Write(a)
		shown.Write(b)
		for _, s := range secrets {
			if strings.Contains(told.String(), s) || strings.Contains(shown.String(), s) {
				t.Fatalf("%q: told %q, shown %q", in.String(), told.String(), shown.String())
			}
		}
		if !containsOne(in.String(), secrets) && !strings.Contains(told.String(), mask) && (told.String() != in.String() || shown.String() != in.String()) {
			t.Fatalf("%q: told %q, shown %q", in.String(), told.String(), shown.String())
		}
	}
	var m masker
	m.add([]byte("hunter2"))
	_, first := m.take(1, []byte("say hun"))
	if got := string(first) + string(m.reveal(1)); got != "say hun" {
		t.Errorf("%q", got)
	}
	told, fresh := m.take(1, []byte("ter2!"))
	if string(told) != mask+"!" || string(fresh) != mask+"!" {
		t.Errorf("%q, %q", told, fresh)
	}
	m.add([]byte("abc")) // too short to be masked
	if len(m.secrets) != 1 {
		t.Errorf("%q", m.secrets)
	}
	m.wipe()
	if told, _ := m.take(1, []byte("hunter2")); string(told) != "hunter2" {
		t.Errorf("%q", told)
	}
}

func containsOne(text string, all []string) bool {
	for _, s := range all {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}
