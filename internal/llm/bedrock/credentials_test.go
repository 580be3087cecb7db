package bedrock

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/ambient"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
)

// services plays the token service, a container's endpoint and an instance's.
func services(t *testing.T, asked *[]string) string {
	const answer = `{"AccessKeyId":"AK%s","SecretAccessKey":"secret","Token":"session","Expiration":"2026-01-01T01:00:00Z"}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.Path)
		switch {
		case r.URL.Path == "/container" && r.Header.Get("Authorization") == "let me in":
			fmt.Fprintf(w, answer, "container")
		case r.Method == http.MethodPut && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "":
			fmt.Fprint(w, "token")
		case strings.HasPrefix(r.URL.Path, "/latest/meta-data/") && r.Header.Get("X-Aws-Ec2-Metadata-Token") != "token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/":
			fmt.Fprint(w, "my-role\n")
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/my-role":
			fmt.Fprintf(w, answer, "instance")
		case r.URL.Path == "/" && r.FormValue("Action") == "AssumeRoleWithWebIdentity" && r.FormValue("WebIdentityToken") == "jwt":
			fmt.Fprint(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>`+
				`<Credentials><AccessKeyId>AKweb</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>`+
				`<Expiration>2026-01-01T01:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestChain(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := file("config", `
[default]
region = eu-central-1
s3 =
  aws_access_key_id = not this
[profile tool]
credential_process = echo '{"Version":1,"AccessKeyId":"AKprocess","SecretAccessKey":"secret","Expiration":"2026-01-01T01:00:00Z"}'
[profile broken]
credential_process = echo secret-in-an-error; exit 3
[profile later]
credential_process = echo '{"Version":2,"AccessKeyId":"AKprocess","SecretAccessKey":"secret"}'
[profile halftool]
credential_process = echo '{"Version":1,"AccessKeyId":"AKprocess"}'
[profile half]
aws_access_key_id = AKhalf
[profile region]
region = eu-central-1
[profile role]
role_arn = arn:aws:iam::1:role/x
source_profile = default
[profile keys]
aws_access_key_id = from-config
`)
	credentials := file("credentials", "[default]\naws_access_key_id=AKfile\n# aws_access_key_id=AKcomment\naws_secret_access_key = secret\n\n[keys]\naws_access_key_id = AKkeys\naws_secret_access_key = s\n")
	jwt := file("jwt", "jwt\n")
	var asked []string
	url := services(t, &asked)
	none := file("none", "")
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "AKenv", "AWS_SECRET_ACCESS_KEY": "s", "AWS_WEB_IDENTITY_TOKEN_FILE": jwt, "AWS_ROLE_ARN": "arn",
		"AWS_ENDPOINT_URL_STS": url, "AWS_PROFILE": "tool", "AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "let me in"}
	for _, tt := range []struct {
		name    string
		profile string // that is configured
		env     map[string]string
		want    string // the access key, or a part of the error
	}{
		{"a profile that is configured", "keys", keys, "AKkeys"},
		{"the default profile, configured", "default", keys, "AKfile"},
		{"a profile that is configured and not there", "nobody", keys, "there is no AWS profile \"nobody\""},
		{"a profile that is configured and holds none", "region", keys, "the AWS profile \"region\" holds no credentials"},
		{"variables", "", map[string]string{"AWS_ACCESS_KEY_ID": "AKenv", "AWS_SECRET_ACCESS_KEY": "s", "AWS_PROFILE": "keys"}, "AKenv"},
		{"half of the variables", "", map[string]string{"AWS_ACCESS_KEY_ID": "AKenv"}, "AKfile"},
		{"a web identity", "", map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": jwt, "AWS_ROLE_ARN": "arn", "AWS_ENDPOINT_URL_STS": url}, "AKweb"},
		{"a web identity that is refused", "", map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": config, "AWS_ROLE_ARN": "arn", "AWS_ENDPOINT_URL_STS": url}, "gave no credentials for the role"},
		{"the default profile", "", nil, "AKfile"},
		{"a profile", "", map[string]string{"AWS_PROFILE": "keys"}, "AKkeys"},
		{"a profile's program", "", map[string]string{"AWS_PROFILE": "tool"}, "AKprocess"},
		{"a profile's program that fails", "", map[string]string{"AWS_PROFILE": "broken"}, "credential_process of the AWS profile \"broken\" gave no credentials"},
		{"a profile with half of the keys", "", map[string]string{"AWS_PROFILE": "half"}, "the AWS profile \"half\" has one half of a pair of keys"},
		{"a profile's program of another version", "", map[string]string{"AWS_PROFILE": "later"}, "credential_process of the AWS profile \"later\" gave no credentials"},
		{"a profile's program that gives half", "", map[string]string{"AWS_PROFILE": "halftool"}, "credential_process of the AWS profile \"halftool\" gave no credentials"},
		{"a profile of a role", "", map[string]string{"AWS_PROFILE": "role"}, "from a role or from single sign-on"},
		{"a profile that is not there", "", map[string]string{"AWS_PROFILE": "nobody"}, "there is no AWS profile \"nobody\""},
		{"a container", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": none, "AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/container",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN": "let me in"}, "AKcontainer"},
		{"a container's endpoint elsewhere", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": none,
			"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://elsewhere.example/"}, "neither this machine nor asked by https"},
		{"an instance", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_SERVICE_ENDPOINT": url}, "AKinstance"},
		{"nothing", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "true"}, "no AWS credentials were found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"AWS_CONFIG_FILE": config, "AWS_SHARED_CREDENTIALS_FILE": credentials, "AWS_EC2_METADATA_DISABLED": "true"}
			if tt.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] != "" {
				delete(env, "AWS_EC2_METADATA_DISABLED")
			}
			maps.Copy(env, tt.env)
			c := Chain{Region: "us-east-1", Profile: tt.profile, Env: ambient.Env{Getenv: func(name string) string { return env[name] }}}
			got, err := c.Credentials(t.Context())
			if err != nil {
				if e, ok := fault.As(err); !ok || e.Kind != fault.Upstream || !strings.Contains(e.Message, tt.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("err = %v, want %q", err, tt.want)
				}
				return
			}
			if got.AccessKey != tt.want || got.SecretKey == "" {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
}

// A file below the working directory is not taken for the user's where no home is known: it could name a program.
func TestProfileOfTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir(".aws", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(".aws", "config"), []byte("[default]\ncredential_process = touch ran\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Chain{Env: ambient.Env{Getenv: func(name string) string { return map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}[name] }}}
	if _, err := c.Credentials(t.Context()); err == nil || !strings.Contains(err.Error(), "no AWS credentials were found") {
		t.Errorf("err = %v", err)
	}
	if _, err := os.Stat("ran"); err == nil {
		t.Error("a program of the working directory was run")
	}
}

func TestChainAsksAgainBeforeTheEnd(t *testing.T) {
	var asked []string
	url := services(t, &asked)
	env := map[string]string{"HOME": t.TempDir(), "AWS_EC2_METADATA_SERVICE_ENDPOINT": url}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := Chain{Env: ambient.Env{Getenv: func(name string) string { return env[name] }, Now: func() time.Time { return now }}}
	for _, step := range []struct {
		at    time.Duration
		asked int
	}{{0, 3}, {time.Minute, 3}, {54 * time.Minute, 3}, {61 * time.Minute, 6}} { // the end is at 60, what is before it is ambient's
		now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(step.at)
		if _, err := c.Credentials(t.Context()); err != nil || len(asked) != step.asked {
			t.Errorf("after %s: %d requests, want %d (%v)", step.at, len(asked), step.asked, err)
		}
	}
}

func TestChainIsWaitedForByWhoWantsTo(t *testing.T) {
	providertest.Impatient(t, func(url string) func(context.Context) error {
		env := map[string]string{"HOME": t.TempDir(), "AWS_EC2_METADATA_SERVICE_ENDPOINT": url}
		c := Chain{Env: ambient.Env{Getenv: func(name string) string { return env[name] }}}
		return func(ctx context.Context) error { _, err := c.Credentials(ctx); return err }
	})
}
