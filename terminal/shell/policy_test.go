package shell

import (
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

func TestPolicy(t *testing.T) {
	secret := []string{"PATH=/usr/bin", "HOME=/home/user", "API_KEY=secret", "SECRET_TOKEN=t", "FOO=bar"}
	for _, c := range []struct {
		name   string
		policy Policy
		in     []string
		want   []string
	}{
		{"zero value is core", Policy{}, secret, []string{"HOME=/home/user", "PATH=/usr/bin"}},
		{"all without excludes", Policy{Inherit: InheritAll, IgnoreDefaultExcludes: true}, secret,
			[]string{"API_KEY=secret", "FOO=bar", "HOME=/home/user", "PATH=/usr/bin", "SECRET_TOKEN=t"}},
		{"all: secrets are out by default", Policy{Inherit: InheritAll}, secret, []string{"FOO=bar", "HOME=/home/user", "PATH=/usr/bin"}},
		{"none", Policy{Inherit: InheritNone, Set: map[string]string{"ONLY_VAR": "yes"}}, secret, []string{"ONLY_VAR=yes"}},
		{"core names are exact", Policy{Inherit: InheritCore}, []string{"Path=x", "HOME=h", "TMPDIR=/t", "TEMP=a", "TMP=b", "LOGNAME=l",
			"USERNAME=u", "USER=u", "SHELL=s", "LANG=C", "HOMER=x"},
			[]string{"HOME=h", "LOGNAME=l", "SHELL=s", "TEMP=a", "TMP=b", "TMPDIR=/t", "USER=u", "USERNAME=u"}},
		{"exclude, any case", Policy{Inherit: InheritAll, Exclude: []string{"f?o", "h*"}}, secret, []string{"PATH=/usr/bin"}},
		{"set is over inherited", Policy{Set: map[string]string{"PATH": "/opt", "NEW_VAR": "42"}}, secret, []string{"HOME=/home/user", "NEW_VAR=42", "PATH=/opt"}},
		{"set comes after excludes", Policy{Set: map[string]string{"DEPLOY_KEY": "k", "FOO": "x"}, Exclude: []string{"FOO"}}, nil, []string{"DEPLOY_KEY=k", "FOO=x"}},
		{"include only is last, on set too", Policy{Inherit: InheritAll, Set: map[string]string{"NEW": "1", "MYPATH": "2"}, IncludeOnly: []string{"*path"}},
			secret, []string{"MYPATH=2", "PATH=/usr/bin"}},
		{"include only does not bring back", Policy{Inherit: InheritAll, IncludeOnly: []string{"*"}, Exclude: []string{"FOO"}}, secret, []string{"HOME=/home/user", "PATH=/usr/bin"}},
		{"core and these", Policy{Allow: []string{"FO*"}}, secret, []string{"FOO=bar", "HOME=/home/user", "PATH=/usr/bin"}},
		{"none but these", Policy{Inherit: InheritNone, Allow: []string{"FOO"}}, secret, []string{"FOO=bar"}},
		{"a pattern allows no secret", Policy{Inherit: InheritNone, Allow: []string{"*"}}, secret, []string{"FOO=bar", "HOME=/home/user", "PATH=/usr/bin"}},
		{"a name in full does", Policy{Inherit: InheritNone, Allow: []string{"API_KEY"}}, secret, []string{"API_KEY=secret"}},
		{"unless excluded in words", Policy{Inherit: InheritNone, Allow: []string{"API_KEY"}, Exclude: []string{"API_*"}}, secret, []string{}},
		{"code is no variable", Policy{Inherit: InheritAll}, []string{"A=1", "BASH_FUNC_ls%%=() { rm x; }", "BASH_FUNC_cd()=() { :; }", "f=() { :; }",
			"BASH_ENV=/x", "ENV=/x", "SHELLOPTS=xtrace", "PS4=$(x)", "PROMPT_COMMAND=x"}, []string{"A=1"}},
		{"what is no entry", Policy{Inherit: InheritAll}, []string{"A", "", "=C:=C:\\x", "B=1\x002", "D=", "E==", "A=1", "A=2"}, []string{"A=2", "D=", "E=="}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.policy.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := c.policy.apply(c.in, "linux").entries(); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestPolicyOnWindows(t *testing.T) {
	in := []string{`Path=C:\Windows`, "TEMP=t", "FOO=bar", "SystemRoot=r", "windir=w", "=C:=x", "GitHub_Token=x"}
	got := Policy{Set: map[string]string{"PATH": "p"}}.apply(in, "windows").entries()
	if want := []string{"PATH=p", "SystemRoot=r", "TEMP=t", "windir=w"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	got = Policy{Inherit: InheritNone, Allow: []string{"github_token"}}.apply(in, "windows").entries()
	if want := []string{"GitHub_Token=x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSecretsAreOutByDefault(t *testing.T) {
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "OPENAI_API_KEY", "PGPASSWORD",
		"MYSQL_PWD", "FOO_TOKEN", "MY_KEY", "DB_SECRET", "npm_token", "GOOGLE_APPLICATION_CREDENTIALS", "SMTP_PASS",
		"SSH_PASSPHRASE", "DATABASE_URL", "SENTRY_DSN", "SLACK_WEBHOOK_URL", "HARDSHELL_API_KEY", "AZURE_STORAGE_CONNECTION_STRING"} {
		for _, p := range []Policy{{}, {Inherit: InheritAll}, DefaultPolicy(), {Allow: []string{"*"}}} {
			if got := p.apply([]string{name + "=hunter2"}, "linux").entries(); len(got) > 0 {
				t.Errorf("%s passes %+v", name, p)
			}
		}
	}
	for _, name := range []string{"GIT_AUTHOR_NAME", "OLDPWD", "PWD", "LANG", "DISPLAY", "EDITOR", "COMPASS"} {
		if got := (Policy{Inherit: InheritAll}).apply([]string{name + "=x"}, "linux").entries(); len(got) != 1 {
			t.Errorf("%s does not pass", name)
		}
	}
}

func TestToolchainNamesAreNoSecretsAndNoSockets(t *testing.T) {
	for _, name := range ToolchainNames() {
		if compile(DefaultExcludes()).match(name) || strings.Contains(name, "SOCK") || strings.ContainsAny(name, "*?") {
			t.Errorf("%s", name)
		}
	}
}

func TestDefaultExcludesCannotBeChangedFromOutside(t *testing.T) {
	DefaultExcludes()[0] = "nothing"
	if !compile(DefaultExcludes()).match("A_KEY_B") {
		t.Error("changed")
	}
}

func TestPolicyValidate(t *testing.T) {
	for param, p := range map[string]Policy{
		"inherit": {Inherit: "some"},
		"set":     {Set: map[string]string{"A=B": "x"}},
		"set.A":   {Set: map[string]string{"A": "x\x00"}},
	} {
		f, ok := fault.As(p.Validate())
		if !ok || f.Kind != fault.Invalid || f.Param != param {
			t.Errorf("%s: %v", param, f)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add("A=1\nAPI_KEY=x\nPATH=/bin", "all", "f*", "*", "*a*")
	f.Fuzz(func(t *testing.T, environ, inherit, allow, exclude, only string) {
		p := Policy{Inherit: Inherit(inherit), Allow: []string{allow}, Exclude: []string{exclude}, IncludeOnly: []string{only}}
		got := p.Apply(strings.Split(environ, "\n"))
		if !slices.IsSorted(got) {
			t.Fatalf("%q is not sorted", got)
		}
		for _, entry := range got {
			name, _, ok := strings.Cut(entry, "=")
			if !ok || name == "" || Match(exclude, name) || !Match(only, name) || compile(defaultExcludes).match(name) && name != allow {
				t.Fatalf("%q passed", entry)
			}
		}
	})
}
