package jail

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// A packageTool is one package manager, a registry that holds one package for it, and how it is asked for that.
type packageTool struct {
	bundle, host string
	has          string // a command that succeeds where the tool is
	install      string // and ends by showing the package's word
	files        map[string][]byte
}

// word is what every package says.
const word = "word-of-the-package"

func tarball(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for f := range strings.SplitSeq(text, "\x00") {
		path, body, _ := strings.Cut(f, "\n")
		if err := w.WriteHeader(&tar.Header{Name: name + "/" + path, Mode: 0o644, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(body))
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

func zipped(t *testing.T, files [][2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		out, err := w.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		out.Write([]byte(f[1]))
	}
	w.Close()
	return b.Bytes()
}

func packageTools(t *testing.T) []packageTool {
	node := tarball(t, "package", "package.json\n{\"name\":\"words\",\"version\":\"1.0.0\",\"main\":\"i.js\"}\x00i.js\nconsole.log('"+word+"')\n")
	sum := sha512.Sum512(node)
	npm := fmt.Sprintf(`{"name":"words","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"words","version":"1.0.0","main":"i.js",`+
		`"dist":{"tarball":"http://npm.test/words/-/words-1.0.0.tgz","integrity":"sha512-%s"}}}}`, base64.StdEncoding.EncodeToString(sum[:]))
	wheel := zipped(t, [][2]string{{"words.py", "print('" + word + "')\n"}, {"words-1.0.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: words\nVersion: 1.0.0\n"},
		{"words-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"words-1.0.0.dist-info/RECORD", "words.py,,\nwords-1.0.0.dist-info/METADATA,,\nwords-1.0.0.dist-info/WHEEL,,\nwords-1.0.0.dist-info/RECORD,,\n"}})
	module := zipped(t, [][2]string{{"go.test/words@v1.0.0/go.mod", "module go.test/words\n\ngo 1.20\n"}, {"go.test/words@v1.0.0/w.go", "package words\n\nconst Word = \"" + word + "\"\n"}})
	crate := tarball(t, "words-1.0.0", "Cargo.toml\n[package]\nname = \"words\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\x00src/lib.rs\n// "+word+"\n")
	crateSum := sha256.Sum256(crate)
	deb := []byte("!<arch>\n" + word)
	debSum := sha256.Sum256(deb)
	packages := fmt.Sprintf("Package: words\nVersion: 1.0.0\nArchitecture: all\nMaintainer: x\nFilename: ./words.deb\nSize: %d\nSHA256: %s\nDescription: x\n\n", len(deb), hex.EncodeToString(debSum[:]))
	return []packageTool{
		{bundle: "npm", host: "npm.test", has: "npm --version",
			install: "mkdir -p n && cd n && echo '{}' > package.json && npm install --no-audit --no-fund --registry http://npm.test/ words && node -e \"require('words')\"",
			files:   map[string][]byte{"/words": []byte(npm), "/words/-/words-1.0.0.tgz": node}},
		{bundle: "pip", host: "pip.test", has: "python3 -m pip --version",
			install: "python3 -m pip install --break-system-packages --no-cache-dir --index-url http://pip.test/simple --trusted-host pip.test --target p words && PYTHONPATH=p python3 -c 'import words'",
			files:   map[string][]byte{"/simple/words/": []byte(`<a href="/words-1.0.0-py3-none-any.whl">words-1.0.0-py3-none-any.whl</a>`), "/words-1.0.0-py3-none-any.whl": wheel}},
		{bundle: "go", host: "go.test", has: "export PATH=$PATH:/usr/local/go/bin; go version",
			install: "export PATH=$PATH:/usr/local/go/bin GOPROXY=http://go.test GOSUMDB=off GOFLAGS='-mod=mod -modcacherw' GOTOOLCHAIN=local CGO_ENABLED=0 && mkdir -p g && cd g && " +
				"go mod init main >/dev/null 2>&1; go get go.test/words@v1.0.0 && grep -rho '" + word + "' $(go env GOMODCACHE)/go.test",
			files: map[string][]byte{"/go.test/words/@v/v1.0.0.info": []byte(`{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`),
				"/go.test/words/@v/v1.0.0.mod": []byte("module go.test/words\n\ngo 1.20\n"), "/go.test/words/@v/v1.0.0.zip": module, "/go.test/words/@v/list": []byte("v1.0.0\n")}},
		{bundle: "cargo", host: "cargo.test", has: "cargo --version",
			install: "export CARGO_HOME=$PWD/ch && mkdir -p ch c/src && cd c && printf '[source.crates-io]\\nreplace-with=\"m\"\\n[source.m]\\nregistry=\"sparse+http://cargo.test/\"\\n' > ../ch/config.toml && " +
				"printf '[package]\\nname=\"m\"\\nversion=\"1.0.0\"\\nedition=\"2021\"\\n[dependencies]\\nwords=\"1\"\\n' > Cargo.toml && echo > src/lib.rs && cargo fetch && grep -rho '" + word + "' ../ch/registry/src",
			files: map[string][]byte{"/config.json": []byte(`{"dl":"http://cargo.test/dl"}`), "/dl/words/1.0.0/download": crate,
				"/wo/rd/words": fmt.Appendf(nil, `{"name":"words","vers":"1.0.0","deps":[],"cksum":"%s","features":{},"yanked":false}`+"\n", hex.EncodeToString(crateSum[:]))}},
		// Under a read-only root apt can only download, into folders of one's own.
		{bundle: "apt", host: "apt.test", has: "apt-get --version",
			install: "mkdir -p a/lists/partial a/cache/archives/partial && cd a && echo 'deb [trusted=yes] http://apt.test ./' > s.list && touch status && " +
				"o='-o Dir::Etc::SourceList=s.list -o Dir::Etc::SourceParts=- -o Dir::State::Lists=lists -o Dir::State::status=status -o Dir::Cache=cache -o Dir::Etc::Parts=- -o Debug::NoLocking=1 -o APT::Sandbox::User=user -o Dir=/ -o Acquire::Languages=none' && " +
				"o=${o//=lists/=$PWD/lists} && o=${o//=status/=$PWD/status} && o=${o//=cache/=$PWD/cache} && o=${o//=s.list/=$PWD/s.list} && " +
				"apt-get $o -o Acquire::Retries=0 update && apt-get $o download words && cat words*.deb",
			files: map[string][]byte{"/./Packages": []byte(packages), "/Packages": []byte(packages), "/words.deb": deb, "/./words.deb": deb}},
	}
}

// R9: each bundle opens what its tool needs and nothing else; without it the tool fails, and its command's result names the
// host and the bundle.
func TestPackagesComeThroughTheirBundles(t *testing.T) {
	for _, tool := range packageTools(t) {
		t.Run(tool.bundle, func(t *testing.T) {
			mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				body, ok := tool.files[req.URL.Path]
				if !ok || req.Host != tool.host {
					http.NotFound(w, req)
					return
				}
				w.Write(body)
			}))
			t.Cleanup(mirror.Close)
			n := newInternet(t, tool.host)
			n.plain.Close()
			n.plain = mirror
			network := n.network(t, "*")
			table := map[string][]string{}
			for _, name := range egress.BundleNames() {
				table[name] = []string{name + ".test"}
			}
			var err error
			if network.Egress.Bundles, err = egress.ParseBundles(table); err != nil {
				t.Fatal(err)
			}
			s, ctx := networked(t, t.TempDir(), network)
			closed := create(t, s, ctx)
			if r := run(t, s, ctx, closed, tool.has); r.ExitCode != 0 {
				require.Feature(t, tool.bundle, errors.New("not in the box"))
			}
			r := run(t, s, ctx, closed, tool.install)
			said := r.Stdout.Text + r.Stderr.Text + strings.Join(r.Blocked, "\n")
			if r.ExitCode == 0 || !strings.Contains(said, "blocked by policy: "+tool.host) && len(r.Blocked) == 0 ||
				!strings.Contains(said, tool.host) || !strings.Contains(said, `"bundle:`+tool.bundle+`"`) {
				t.Errorf("closed: exit %d\n%s\nblocked %q", r.ExitCode, said, r.Blocked)
			}
			t.Logf("closed: failed after %v", r.Duration)
			c, err := s.Create(ctx, org, container.CreateSpec{Network: allow("bundle:" + tool.bundle)})
			if err != nil {
				t.Fatal(err)
			}
			r = run(t, s, ctx, c.ID, tool.install)
			if r.ExitCode != 0 || !strings.Contains(r.Stdout.Text, word) {
				t.Errorf("exit %d\n%s\n%s\nblocked %q", r.ExitCode, r.Stdout.Text, r.Stderr.Text, r.Blocked)
			}
			if r = run(t, s, ctx, c.ID, "curl -fsS http://other.test/"); r.ExitCode == 0 || len(r.Blocked) != 1 {
				t.Errorf("another host: %d %q", r.ExitCode, r.Blocked)
			}
		})
	}
}
