package shell

import (
	"slices"
	"strings"
	"testing"
)

func TestFindDump(t *testing.T) {
	m := marks{"0123456789abcdef0123456789abcde0", "fedcba9876543210fedcba987654321f"}
	whole := func(body string) string { return m.open + body + m.close }
	for _, c := range []struct {
		name, out string
		want      []string // nil: none found
	}{
		{"plain", whole("B=2\x00A=1\x00"), []string{"A=1", "B=2"}},
		{"chatter around", "Welcome!\n" + whole("A=1\x00") + "bye\n", []string{"A=1"}},
		{"newlines, equals signs and odd bytes are a value", whole("A=x\ny=\xff\x1b[0m\x00B=\x00"), []string{"A=x\ny=\xff\x1b[0m", "B="}},
		{"the last whole one counts", whole("A=1\x00") + whole("A=2\x00") + m.open + "A=3\x00", []string{"A=2"}},
		{"cut off inside an entry", m.open + "A=1\x00PATH=/us", nil},
		{"cut off before the end", m.open + "A=1\x00", nil},
		{"cut inside, then closed", whole("A=1\x00PATH=/us"), nil},
		{"closed before it is opened", m.close + m.open, nil},
		{"empty", whole(""), nil},
		{"nothing", "", nil},
		{"other marks", strings.Repeat("c", 32) + "A=1\x00" + strings.Repeat("d", 32), nil},
		{"internals", whole("A=1\x00_=/usr/bin/env\x00PWD=/\x00OLDPWD=/\x00SHLVL=3\x00TERM=x\x00BASH_ENV=x\x00ENV=x\x00PS1=$\x00PROMPT_COMMAND=x\x00" +
			"SHELLOPTS=x\x00BASHOPTS=x\x00BASH_VERSINFO=x\x00UID=0\x00HISTFILE=x\x00TMOUT=1\x00GPG_TTY=not a tty\x00TERM_PROGRAM=x\x00LINES=1\x00"), []string{"A=1"}},
		{"functions of bash, before and after shellshock, and of ksh", whole("A=1\x00BASH_FUNC_f%%=() {  :\n}\x00BASH_FUNC_f()=() { :; }\x00g=() { :; }\x00"), []string{"A=1"}},
		{"no names", whole("A=1\x00=x\x00x y=1\x001A=1\x00a-b=1\x00é=1\x00novalue\x00a.b=1\x00"), []string{"A=1"}},
		{"a name twice", whole("A=1\x00A=2\x00"), []string{"A=2"}},
		{"an entry that no exec takes", whole("A=1\x00B=" + strings.Repeat("x", maxEntry) + "\x00"), []string{"A=1"}},
		{"too much", whole("A=1\x00B=" + strings.Repeat("x", maxDump) + "\x00"), nil},
	} {
		got, ok := m.find([]byte(c.out))
		if ok != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q %v, want %q", c.name, got, ok, c.want)
		}
	}
}

func TestMarksAreFresh(t *testing.T) {
	a, b := newMarks(), newMarks()
	if a.open == a.close || a.open == b.open || len(a.open) != 32 {
		t.Errorf("%v %v", a, b)
	}
	if s := a.script(); strings.ContainsAny(s, `'"\`) || strings.Contains(s, a.open) || strings.Contains(s, a.close) {
		t.Errorf("%s", s)
	}
}

func FuzzFindDump(f *testing.F) {
	f.Add([]byte("chatter"), []byte("A=1\x00B=2\x00"), []byte("more"))
	f.Add([]byte(strings.Repeat("a", 40)), []byte("A=\xff\n\x00BASH_FUNC_x%%=() {\x00"), []byte(strings.Repeat("b", 31)))
	f.Fuzz(func(t *testing.T, before, body, after []byte) {
		// The marks are unknown to whoever wrote the input: make sure that they are.
		m := newMarks()
		out := slices.Concat(before, []byte(m.open), body, []byte(m.close), after)
		got, ok := m.find(out)
		if wantOK := len(body) > 0 && body[len(body)-1] == 0 && len(body) <= maxDump; ok != wantOK {
			t.Fatalf("ok = %v", ok)
		}
		if !slices.IsSorted(got) {
			t.Fatal("not sorted")
		}
		seen := map[string]bool{}
		for _, entry := range got {
			name, value, _ := strings.Cut(entry, "=")
			if !isName(name) || internal(name) || isFunction(name, value) || seen[name] || strings.Contains(entry, "\x00") {
				t.Fatalf("%q", entry)
			}
			seen[name] = true
			if !strings.Contains("\x00"+string(body), "\x00"+entry+"\x00") {
				t.Fatalf("%q was not dumped", entry)
			}
		}
		if _, ok := newMarks().find(out); ok {
			t.Fatal("found under other marks")
		}
		if rest := append(slices.Clone(out), m.open...); len(got) > 0 {
			if again, _ := m.find(rest); !slices.Equal(again, got) {
				t.Fatal("an opening mark behind it changed the dump")
			}
		}
	})
}
