package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

func parse(tb testing.TB, script string) *Script {
	tb.Helper()
	s, err := Parse(script, Bash)
	if err != nil {
		tb.Fatalf("%q: %v", script, err)
	}
	return s
}

func TestEveryPartIsShownOnItsOwnLine(t *testing.T) {
	for _, c := range []struct {
		script string
		want   []string
	}{
		{"cd a && git push; ls | wc -l", []string{"cd a", "git push", "ls", "wc -l"}},
		{"grep x y;" + strings.Repeat(" ", 300) + "rm z", []string{"grep x y", "rm z"}},
		{"echo 'a" + strings.Repeat(" ", 300) + "b'", []string{"echo 'a⟨300 spaces⟩b'"}},
		{"echo 'a\nb'", []string{"echo 'a⟨U+000A⟩b'"}},
		{"echo 'a\u202eb\u200b'", []string{"echo 'a⟨U+202E⟩b⟨U+200B⟩'"}},
		{"echo ⟨U+000A⟩", []string{"echo ⟨U+27E8⟩U+000A⟨U+27E9⟩"}},
		{"echo \x1b[2K", []string{"echo ⟨U+001B⟩[2K", "echo ⟨U+001B⟩[2K"}},
		{"echo a\xffb", []string{"echo a⟨byte FF⟩b"}},
		{"env A=1 timeout 5 rm -rf x", []string{"env A=1 timeout 5 rm -rf x", "timeout 5 rm -rf x", "rm -rf x"}},
		{"bash -c 'a; b' x", []string{"bash -c 'a; b' x", "a", "b"}},
		{"cat <<E\nx $(y)\nE", []string{"cat <<E⟨U+000A⟩x $(y)⟨U+000A⟩E", "y"}},
		{"{ a; } > f", []string{"a", "> f"}},
		{"for i in $(a); do b; done", []string{"for i in $(a);", "a", "b"}},
		{"f() { a; }", []string{"f()", "a"}},
		{"if a; then b; elif c; then d; else e; fi", []string{"a", "b", "c", "d", "e"}},
		{"case $x in a) b;; esac", []string{"case $x in", "a", "b"}},
	} {
		got := parse(t, c.script).Display()
		for i := range got {
			got[i] = strings.TrimSuffix(strings.TrimRight(got[i], " "), "⟨U+000A⟩")
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q is shown as\n%q, want\n%q", c.script, got, c.want)
		}
	}
}

func TestUnwrapping(t *testing.T) {
	for _, c := range []struct{ script, wrappers, argv string }{
		{"sudo -u x -n rm a", "sudo", "rm a"},
		{"env -i -u B A=1 -- rm a", "env", ""},
		{"env A=1 B=2 rm a", "env", "rm a"},
		{"env -S 'A=1 rm -f' a", "env", "rm -f a"},
		{"timeout --signal=KILL -k 5 10 rm a", "timeout", "rm a"},
		{"nice -n 5 nohup setsid -f rm a", "nice,nohup,setsid", "rm a"},
		{"stdbuf -oL ionice -c3 rm a", "stdbuf,ionice", "rm a"},
		{"busybox rm a", "busybox", "rm a"},
		{"bash -lc 'sh -ec \"rm a\"'", "bash,sh", "rm a"},
		{"bash -o pipefail -c 'rm a'", "bash", "rm a"},
		{"find . -exec rm a ';'", "find", "rm a"},
		{"flock -w 5 f rm a", "flock", "rm a"},
		{"flock f -c 'rm a'", "flock", "rm a"},
		{"watch -n 1 rm a", "watch", "rm a"},
		{"exec -a x rm a", "exec", "rm a"},
		{"command rm a", "command", "rm a"},
		{"eval rm a", "eval", "rm a"},
		{"trap 'rm a' EXIT", "trap", "rm a"},
		{"bash <<'E'\nrm a\nE", "bash", "rm a"},
		{"sh <<< 'rm a'", "sh", ""},
	} {
		s := parse(t, c.script)
		last := s.Parts[len(s.Parts)-1]
		argv, _ := last.Argv()
		if c.argv == "" {
			continue
		}
		if got := strings.Join(last.Wrappers, ","); got != c.wrappers || strings.Join(argv, " ") != c.argv {
			t.Errorf("%q unwraps %s to %q, want %s and %q", c.script, got, argv, c.wrappers, c.argv)
		}
	}
}

func TestLimitsRefuse(t *testing.T) {
	nested := "rm x"
	for range MaxNesting + 2 {
		nested = "sh -c " + quote(nested)
	}
	for name, script := range map[string]string{
		"bytes":    strings.Repeat("a", MaxScript+1),
		"parts":    strings.Repeat("a;", MaxParts+1),
		"nesting":  nested,
		"wrappers": strings.Repeat("nice ", 100) + "rm x",
		"brackets": strings.Repeat("(", maxDepth+1) + "rm x",
	} {
		if s, err := Parse(script, Bash); fault.KindOf(err) != fault.TooLarge {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if _, err := Parse("a\x00b", Bash); fault.KindOf(err) != fault.Invalid {
		t.Errorf("NUL: %v", err)
	}
	if _, err := Argv(nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("no words: %v", err)
	}
	s := parse(t, strings.Repeat("true;", MaxParts-1)+"rm -rf x")
	if s.Class() != Destructive {
		t.Errorf("the last of %d parts is not judged", MaxParts)
	}
}

func TestWhatDoesNotParse(t *testing.T) {
	for _, script := range []string{"ls\n(", "ls; 'a", "if true; then ls", "echo hi |", "ls\n)"} {
		s := parse(t, script)
		if s.Class() != Unknown || s.Err == nil || s.Parts[len(s.Parts)-1].Kind != Broken {
			t.Errorf("%q is %v, %v", script, s.Class(), s.Err)
		}
	}
}

func TestArgv(t *testing.T) {
	for _, c := range []struct {
		argv  []string
		class Class
	}{
		{[]string{"ls", "$(rm x)", "*"}, ReadOnly},
		{[]string{"echo", "a b", "'"}, ReadOnly},
		{[]string{"bash", "-c", "ls; rm -rf x"}, Destructive},
		{[]string{"bash", "-c", "ls"}, ReadOnly},
		{[]string{"rm", "-rf", "x"}, Destructive},
		{[]string{"./ls"}, Unknown},
	} {
		s, err := Argv(c.argv)
		if err != nil || s.Class() != c.class {
			t.Errorf("%q is %v, want %v (%v)", c.argv, s.Class(), c.class, err)
		}
	}
}

func TestShellsThatReadTheTextDifferently(t *testing.T) {
	for _, script := range []string{"echo $'a\\'; rm x #'", "ls &> /dev/null", "cat <<< x", "[[ -f x ]]", "ls |& cat", "echo {1..3}"} {
		s, err := Parse(script, POSIX)
		if err != nil {
			t.Fatal(err)
		}
		if script != "echo {1..3}" && s.Class() == ReadOnly {
			t.Errorf("%q is proven for a shell that may be dash", script)
		}
	}
	for _, script := range []string{"ls =x", "echo $x", "ls *(e:'rm x':)", "ls >! x", "path=(.); ls", "echo ${(e)x}"} {
		s, err := Parse(script, Zsh)
		if err != nil || s.Class() == ReadOnly {
			t.Errorf("%q is proven for zsh (%v)", script, err)
		}
	}
}

func TestTheGitEnvironmentIsWellFormed(t *testing.T) {
	env := GitEnvironment()
	if !slices.Contains(env, "GIT_CONFIG_COUNT=9") || !slices.Contains(env, "GIT_CONFIG_KEY_0=core.fsmonitor") || !slices.Contains(env, "GIT_CONFIG_VALUE_8=never") {
		t.Errorf("%q", env)
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse("cd src && git status --short | head -20 && rg -n 'TODO' -g '*.go' | wc -l", Bash); err != nil {
			b.Fatal(err)
		}
	}
}
