package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/hardshell-dev/hardshell/internal/llm/ambient"
)

// early is how long before its end a token is asked for anew. The metadata service hands the old one out until some five
// minutes before its end.
const early = 225 * time.Second

// Token is an OAuth access token. Project is that of the credentials, Quota the one that pays for calls; both may be
// empty.
type Token struct {
	Value          string
	Expires        time.Time
	Project, Quota string
}

// A Source finds tokens.
type Source interface {
	Token(ctx context.Context) (Token, error)
}

// Static is a token that is given.
type Static Token

// Token implements [Source].
func (s Static) Token(context.Context) (Token, error) { return Token(s), nil }

// Chain finds a token by what the vendor calls Application Default Credentials: a file that is named, the file that
// gcloud lays down, else the metadata service of the machine. A token is kept until shortly before its end. It is safe
// for use by many goroutines.
type Chain struct {
	File string // of credentials; empty: GOOGLE_APPLICATION_CREDENTIALS, else where gcloud puts one
	Env  ambient.Env

	kept ambient.Kept[Token]
}

// Token implements [Source].
func (c *Chain) Token(ctx context.Context) (Token, error) {
	return c.kept.Get(ctx, c.Env, early, func(ctx context.Context) (Token, time.Time, error) {
		found, err := c.file(ctx)
		if err == nil && found.Value == "" {
			found, err = c.metadata(ctx)
		}
		if err == nil && found.Value == "" {
			err = ambient.None("no Google credentials were found for Vertex AI").
				WithTry("an api_key, or a service account's file that credentials_file or GOOGLE_APPLICATION_CREDENTIALS names")
		}
		return found, found.Expires, err
	})
}

// credentials is a file of them, of the types that we know.
type credentials struct {
	Type         string `json:"type"`
	ClientEmail  string `json:"client_email"`
	PrivateKey   string `json:"private_key"`
	PrivateKeyID string `json:"private_key_id"`
	TokenURI     string `json:"token_uri"`
	ProjectID    string `json:"project_id"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RefreshToken string `json:"refresh_token"`
	QuotaProject string `json:"quota_project_id"`
}

// file trades what stands in a file for a token. It finds nothing where no file is named and gcloud has put none.
func (c *Chain) file(ctx context.Context) (Token, error) {
	path := cmp.Or(c.File, c.Env.Get("GOOGLE_APPLICATION_CREDENTIALS"))
	named := path != ""
	if !named {
		path = c.usual()
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		if !named {
			return Token{}, nil // most machines have none
		}
		return Token{}, ambient.Unread(err, "the file of Google credentials cannot be read").
			WithTry("credentials_file or GOOGLE_APPLICATION_CREDENTIALS that name a file which the gateway's user can read")
	}
	var keys credentials
	if json.Unmarshal(raw, &keys) != nil {
		return Token{}, ambient.None("the file of Google credentials is not JSON")
	}
	switch keys.Type {
	case "service_account":
		return c.serviceAccount(ctx, keys)
	case "authorized_user":
		return c.authorizedUser(ctx, keys)
	}
	return Token{}, ambient.None("the file of Google credentials is of the type %q, which is not known here", keys.Type).
		WithTry("the file of a service account, gcloud auth application-default login, or a machine whose metadata service gives tokens")
}

// usual is where gcloud puts credentials. Nowhere else: a file below the working directory is somebody else's.
func (c *Chain) usual() string {
	dir := c.Env.Get("CLOUDSDK_CONFIG")
	if dir == "" && runtime.GOOS == "windows" {
		dir = filepath.Join(c.Env.Get("APPDATA"), "gcloud")
	} else if dir == "" {
		dir = filepath.Join(c.Env.Get("HOME"), ".config", "gcloud")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "application_default_credentials.json")
}

// metadata asks the machine's metadata service. On other machines nothing answers.
func (c *Chain) metadata(ctx context.Context) (Token, error) {
	if c.Env.Get("NO_GCE_CHECK") == "true" {
		return Token{}, nil
	}
	base := "http://" + cmp.Or(c.Env.Get("GCE_METADATA_HOST"), "169.254.169.254") + "/computeMetadata/v1/"
	ask := func(path string) []byte {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err != nil {
			return nil
		}
		req.Header.Set("Metadata-Flavor", "Google")
		said, err := ambient.Near(req)
		if err != nil || !said.OK {
			return nil
		}
		return said.Body
	}
	t, ok := c.read(ask("instance/service-accounts/default/token"))
	if !ok {
		return Token{}, nil
	}
	t.Project = string(ask("project/project-id"))
	return t, nil
}
