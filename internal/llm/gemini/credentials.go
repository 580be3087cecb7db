package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// early is how long before its end a token is asked for anew. The metadata service hands the old one out until some five
// minutes before its end.
const early = 225 * time.Second

// lookup bounds the search for a token.
const lookup = 15 * time.Second

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
	File   string              // of credentials; empty: GOOGLE_APPLICATION_CREDENTIALS, else where gcloud puts one
	Getenv func(string) string // nil: os.Getenv
	Now    func() time.Time    // nil: time.Now

	mu   sync.Mutex
	have Token
}

func (c *Chain) getenv(name string) string {
	if c.Getenv != nil {
		return c.Getenv(name)
	}
	return os.Getenv(name)
}

func (c *Chain) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// Token implements [Source].
func (c *Chain) Token(ctx context.Context) (Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.have.Value != "" && c.now().Before(c.have.Expires.Add(-early)) {
		return c.have, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookup)
	defer cancel()
	found, err := c.file(ctx)
	if err == nil && found.Value == "" {
		found, err = c.metadata(ctx)
	}
	if err != nil {
		return Token{}, err
	}
	if found.Value == "" {
		return Token{}, none("no Google credentials were found for Vertex AI").
			WithTry("an api_key, or a service account's file that credentials_file or GOOGLE_APPLICATION_CREDENTIALS names")
	}
	c.have = found
	return found, nil
}

// none is the fault for credentials that are not there, or no good.
func none(format string, args ...any) *fault.Error {
	return fault.New(fault.Upstream, format, args...).WithCode("server_error")
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
	path := cmp.Or(c.File, c.getenv("GOOGLE_APPLICATION_CREDENTIALS"))
	named := path != ""
	if !named {
		path = c.usual()
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		if !named {
			return Token{}, nil // most machines have none
		}
		return Token{}, fault.Wrap(fault.Upstream, err, "the file of Google credentials cannot be read").WithCode("server_error").
			WithTry("credentials_file or GOOGLE_APPLICATION_CREDENTIALS that name a file which the gateway's user can read")
	}
	var keys credentials
	if json.Unmarshal(raw, &keys) != nil {
		return Token{}, none("the file of Google credentials is not JSON")
	}
	switch keys.Type {
	case "service_account":
		return c.serviceAccount(ctx, keys)
	case "authorized_user":
		return c.authorizedUser(ctx, keys)
	}
	return Token{}, none("the file of Google credentials is of the type %q, which is not known here", keys.Type).
		WithTry("the file of a service account, gcloud auth application-default login, or a machine whose metadata service gives tokens")
}

// usual is where gcloud puts credentials. Nowhere else: a file below the working directory is somebody else's.
func (c *Chain) usual() string {
	dir := c.getenv("CLOUDSDK_CONFIG")
	if dir == "" && runtime.GOOS == "windows" {
		dir = filepath.Join(c.getenv("APPDATA"), "gcloud")
	} else if dir == "" {
		dir = filepath.Join(c.getenv("HOME"), ".config", "gcloud")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "application_default_credentials.json")
}

// metadata asks the machine's metadata service. On other machines nothing answers.
func (c *Chain) metadata(ctx context.Context) (Token, error) {
	if c.getenv("NO_GCE_CHECK") == "true" {
		return Token{}, nil
	}
	base := "http://" + cmp.Or(c.getenv("GCE_METADATA_HOST"), "169.254.169.254") + "/computeMetadata/v1/"
	ask := func(path string) []byte {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err != nil {
			return nil
		}
		req.Header.Set("Metadata-Flavor", "Google")
		raw, _, err := fetch(near, req)
		if err != nil {
			return nil
		}
		return raw
	}
	t, ok := c.read(ask("instance/service-accounts/default/token"))
	if !ok {
		return Token{}, nil
	}
	t.Project = string(ask("project/project-id"))
	return t, nil
}
