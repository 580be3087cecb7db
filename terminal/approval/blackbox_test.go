package approval

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/terminal/command"
)

// plainReads are forty commands that anybody would call read-only. The attack table has what must not pass beside them.
const plainReads = `ls
ls -la src
ls && pwd | wc -l
pwd
cat README.md
cat -n main.go | head -40
head -n 20 main.py
tail -5 log.txt
tail -n +100 main.py | head -40
wc -l *.go
grep -rn TODO src
grep -c foo bar.txt || true
grep -E '^(a|b)' f | sort | uniq -c | sort -rn | head
rg x
rg -n 'func main' -g '*.go'
rg --files | head -100
find . -name '*.go'
find . -type f -not -path './node_modules/*' | head
sed -n 1,5p f
sed -n '/start/,/end/p' f
nl -ba main.go | sed -n '100,150p'
git status
git status --short
git -C . log
git log --oneline -10
git diff
git diff --stat HEAD~1
git show HEAD
git branch -a
git rev-parse HEAD
cut -d: -f1 f | sort -u
tr a-z A-Z < f
echo hello
printf '%s\n' a b
stat main.go
du -sh .
file main
diff a b
cd sub && ls > /dev/null 2>&1
which go && uname -a`

func TestPlainReadsAskNothing(t *testing.T) {
	lines := strings.Split(plainReads, "\n")
	if len(lines) != 40 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, script := range lines {
		for _, dialect := range []command.Dialect{command.Bash, command.POSIX} {
			if d := Decide(callOf(t, script, dialect), Policy{Ask: UnlessTrusted}, nil, nil); outcome(d) != "allow+retry" {
				t.Errorf("%q: %s\n%s", script, outcome(d), Explain(callOf(t, script, dialect), Policy{Ask: UnlessTrusted}, nil, nil))
			}
		}
	}
}

// TestWhatUntrustedAsks is case 27 of the black-box list.
func TestWhatUntrustedAsks(t *testing.T) {
	for _, script := range []string{"rg --pre=x p", "rg -nz p", "find . -fprintf out %p", "sed -n 1p -i f", "git -c a=b log", "git log --output=f", "./ls", "ls > f", "ls $(x)", "ls &", "FOO=1 ls", "base64 -of f"} {
		if got := outcome(Decide(callOf(t, script, command.Bash), Policy{Ask: UnlessTrusted}, nil, nil)); got != "ask" {
			t.Errorf("%q: %s", script, got)
		}
	}
}

// TestARuleIsNotWalkedAround is case 28: an ask rule on git push beside an allow rule on git.
func TestARuleIsNotWalkedAround(t *testing.T) {
	scripts := []string{"git push", "git -C . push", "git --no-pager push", "env git push", "bash -c \"git push\"", "git --git-dir=x push", "cd x && git push", "(git push)", "true | git push"}
	ask := []Rule{ruleOf("git,status"), {Verdict: Asked, Prefix: [][]string{{"git"}, {"push"}}}}
	forbid := []Rule{ruleOf("git,status"), ruleOf("!git,push")}
	for _, script := range append(scripts, "git -c alias.p=push p", "$GIT push") { // an alias could be any verb
		if got := outcome(Decide(callOf(t, script, command.Bash), Policy{}, ask, nil)); got != "ask" {
			t.Errorf("%q under an ask rule: %s", script, got)
		}
	}
	for _, script := range scripts {
		call := callOf(t, script, command.Bash)
		for _, policy := range []Policy{{Ask: Never}, {Ask: OnRequest}, {Ask: OnFailure}, {Ask: UnlessTrusted}} {
			grants := Grants{{ID: "g", Scope: Session, Digest: DigestOf(call, policy), Expires: clock.Add(time.Hour)}}
			if got := outcome(Decide(call, policy, forbid, grants)); got != "forbid" {
				t.Errorf("%q under %v, approved for the session: %s", script, policy.Ask, got)
			}
		}
	}
}

// TestASessionsApprovalAnswersOnlyForItself draws calls that differ in one thing or in none, and lets one be approved.
func TestASessionsApprovalAnswersOnlyForItself(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	draw := func() (Call, Policy) {
		pick := func(list ...string) string { return list[random.IntN(len(list))] }
		c := callOf(t, pick("go vet", "go vet ", "go vet; true", "go test"), command.Dialect(random.IntN(2)))
		c.Cwd, c.TTY, c.Profile, c.Permissions = pick("/w", "/w/sub"), random.IntN(2) == 0, pick("p", "q"), pick("", "net")
		if random.IntN(2) == 0 {
			c.Env = []Variable{{Name: "A", Value: pick("1", "2")}}
		}
		return c, Policy{Ask: UnlessTrusted, Locked: random.IntN(2) == 0}
	}
	same, other := 0, 0
	for range 3000 {
		a, pa := draw()
		b, pb := draw()
		if random.IntN(3) == 0 {
			b, pb = a, pa
			b.Justification, b.Prefix = "other words", []string{"go"}
		}
		held := Grants{{ID: "g", Scope: Session, Digest: DigestOf(a, pa), Expires: clock.Add(time.Hour)}}
		equal := a.Script.Source == b.Script.Source && a.Script.Dialect == b.Script.Dialect && a.Argv[2] == b.Argv[2] && a.Cwd == b.Cwd && a.TTY == b.TTY && a.Profile == b.Profile &&
			a.Permissions == b.Permissions && len(a.Env) == len(b.Env) && (len(a.Env) == 0 || a.Env[0] == b.Env[0]) && pa == pb
		_, allowed := Decide(b, pb, nil, held).(Allow)
		if allowed != equal {
			t.Fatalf("allowed %v:\n%+v\n%+v", allowed, a, b)
		}
		if equal {
			same++
		} else {
			other++
		}
	}
	if same < 100 || other < 100 {
		t.Errorf("%d alike and %d others", same, other)
	}
}
