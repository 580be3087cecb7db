package gemini

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/ambient"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// signer is the service account's key.
var signer = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func pemOf(t *testing.T, typ string) string {
	t.Helper()
	raw := x509.MarshalPKCS1PrivateKey(signer())
	if typ == "PRIVATE KEY" {
		var err error
		if raw, err = x509.MarshalPKCS8PrivateKey(signer()); err != nil {
			t.Fatal(err)
		}
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: raw}))
}

// claimed checks a signed claim as the token service does.
func claimed(assertion, audience string) error {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return fmt.Errorf("%d parts", len(parts))
	}
	var head, body map[string]any
	for i, v := range []*map[string]any{&head, &body} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(raw, v)
		}
		if err != nil {
			return err
		}
	}
	signed, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&signer().PublicKey, crypto.SHA256, sum[:], signed); err != nil {
		return err
	}
	if head["alg"] != "RS256" || head["kid"] != "kid-1" || body["iss"] != "me@p.iam" || body["aud"] != audience || body["scope"] != scope ||
		body["iat"] != float64(noon.Unix()) || body["exp"] != float64(noon.Unix()+3600) {
		return fmt.Errorf("%v %v", head, body)
	}
	return nil
}

// services plays the token service and the machine's metadata.
func services(t *testing.T, asked *[]string) string {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, whose string) {
		fmt.Fprintf(w, `{"access_token":"token of %s","expires_in":3600,"token_type":"Bearer"}`, whose)
	}
	srv := httptest.NewServer(mux)
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Path)
		switch {
		case r.FormValue("grant_type") == "refresh_token" && r.FormValue("refresh_token") == "refresh-secret" && r.FormValue("client_id") == "id" &&
			r.FormValue("client_secret") == "client-secret":
			answer(w, "a person")
		case r.FormValue("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer":
			if err := claimed(r.FormValue("assertion"), srv.URL+"/token"); err != nil {
				t.Errorf("claim: %v", err)
			}
			answer(w, "an account")
		default:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant","error_description":"Bad refresh-secret"}`)
		}
	})
	mux.HandleFunc("GET /computeMetadata/v1/", func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Path)
		switch {
		case r.Header.Get("Metadata-Flavor") != "Google":
			w.WriteHeader(http.StatusForbidden)
		case strings.HasSuffix(r.URL.Path, "/instance/service-accounts/default/token"):
			answer(w, "a machine")
		case strings.HasSuffix(r.URL.Path, "/project/project-id"):
			fmt.Fprint(w, "machine-project")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestChain(t *testing.T) {
	dir := t.TempDir()
	var asked []string
	url := services(t, &asked)
	file := func(name string, keys map[string]string) string {
		raw, err := json.Marshal(keys)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	account := func(name, key, at string) string {
		return file(name, map[string]string{"type": "service_account", "client_email": "me@p.iam", "private_key": key, "private_key_id": "kid-1",
			"token_uri": at, "project_id": "account-project"})
	}
	person := func(name, token, at string) string {
		return file(name, map[string]string{"type": "authorized_user", "client_id": "id", "client_secret": "client-secret", "refresh_token": token,
			"token_uri": at, "quota_project_id": "pays"})
	}
	good := account("account", pemOf(t, "PRIVATE KEY"), url+"/token")
	user := person("application_default_credentials.json", "refresh-secret", url+"/token")
	metadata := strings.TrimPrefix(url, "http://")
	for _, tt := range []struct {
		name string
		file string
		env  map[string]string
		want string // of the token, its project and who pays, or a part of the error
	}{
		{"a file that is configured", good, map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": user}, "an account account-project "},
		{"a file that is named", "", map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": good}, "an account account-project "},
		{"a key in the old form", account("old", pemOf(t, "RSA PRIVATE KEY"), url+"/token"), nil, "an account account-project "},
		{"gcloud's own file", "", map[string]string{"CLOUDSDK_CONFIG": dir, "GCE_METADATA_HOST": metadata}, "a person  pays"},
		{"a person who is gone", person("gone", "old", url+"/token"), nil, `refused the person of the credentials: "invalid_grant"`},
		{"a machine", "", map[string]string{"GCE_METADATA_HOST": metadata}, "a machine machine-project "},
		{"a machine that is not asked", "", map[string]string{"GCE_METADATA_HOST": metadata, "NO_GCE_CHECK": "true"}, "no Google credentials were found"},
		{"a file that is not there", filepath.Join(dir, "nowhere"), map[string]string{"GCE_METADATA_HOST": metadata}, "cannot be read"},
		{"a key that is none", account("bad", "secret", url+"/token"), nil, "the private_key of the service account me@p.iam cannot be used: it is not PEM"},
		{"a key of another kind", account("worse", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})), url+"/token"), nil, "it is no RSA key"},
		{"a token service without TLS", person("plain", "refresh-secret", "http://elsewhere.example/token"), nil, "is not an https address"},
		{"a federation", file("federation", map[string]string{"type": "external_account", "token_url": "https://sts.example"}), nil, `of the type "external_account"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"HOME": t.TempDir(), "APPDATA": t.TempDir()}
			maps.Copy(env, tt.env)
			if env["GCE_METADATA_HOST"] == "" {
				env["NO_GCE_CHECK"] = "true"
			}
			c := Chain{File: tt.file, Env: ambient.Env{Getenv: func(name string) string { return env[name] }, Now: func() time.Time { return noon }}}
			got, err := c.Token(t.Context())
			if err != nil {
				if e, ok := fault.As(err); !ok || e.Kind != fault.Upstream || !strings.Contains(e.Message, tt.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("err = %v, want %q", err, tt.want)
				}
				return
			}
			if s := got.Value + " " + got.Project + " " + got.Quota; s != "token of "+tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

// A file below the working directory is not taken for gcloud's where no home is known.
func TestCredentialsOfTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := filepath.Join(".config", "gcloud")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "application_default_credentials.json"), []byte(`{"type":"planted"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, env := range []map[string]string{{"NO_GCE_CHECK": "true"}, {"NO_GCE_CHECK": "true", "CLOUDSDK_CONFIG": dir}} {
		c := Chain{Env: ambient.Env{Getenv: func(name string) string { return env[name] }}}
		if _, err := c.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "no Google credentials were found") {
			t.Errorf("%v: err = %v", env, err)
		}
	}
}

func TestChainAsksAgainBeforeTheEnd(t *testing.T) {
	var asked []string
	env := map[string]string{"HOME": t.TempDir(), "APPDATA": t.TempDir(), "GCE_METADATA_HOST": strings.TrimPrefix(services(t, &asked), "http://")}
	now := noon
	c := Chain{Env: ambient.Env{Getenv: func(name string) string { return env[name] }, Now: func() time.Time { return now }}}
	for _, step := range []struct {
		at    time.Duration
		asked int
	}{{0, 2}, {time.Minute, 2}, {56 * time.Minute, 2}, {61 * time.Minute, 4}} { // the end is at 60, what is before it is ambient's
		now = noon.Add(step.at)
		if _, err := c.Token(t.Context()); err != nil || len(asked) != step.asked {
			t.Errorf("after %s: %d requests, want %d (%v)", step.at, len(asked), step.asked, err)
		}
	}
}

func TestChainIsWaitedForByWhoWantsTo(t *testing.T) {
	providertest.Impatient(t, func(url string) func(context.Context) error {
		env := map[string]string{"HOME": t.TempDir(), "APPDATA": t.TempDir(), "GCE_METADATA_HOST": strings.TrimPrefix(url, "http://")}
		c := Chain{Env: ambient.Env{Getenv: func(name string) string { return env[name] }}}
		return func(ctx context.Context) error { _, err := c.Token(ctx); return err }
	})
}
