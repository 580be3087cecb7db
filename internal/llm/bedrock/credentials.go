package bedrock

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/llm/ambient"
)

// early is how long before their end credentials are asked for anew.
const early = 5 * time.Minute

// A Source finds credentials.
type Source interface {
	Credentials(ctx context.Context) (Credentials, error)
}

// Static are credentials that are given.
type Static Credentials

// Credentials implements [Source].
func (s Static) Credentials(context.Context) (Credentials, error) { return Credentials(s), nil }

// Chain finds credentials where AWS's own tools find them, in their order: variables, a web identity, the profile of
// the shared files (keys or a credential_process), a container's endpoint, an instance's. Of a Profile that is given
// nothing else is looked at: variables that happen to be set would else ask with another account's keys. What it found
// is kept until shortly before its end. It is safe for use by many goroutines.
type Chain struct {
	Profile string // of the shared files; empty: AWS_PROFILE, else default
	Region  string // of the token service, for a web identity
	Env     ambient.Env

	kept ambient.Kept[Credentials]
}

// Credentials implements [Source].
func (c *Chain) Credentials(ctx context.Context) (Credentials, error) {
	return c.kept.Get(ctx, c.Env, early, func(ctx context.Context) (Credentials, time.Time, error) {
		found, err := c.find(ctx)
		return found, found.Expires, err
	})
}

func (c *Chain) find(ctx context.Context) (Credentials, error) {
	places := []func(context.Context) (Credentials, error){c.variables, c.webIdentity, c.profile, c.container, c.instance}
	if c.Profile != "" {
		places = []func(context.Context) (Credentials, error){c.profile}
	}
	for _, look := range places {
		if found, err := look(ctx); err != nil || found.complete() {
			return found, err
		}
	}
	if c.Profile != "" {
		return Credentials{}, ambient.None("the AWS profile %q holds no credentials", c.Profile).
			WithTry("aws_access_key_id and aws_secret_access_key, or a credential_process, in that profile")
	}
	return Credentials{}, ambient.None("no AWS credentials were found for Bedrock").
		WithTry("AWS_BEARER_TOKEN_BEDROCK, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, or a profile, in the gateway's environment")
}

// complete says whether they can sign.
func (c Credentials) complete() bool { return c.AccessKey != "" && c.SecretKey != "" }

func (c *Chain) variables(context.Context) (Credentials, error) {
	return Credentials{AccessKey: c.Env.Get("AWS_ACCESS_KEY_ID"), SecretKey: c.Env.Get("AWS_SECRET_ACCESS_KEY"), Session: c.Env.Get("AWS_SESSION_TOKEN")}, nil
}

// profile reads the shared files. Of the many ways to name credentials there, keys and credential_process are read;
// the vendor's own tool turns each of the others into the latter.
func (c *Chain) profile(ctx context.Context) (Credentials, error) {
	name, asked := c.profileName()
	keys := map[string]string{}
	for _, file := range []struct{ variable, name, prefix string }{
		{"AWS_CONFIG_FILE", "config", "profile "},
		{"AWS_SHARED_CREDENTIALS_FILE", "credentials", ""}, // wins
	} {
		path := c.Env.Get(file.variable)
		if path == "" {
			path = filepath.Join(c.Env.Get("HOME"), ".aws", file.name)
			if !filepath.IsAbs(path) {
				continue // without a home, one below the working directory is somebody else's, and could name a program
			}
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // most machines have neither
		}
		section := name
		if name != "default" {
			section = file.prefix + name
		}
		readSection(raw, section, keys)
	}
	switch {
	case keys["aws_access_key_id"] != "" && keys["role_arn"] == "":
		found := Credentials{AccessKey: keys["aws_access_key_id"], SecretKey: keys["aws_secret_access_key"], Session: keys["aws_session_token"]}
		if !found.complete() {
			return Credentials{}, ambient.None("the AWS profile %q has one half of a pair of keys", name).WithTry("aws_secret_access_key beside aws_access_key_id")
		}
		return found, nil
	case keys["credential_process"] != "":
		return c.process(ctx, name, keys["credential_process"])
	case keys["role_arn"] != "" || keys["sso_session"] != "" || keys["sso_start_url"] != "":
		return Credentials{}, ambient.None("the AWS profile %q gets its credentials from a role or from single sign-on", name).
			WithTry("a profile with credential_process = aws configure export-credentials --profile %s --format process", name)
	case asked && len(keys) == 0:
		return Credentials{}, ambient.None("there is no AWS profile %q", name).WithTry("a profile of ~/.aws/config")
	}
	return Credentials{}, nil
}

func (c *Chain) profileName() (name string, asked bool) {
	for _, name := range []string{c.Profile, c.Env.Get("AWS_PROFILE")} {
		if name != "" {
			return name, true
		}
	}
	return "default", false
}

// readSection adds the keys of one section of an INI file.
func readSection(raw []byte, section string, into map[string]string) {
	in := false
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			continue // belongs to a key that is not for us
		}
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			in = strings.Join(strings.Fields(name), " ") == section
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if in && ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			into[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
}

// process runs a profile's own program, which prints credentials.
func (c *Chain) process(ctx context.Context, profile, line string) (Credentials, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &out // what it says beside may hold a secret
	var told struct {
		Version                                    int
		AccessKeyId, SecretAccessKey, SessionToken string
		Expiration                                 string
	}
	err := cmd.Run()
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &told)
	}
	found := ending(told.AccessKeyId, told.SecretAccessKey, told.SessionToken, told.Expiration)
	if err != nil || told.Version != 1 || !found.complete() { // the one version that there is; another one may mean other things
		return Credentials{}, ambient.None("the credential_process of the AWS profile %q gave no credentials", profile).
			WithTry("to run it by hand, as the gateway's user")
	}
	return found, nil
}

// ending are credentials with the time of their end.
func ending(key, secret, session, expires string) Credentials {
	c := Credentials{AccessKey: key, SecretKey: secret, Session: session}
	if at, err := time.Parse(time.RFC3339, expires); err == nil {
		c.Expires = at
	}
	return c
}
