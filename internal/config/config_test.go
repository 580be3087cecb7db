package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hardshell.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func environ(t testing.TB, more ...string) []string {
	return append([]string{"HOME=" + t.TempDir()}, more...)
}

func TestNothingIsNeeded(t *testing.T) {
	home := t.TempDir()
	for name, c := range map[string]struct {
		source Source
		data   string
	}{
		"a person":       {Source{Environ: []string{"HOME=" + home}, UID: 1000}, home + "/.local/share/hardshell"},
		"root":           {Source{Environ: []string{"HOME=" + home}}, "/var/lib/hardshell"},
		"XDG":            {Source{Environ: []string{"HOME=" + home, "XDG_DATA_HOME=/x"}}, "/x/hardshell"},
		"HARDSHELL_DATA": {Source{Environ: []string{"HOME=" + home, "HARDSHELL_DATA=/d"}, UID: 1000}, "/d"},
		"key before it":  {Source{Environ: []string{"HOME=" + home, "HARDSHELL_DATA=/d", "HARDSHELL_STORAGE__DATA=/s"}}, "/s"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Load(c.source)
			if err != nil {
				t.Fatal(err)
			}
			if l.Config.Storage.Data != c.data {
				t.Errorf("data = %s, want %s", l.Config.Storage.Data, c.data)
			}
		})
	}
	if _, err := Load(Source{UID: 1000}); err == nil || !strings.Contains(err.Error(), "HOME") {
		t.Errorf("without a home: %v", err)
	}
}

func TestTheWorkingDirectoryIsNotRead(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("hardshell.toml", []byte("[server]\nlisten = \"0.0.0.0:1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Load(Source{Environ: environ(t)})
	if err != nil || l.Path != "" {
		t.Fatalf("path %q, error %v", l.Path, err)
	}
}

func TestWrongFiles(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string // parts of message and try line; the first names the place
	}{
		"unknown key":           {"[server]\nlissten = \"x\"\n", []string{":2:1: ", `unknown key "server.lissten"`, `did you mean "server.listen"?`, "   2 | lissten", "     | ^"}},
		"unknown table":         {"[features.shel]\ntype = \"jail\"\n", []string{":1:", `"features.shel"`, `did you mean "features.shell"?`}},
		"key in the wrong room": {"[features]\ncommand_timeout_secs = 3\n", []string{":2:1: ", `did you mean "features.server_tools.shell_limits.command_timeout_secs"?`}},
		"key of a provider":     {"[providers.mine]\nbase_ur = \"http://a/v1\"\n", []string{":2:1: ", `did you mean "providers.mine.base_url"?`}},
		"two at once":           {"[server]\na1 = 1\nlistn = 2\n", []string{":2:1: ", ":3:1: "}},
		"wrong type":            {"[server]\nlisten = 7070\n", []string{":2:", "server.listen wants a string, not integer"}},
		"wrong type, number":    {"\n[features.server_tools]\nmax_iterations = \"ten\"\n", []string{":3:", "features.server_tools.max_iterations wants a whole number, not string"}},
		"not TOML":              {"[server\n", []string{":1:"}},
		"bad value":             {"[server]\n  listen = \"nowhere\"\n", []string{":2:3: server.listen: ", "127.0.0.1:7070"}},
		"bad value, inline":     {"features = { shell = { type = \"jial\" } }\n", []string{":1:", "features.shell.type: ", "jail, client_passthrough, passthrough_openai, none"}},
		"later runtime":         {"[features.shell]\ntype = \"microsandbox\"\n", []string{":2:1: ", "not in this version"}},
		"half a certificate":    {"[server.tls]\ncert = \"/c.pem\"\n", []string{":2:1: server.tls.cert", "both"}},
		"provider without URL":  {"[providers.a]\ntype = \"chat\"\n", []string{"providers.a.base_url", "base_url ="}},
		"password in a URL":     {"[providers.a]\nbase_url = \"http://u:p@h/v1\"\n", []string{":2:1: ", "password"}},
		"key of another type":   {"[providers.a]\nbase_url = \"http://h/v1\"\ncache = \"5m\"\n", []string{":3:1: ", "type anthropic"}},
		"location of a host":    {"[providers.a]\ntype = \"gemini\"\nlocation = \"evil.example/\"\n", []string{":3:1: ", "is no location"}},
		"project with a path":   {"[providers.a]\ntype = \"gemini\"\nproject = \"a/../b\"\n", []string{":3:1: ", "is no project"}},
		"key and credentials":   {"[providers.a]\ntype = \"gemini\"\napi_key = \"k\"\ncredentials_file = \"/f\"\n", []string{":4:1: ", "do not go together"}},
		"fallbacks to nothing":  {"[models.fallbacks]\nsteady = []\n", []string{":2:1: ", "1 to 8 models"}},
		"alias with fallbacks":  {"[models.fallbacks]\na = [\"b/c\"]\n[models.aliases]\na = \"b/c\"\n", []string{":2:1: ", "no alias"}},
		"number of tries":       {"[providers.a]\nbase_url = \"http://h/v1\"\nmax_tries = -1\n", []string{":3:1: ", "out of bounds"}},
		"secret not there":      {"[providers.a]\nbase_url = \"http://h/v1\"\napi_key = \"env:NOT_SET_ANYWHERE\"\n", []string{":3:1: ", "NOT_SET_ANYWHERE is not set", "export"}},
		"secret file absent":    {"[providers.a]\nbase_url = \"http://h/v1\"\napi_key = \"file:absent\"\n", []string{":3:1: ", "absent"}},
		"default over ceiling":  {"[features.containers]\ndefault_idle_ttl_secs = 7200\nmax_idle_ttl_secs = 3600\n", []string{":2:1: ", "above the ceiling"}},
		"domain secret absent":  {"[features.server_tools.shell_limits.allowed_domain_secrets.K]\nvalue = \"env:NOT_SET_ANYWHERE\"\nallowed_hosts = [\"a.test\"]\n", []string{":2:1: ", "NOT_SET_ANYWHERE is not set"}},
		"domain secret without": {"[features.server_tools.shell_limits.allowed_domain_secrets.K]\nallowed_hosts = [\"a.test\"]\n", []string{"K.value", "needs a value"}},
		"kind of file address":  {"[features.server_tools.shell_limits]\ninput_file_urls = \"ftp\"\n", []string{":2:1: ", "input_file_urls", "https"}},
		"range of file address": {"[features.server_tools.shell_limits]\ninput_file_url_ranges = [\"localhost\"]\n", []string{":2:1: ", "input_file_url_ranges", "10.1.0.0/16"}},
		"negative":              {"[features.server_tools.shell_limits]\ncommand_timeout_secs = -1\n", []string{":2:1: ", "out of bounds"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.text)
			_, err := Load(Source{Path: path, Environ: environ(t)})
			f, ok := fault.As(err)
			if !ok || f.Kind != fault.Invalid {
				t.Fatalf("error = %v", err)
			}
			text := f.Error() + "\n" + f.Try
			if strings.HasPrefix(c.want[0], ":") && !strings.Contains(text, path+c.want[0]) {
				t.Errorf("no place %s in\n%s", path+c.want[0], text)
			}
			for _, part := range c.want[1:] {
				if !strings.Contains(text, part) {
					t.Errorf("no %q in\n%s", part, text)
				}
			}
		})
	}
}

// TestEveryLeafHasAVariable sets each key of the schema by its variable and looks that it arrived.
func TestEveryLeafHasAVariable(t *testing.T) {
	special := map[string]string{
		"server.listen": "127.0.0.1:1", "server.allowed_hosts": "a.example, b.example", "features.shell.type": "none",
		approvalKey + "policy": "untrusted", approvalKey + "organisations.NAME.policy": "untrusted",
		"features.shell.default_environment": "local", "providers.NAME.base_url": "http://127.0.0.1:9/v1",
		"providers.NAME.type": "chat", "providers.NAME.max_tokens_field": "max_tokens", "log.level": "debug", "log.format": "json", "providers.NAME.cache": "5m",
		"providers.NAME.version": "2026-10-21", "providers.NAME.native_shell": "off", "providers.NAME.scripts": "/somewhere",
		"storage.data": "/somewhere", "server.tls.cert": "/c.pem", "server.tls.key": "/k.pem",
		limitsKey + "input_file_urls": "off", limitsKey + "input_file_url_ranges": "10.1.0.0/16", limitsKey + "input_file_url_timeout_secs": "10",
		EgressKey: "*.a.example, b.example:8443", limitsKey + "allowed_egress_ranges": "10.1.0.0/16", limitsKey + "egress_bundles.NAME": "a.example",
		limitsKey + "allowed_domain_secrets.NAME.value": "hidden-value", limitsKey + "allowed_domain_secrets.NAME.allowed_hosts": "a.example",
		"storage.container_files.backend": "database", "storage.container_files.s3.endpoint": "https://s3.example.com",
		"storage.container_files.s3.sse": "AES256", "telemetry.metrics": "false", "features.responses.compaction.enabled": "true", "features.responses.compaction.default_strategy": "llm", "telemetry.otlp.endpoint": "http://127.0.0.1:4318",
	}
	leaves := 0
	for _, key := range schema(reflect.TypeFor[Config](), "") {
		if !isLeafKey(key) {
			continue
		}
		leaves++
		t.Run(key, func(t *testing.T) {
			value := special[key]
			probe := Default()
			if value == "" {
				value = "2048"
				if strings.HasSuffix(key, "allow_public") || strings.HasSuffix(key, "path_style") || strings.HasSuffix(key, "commands_in_order") {
					value = "true"
				}
			}
			env := environ(t, variable(key)+"="+value)
			for _, needed := range []string{"providers.NAME.base_url", "server.tls.cert", "server.tls.key",
				limitsKey + "allowed_domain_secrets.NAME.value", limitsKey + "allowed_domain_secrets.NAME.allowed_hosts"} {
				if strings.HasPrefix(key, needed[:strings.LastIndex(needed, ".")]) && key != needed && key != "providers.NAME.scripts" { // which asks nobody
					env = append(env, variable(needed)+"="+special[needed])
				}
			}
			if key == "features.server_tools.shell_limits.default_mem_limit_mb" || key == "features.server_tools.max_iterations" {
				env[1] = variable(key) + "=77"
				value = "77"
			}
			for _, own := range ofTypes {
				if key == "providers.NAME."+own.key && own.types[0] != ProviderChat {
					env = append(env, variable("providers.NAME.type")+"="+own.types[0])
				}
			}
			if key == "features.containers.max_idle_ttl_secs" {
				env = append(env, variable("features.containers.default_idle_ttl_secs")+"=60")
			}
			l, err := Load(Source{Environ: env})
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, k := range l.Keys() {
				if k.Variable == variable(key) && k.Source == variable(key) {
					found = true
				}
			}
			if !found || reflect.DeepEqual(l.Config, probe) {
				t.Errorf("%s=%s did not arrive", variable(key), value)
			}
		})
	}
	if leaves < 25 {
		t.Errorf("only %d leaves in the schema", leaves)
	}
}

func isLeafKey(key string) bool {
	for _, other := range schema(reflect.TypeFor[Config](), "") {
		if strings.HasPrefix(other, key+".") {
			return false
		}
	}
	return true
}

func TestVariableWinsOverFile(t *testing.T) {
	path := write(t, "[providers.my-llm]\nbase_url = \"http://file/v1\"\nmodels = [\"a\"]\n")
	l, err := Load(Source{Path: path, Environ: environ(t, "HARDSHELL_PROVIDERS__MY_LLM__BASE_URL=http://env/v1",
		"HARDSHELL_PROVIDERS__MY_LLM__MODELS=x, y", "HARDSHELL_MODELS__ALIASES__FAST=my-llm/x")})
	if err != nil {
		t.Fatal(err)
	}
	p := l.Config.Providers["my-llm"]
	if p.BaseURL != "http://env/v1" || !reflect.DeepEqual(p.Models, []string{"x", "y"}) || len(l.Config.Providers) != 1 {
		t.Errorf("providers = %+v", l.Config.Providers)
	}
	if l.Config.Models.Aliases["fast"] != "my-llm/x" {
		t.Errorf("aliases = %v", l.Config.Models.Aliases)
	}
}

func TestWrongVariables(t *testing.T) {
	for entry, want := range map[string]string{
		"HARDSHELL_SERVER__LISTN=x":                    "HARDSHELL_SERVER__LISTEN",
		"HARDSHELL_FEATURES__SHELL=x":                  "names no key",
		"HARDSHELL_SERVER__ALLOW_PUBLIC=perhaps":       "true or false",
		"HARDSHELL_SERVER__MAX_BODY_BYTES=much":        "whole number",
		"HARDSHELL_SERVER__LISTEN=here":                "HARDSHELL_SERVER__LISTEN",
		"HARDSHELL_PROVIDERS__A__API_KEY=env:NOT_SET_": "NOT_SET_ is not set",
	} {
		_, err := Load(Source{Environ: environ(t, entry)})
		f, _ := fault.As(err)
		if f == nil || !strings.Contains(f.Error()+f.Try, want) {
			t.Errorf("%s: %v, want %q", entry, err, want)
		}
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	const secret = "sk-very-secret-0123"
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := write(t, "[providers.a]\nbase_url = \"http://h/v1\"\napi_key = \"file:"+file+"\"\nheaders = { x-key = \"env:K\" }\n")
	l, err := Load(Source{Path: path, Environ: environ(t, "K="+secret)})
	if err != nil {
		t.Fatal(err)
	}
	p := l.Config.Providers["a"]
	if p.APIKey.Reveal() != secret || p.Headers["x-key"].Reveal() != secret {
		t.Fatal("the secrets did not arrive")
	}
	encoded, err := json.Marshal(l.Config)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "provider", p, "key", p.APIKey, "config", l.Config)
	hidden := struct{ inside Provider }{p}
	for _, text := range []string{string(encoded), log.String(), fmt.Sprint(p, l.Config, l), fmt.Sprintf("%+v %#v %x", p, p, p), fmt.Sprintf("%s %q", p.APIKey, p.Headers),
		fmt.Sprintf("%v %+v %#v %x", hidden, hidden, hidden, hidden), fmt.Sprint(l.Keys()), fmt.Sprintf("%x %d %c", p.APIKey, p.APIKey, p.APIKey)} {
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
			t.Errorf("the secret is in %s", text)
		}
	}
	// Neither does an error about the line that holds it.
	_, err = Load(Source{Path: write(t, "[providers.a]\nbase_url = \"http://h/v1\"\napi_key = \""+secret+" \"\n"), Environ: environ(t)})
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "api_key") {
		t.Errorf("error = %v", err)
	}
}

func TestPathsOfAFileAreRelativeToIt(t *testing.T) {
	path := write(t, "[storage]\ndata = \"d\"\n")
	l, err := Load(Source{Path: path, Environ: environ(t)})
	if err != nil || l.Config.Storage.Data != filepath.Join(filepath.Dir(path), "d") {
		t.Errorf("data = %s, %v", l.Config.Storage.Data, err)
	}
}

func TestFoundProviders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"version":"1"}`) }))
	defer server.Close()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close() // it accepts and never answers
	silent, live := "OLLAMA_HOST="+nobody.Addr().String(), "OLLAMA_HOST="+strings.TrimPrefix(server.URL, "http://")
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"nothing":        {[]string{silent}, "scripted"},
		"openai":         {[]string{silent, "OPENAI_API_KEY=k"}, "openai scripted"},
		"anthropic":      {[]string{silent, "ANTHROPIC_API_KEY=k"}, "anthropic scripted"},
		"bedrock":        {[]string{silent, "AWS_BEARER_TOKEN_BEDROCK=k"}, "bedrock scripted"},
		"gemini":         {[]string{silent, "GEMINI_API_KEY=k"}, "gemini scripted"},
		"google":         {[]string{silent, "GOOGLE_API_KEY=k"}, "gemini scripted"},
		"a local server": {[]string{silent, "OPENAI_BASE_URL=http://127.0.0.1:8080/v1/"}, "openai scripted"},
		"ollama":         {[]string{live, "GROQ_API_KEY=k"}, "groq ollama scripted"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			c2 := WithFound(t.Context(), Default(), c.env)
			if got := strings.Join(c2.ProviderNames(), " "); got != c.want {
				t.Errorf("providers = %s, want %s", got, c.want)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
			for _, p := range c2.Providers {
				if p.Origin == "" {
					t.Errorf("%+v says nothing of its origin", p)
				}
			}
		})
	}
	configured := Default()
	configured.Providers["openai"] = Provider{Type: ProviderChat, BaseURL: "http://mine/v1"}
	if got := WithFound(t.Context(), configured, []string{silent, "OPENAI_API_KEY=k"}).Providers["openai"]; got.BaseURL != "http://mine/v1" || !got.APIKey.Empty() {
		t.Errorf("a configured provider was changed: %+v", got)
	}
}

func TestDataFolderIsForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for _, step := range []string{"made", "there"} {
		if err := PrepareData(dir); err != nil {
			t.Fatal(step, err)
		}
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := PrepareData(open); err != nil {
		t.Fatal("an empty folder:", err)
	}
	for _, d := range []string{dir, open} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", d, info.Mode(), err)
		}
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "letter"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := PrepareData(home); err == nil {
		t.Error("somebody's folder was taken")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("[server]\nlisten = \"127.0.0.1:7070\"\n[providers.a]\nbase_url = \"http://h/v1\"\nheaders = { a = \"b\" }\n")
	f.Add("features = { shell = { type = \"none\" } }\n[[providers]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "f.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := Load(Source{Path: path, Environ: []string{"HOME=/nowhere"}}); err == nil {
			l.Keys()
		}
	})
}

// TestEverySecretIsFollowed: whichever key takes a secret, env:NAME in it is what NAME holds.
func TestEverySecretIsFollowed(t *testing.T) {
	const canary = "sk-canary-of-the-environment"
	needed := map[string][]string{
		"providers.NAME.api_key":                        {"providers.NAME.base_url=http://127.0.0.1:9/v1"},
		"providers.NAME.headers.NAME":                   {"providers.NAME.base_url=http://127.0.0.1:9/v1"},
		limitsKey + "allowed_domain_secrets.NAME.value": {limitsKey + "allowed_domain_secrets.NAME.allowed_hosts=a.example"},
	}
	secrets := 0
	for _, key := range schema(reflect.TypeFor[Config](), "") {
		if !isLeafKey(key) || typeOf(reflect.TypeFor[Config](), strings.Split(key, ".")) != secretType {
			continue
		}
		secrets++
		t.Run(key, func(t *testing.T) {
			settings := []string{variable(key) + "=env:THE_CANARY", "THE_CANARY=" + canary}
			for _, more := range needed[key] {
				name, value, _ := strings.Cut(more, "=")
				settings = append(settings, variable(name)+"="+value)
			}
			l, err := Load(Source{Environ: environ(t, settings...)})
			if err != nil {
				t.Fatal(err)
			}
			found := false
			walk(reflect.ValueOf(l.Config), "", func(at string, v reflect.Value) {
				if s, ok := v.Interface().(Secret); ok && s.Reveal() == canary {
					found = true
				}
			})
			if !found {
				t.Error("the reference was not followed")
			}
		})
	}
	if secrets < 4 {
		t.Errorf("only %d keys take a secret", secrets)
	}
}

// typeOf is the type of the key under a path.
func typeOf(t reflect.Type, path []string) reflect.Type {
	switch {
	case len(path) == 0:
		return t
	case t.Kind() == reflect.Map:
		return typeOf(t.Elem(), path[1:])
	}
	for field := range t.Fields() {
		if field.Tag.Get("toml") == path[0] {
			return typeOf(field.Type, path[1:])
		}
	}
	return nil
}
