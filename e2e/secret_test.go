package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The two secrets: one of the request, one of the operator.
const (
	inlineCanary   = "sk-canary-inline-7d793037a076"
	operatorCanary = "sk-canary-operator-6512bd43d9ca"
)

// spellings are the forms in which a canary is looked for.
func spellings() (all []string) {
	for _, c := range []string{inlineCanary, operatorCanary} {
		all = append(all, c, hex.EncodeToString([]byte(c)), base64.RawStdEncoding.EncodeToString([]byte(c)))
	}
	return all
}

// wantNone looks for the canaries.
func wantNone(t *testing.T, where string, b []byte) {
	t.Helper()
	for _, c := range spellings() {
		if i := bytes.Index(b, []byte(c)); i >= 0 {
			t.Errorf("%s holds a secret: …%s…", where, b[max(0, i-60):min(len(b), i+60)])
		}
	}
}

// vault is a TLS server of this machine that wants both secrets and repeats what it gets. Its certificate is of an
// authority of its own, whose file it returns.
type vault struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newVault(t *testing.T) (v *vault, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vault"}, DNSNames: []string{"localhost"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	v = &vault{}
	v.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		got := req.Header.Get("Authorization") + "|" + req.Header.Get("X-Other")
		v.mu.Lock()
		v.seen = append(v.seen, got)
		v.mu.Unlock()
		w.Header().Set("X-Seen", got)
		fmt.Fprintf(w, "you sent %s, which is %s\n", got, base64.StdEncoding.EncodeToString([]byte(inlineCanary)))
	}))
	v.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	v.StartTLS()
	t.Cleanup(v.Close)
	authority = filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return v, authority
}

// call makes a request and returns the whole answer, events too.
func (s *server) call(t *testing.T, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s, %v", method, path, resp.StatusCode, b, err)
	}
	return b
}

// The host sees the values. Nothing else does: no answer, no event, no file of a container, nothing on the disk, no log.
func TestASecretIsNowhere(t *testing.T) {
	v, authority := newVault(t)
	port := v.Listener.Addr().(*net.TCPAddr).Port
	s := startWith(t, `
[features.server_tools.shell_limits]
allowed_egress_hosts = ["localhost:*"]
allowed_egress_ranges = ["127.0.0.0/8", "::1"]
[features.server_tools.shell_limits.allowed_domain_secrets.OPERATORS]
value = "env:OPERATORS_SECRET"
allowed_hosts = ["localhost"]
[log]
level = "debug"
`, "SSL_CERT_FILE="+authority, "OPERATORS_SECRET="+operatorCanary)
	script := fmt.Sprintf(`$ curl -sSi --noproxy "" https://localhost:%d/ -H "Authorization: Bearer $TOKEN" -H "X-Other: $OPERATORS" | tee answer.txt; env | tee env.txt; echo "$TOKEN $OPERATORS" >&2`, port)
	request := func(more string) string {
		input, _ := json.Marshal(script)
		return `{"model":"scripted","input":` + string(input) + `,` + more + `"tools":[{"type":"shell","environment":{"type":"container_auto","network_policy":{
			"type":"allowlist","allowed_domains":["localhost:*"],"domain_secrets":[{"domain":"localhost","name":"TOKEN","value":"` + inlineCanary + `"},{"placeholder":"OPERATORS"}]}}}]}`
	}
	var ids []string
	for name, more := range map[string]string{"plain": "", "streamed": `"stream":true,`, "in the background": `"background":true,`} {
		answer := s.call(t, "POST", "/v1/responses", request(more))
		wantNone(t, "the answer, "+name, answer)
		id := "resp_" + strings.SplitN(strings.SplitN(string(answer), `"id":"resp_`, 2)[1], `"`, 2)[0]
		ids = append(ids, id)
	}
	containers := map[string]bool{}
	for _, id := range ids {
		var done struct {
			Status      string `json:"status"`
			ContainerID string `json:"container_id"`
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			b := s.call(t, "GET", "/v1/responses/"+id, "")
			if err := json.Unmarshal(b, &done); err != nil {
				t.Fatal(err)
			}
			if done.Status == "completed" {
				wantNone(t, "the response", b)
				if !bytes.Contains(b, []byte("hsp_")) {
					t.Errorf("the command saw no placeholder: %s", b)
				}
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s is %s: %s", id, done.Status, b)
			}
		}
		containers[done.ContainerID] = true
		wantNone(t, "the event log", s.call(t, "GET", "/v1/responses/"+id+"?stream=true", ""))
		wantNone(t, "the input items", s.call(t, "GET", "/v1/responses/"+id+"/input_items", ""))
	}
	wantNone(t, "the containers", s.call(t, "GET", "/v1/containers", ""))
	for id := range containers {
		wantNone(t, "the container", s.call(t, "GET", "/v1/containers/"+id, ""))
		list := s.call(t, "GET", "/v1/containers/"+id+"/files", "")
		var files struct {
			Data []struct{ ID, Path string } `json:"data"`
		}
		if err := json.Unmarshal(list, &files); err != nil || len(files.Data) != 2 {
			t.Fatalf("%s, %v", list, err)
		}
		for _, f := range files.Data {
			content := s.call(t, "GET", "/v1/containers/"+id+"/files/"+f.ID+"/content", "")
			wantNone(t, f.Path, content)
			if !bytes.Contains(content, []byte("hsp_")) {
				t.Errorf("%s holds no placeholder: %s", f.Path, content)
			}
		}
	}
	v.mu.Lock()
	if len(v.seen) != 3 {
		t.Errorf("the host had %d requests", len(v.seen))
	}
	for _, got := range v.seen {
		if got != "Bearer "+inlineCanary+"|"+operatorCanary {
			t.Errorf("the host saw %q", got)
		}
	}
	v.mu.Unlock()
	s.search(t)
	s.stop(t)
	s.search(t)
	log := s.log.Bytes()
	wantNone(t, "the log", log)
	if !bytes.Contains(log, []byte(`"host":"localhost"`)) && !bytes.Contains(log, []byte("host=localhost")) || !bytes.Contains(log, []byte("OPERATORS")) {
		t.Errorf("the log has no line of a connection, or not the names of its secrets:\n%s", log)
	}
	s.launch(t) // for the clean-up
}

// search looks into every file of the data folder: the database, spools, workspaces.
func (s *server) search(t *testing.T) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // what a running server removes meanwhile
		}
		if b, err := os.ReadFile(path); err == nil {
			wantNone(t, path, b)
			files++
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("%d files searched, %v", files, err)
	}
}
