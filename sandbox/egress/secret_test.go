package egress

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

const canary = "sk-canary-6f1d/+b2=c0ffee"

// withSecret gives a box the secret TOKEN for hosts.
func withSecret(hosts ...string) func(*rig, *Options) {
	return func(_ *rig, o *Options) {
		o.Secrets = append(o.Secrets, Secret{Name: "TOKEN", Value: NewValue(canary), Hosts: hosts})
	}
}

// echo answers with the headers and the body that it got, the way a page that shows one's request does.
func echo(w http.ResponseWriter, req *http.Request) {
	for name, values := range req.Header {
		w.Header()["X-Echo-"+name] = values
	}
	fmt.Fprintln(w, req.Host, req.Proto, req.TLS != nil)
	req.Header.Write(w)
	io.Copy(w, req.Body)
}

// sees is a server that keeps the headers it gets.
func sees(got chan<- http.Header) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) { got <- req.Header.Clone() }
}

func TestTheHostSeesTheValueAndTheBoxDoesNot(t *testing.T) {
	r := newRig(t, withSecret("a.test"), "a.test")
	got := make(chan http.Header, 1)
	r.tls(sees(got), "a.test")
	box := r.proxy.Placeholders()["TOKEN"]
	if box == "" || strings.Contains(box, canary) {
		t.Fatalf("the placeholder is %q", box)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://a.test/", nil)
	req.Header.Set("Authorization", "Bearer "+box)
	req.Header.Set("X-Api-Key", box)
	req.Header.Add("Cookie", "session="+box+"; other=1")
	resp, err := r.client("http").Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 1 {
		t.Errorf("the terminated path spoke %s", resp.Proto)
	}
	if issuer := resp.TLS.PeerCertificates[0].Issuer.CommonName; !strings.Contains(issuer, "hardshell") {
		t.Errorf("the box sees a certificate of %q", issuer)
	}
	h := <-got
	for name, want := range map[string]string{"Authorization": "Bearer " + canary, "X-Api-Key": canary, "Cookie": "session=" + canary + "; other=1"} {
		if h.Get(name) != want {
			t.Errorf("%s: the host saw %q", name, h.Get(name))
		}
	}
	r.client("http").CloseIdleConnections()
	r.proxy.Close()
	rec := r.record()
	if rec.Carried != CarriedTerminated || rec.Requests != 1 || !slices.Equal(rec.Secrets, []string{"TOKEN"}) {
		t.Errorf("%+v", rec)
	}
}

func TestTheValueGoesInsideBasic(t *testing.T) {
	r := newRig(t, withSecret("a.test"), "a.test")
	got := make(chan http.Header, 1)
	r.tls(sees(got), "a.test")
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://a.test/", nil)
	req.SetBasicAuth("me", r.proxy.Placeholders()["TOKEN"])
	resp, err := r.client("http").Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	again := http.Request{Header: <-got}
	if user, password, ok := again.BasicAuth(); !ok || user != "me" || password != canary {
		t.Errorf("%q %q", user, password)
	}
}

// A secret leaves toward its hosts only, and only over TLS that was verified.
func TestAPlaceholderGoesNowhereElse(t *testing.T) {
	r := newRig(t, withSecret("a.test"), "a.test", "b.test", "*.a.test")
	got := make(chan http.Header, 10)
	r.plain(sees(got))
	r.tls(sees(got), "a.test", "b.test", "x.a.test")
	box := r.proxy.Placeholders()["TOKEN"]
	for _, target := range []string{"https://b.test/", "https://x.a.test/", "http://a.test/", "http://b.test/"} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", target, nil)
		req.Header.Set("Authorization", "Bearer "+box)
		resp, err := r.client("http").Do(req)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		resp.Body.Close()
		if h := <-got; h.Get("Authorization") != "Bearer "+box {
			t.Errorf("%s saw %q", target, h.Get("Authorization"))
		}
	}
}

func TestAnUnverifiedHostGetsNothing(t *testing.T) {
	for name, certify := range map[string]func(*rig) tls.Certificate{
		"of another authority": func(r *rig) tls.Certificate { return newTestCA(r.t).issue(r.t, "a.test") },
		"for another name":     func(r *rig) tls.Certificate { return r.ca.issue(r.t, "b.test") },
		"for a name above":     func(r *rig) tls.Certificate { return r.ca.issue(r.t, "test") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withSecret("a.test"), "a.test")
			got := make(chan http.Header, 10)
			s := r.tls(sees(got), "a.test")
			s.TLS.Certificates = []tls.Certificate{certify(r)}
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://a.test/", nil)
			req.Header.Set("Authorization", "Bearer "+r.proxy.Placeholders()["TOKEN"])
			resp, err := r.client("http").Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 502 || !strings.Contains(string(b), "cannot be verified") || len(got) != 0 {
				t.Errorf("%d %q, %d requests", resp.StatusCode, b, len(got))
			}
			if rec := r.record(); rec.Verdict != Failed || rec.Reason != BadCertificate {
				t.Errorf("%+v", rec)
			}
		})
	}
}

// A host that repeats what it was sent does not give the secret to the box.
func TestAnEchoIsScrubbed(t *testing.T) {
	r := newRig(t, withSecret("a.test"), "a.test")
	r.tls(echo, "a.test")
	box := r.proxy.Placeholders()["TOKEN"]
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+box))
	for _, sent := range []string{"Bearer " + box, basic} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://a.test/", strings.NewReader("a body"))
		req.Header.Set("Authorization", sent)
		resp, err := r.client("http").Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var all strings.Builder
		resp.Header.Write(&all)
		all.Write(b)
		if err != nil || !strings.Contains(string(b), "a body") {
			t.Errorf("%q, %v", b, err)
		}
		if got := resp.Header.Get("X-Echo-Authorization"); got != sent {
			t.Errorf("the echoed header is %q, sent was %q", got, sent)
		}
		for _, leak := range leaks("me:") {
			if strings.Contains(all.String(), leak) {
				t.Errorf("%q came back in %q", leak, all.String())
			}
		}
	}
}

// Credentials may be made of two secrets, one after the other: what came between is as secret as the end.
func TestAnEchoOfTwoSecretsIsScrubbed(t *testing.T) {
	const second = "sk-canary-second-0f0e0d0c"
	r := newRig(t, func(r *rig, o *Options) {
		withSecret("a.test")(r, o)
		o.Secrets = append(o.Secrets, Secret{Name: "OTHER", Value: NewValue(second), Hosts: []string{"a.test"}})
	}, "a.test")
	got := make(chan http.Header, 1)
	r.tls(func(w http.ResponseWriter, req *http.Request) {
		got <- req.Header.Clone()
		echo(w, req)
	}, "a.test")
	box := r.proxy.Placeholders()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://a.test/", nil)
	req.SetBasicAuth(box["TOKEN"], box["OTHER"])
	sent := req.Header.Get("Authorization")
	resp, err := r.client("http").Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	again := http.Request{Header: <-got}
	if user, password, ok := again.BasicAuth(); !ok || user != canary || password != second {
		t.Errorf("the host saw %q %q", user, password)
	}
	b, err := io.ReadAll(resp.Body)
	var all strings.Builder
	resp.Header.Write(&all)
	all.Write(b)
	if echoed := resp.Header.Get("X-Echo-Authorization"); err != nil || echoed != sent {
		t.Errorf("the echoed header is %q, sent was %q, %v", echoed, sent, err)
	}
	for _, half := range []string{canary + ":", canary + ":" + box["OTHER"], canary + ":" + second, box["TOKEN"] + ":" + second} {
		// The last group of a word without its neighbour is another one; what is before it stands as it is.
		if leak := base64.RawStdEncoding.EncodeToString([]byte(half)); strings.Contains(all.String(), leak[:len(leak)-3]) {
			t.Errorf("%q came back in %q", half, all.String())
		}
	}
}

// A placeholder anywhere but in a header's value goes out as it is.
func TestAPlaceholderIsFilledInHeadersOnly(t *testing.T) {
	r := newRig(t, withSecret("a.test"), "a.test")
	u := make(chan string, 1)
	r.tls(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		all := &strings.Builder{}
		fmt.Fprintf(all, "%s %s\n%s\n", req.RequestURI, req.Host, body)
		req.Header.Write(all)
		fmt.Fprint(all, req.Trailer)
		u <- all.String()
	}, "a.test")
	box := r.proxy.Placeholders()["TOKEN"]
	inside := r.inside("a.test:443")
	fmt.Fprintf(inside, "POST /%[1]s?q=%[1]s HTTP/1.1\r\nHost: a.test\r\nX-%[1]s: 1\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n24\r\n%[1]s\r\n0\r\nX-T: %[1]s\r\n\r\n", box)
	got := <-u
	if strings.Contains(got, canary) || strings.Count(strings.ToLower(got), box) != 4 {
		t.Errorf("the host saw\n%s", got)
	}
	inside.Close()
	if rec := r.record(); len(rec.Secrets) != 0 {
		t.Errorf("%+v", rec)
	}
}

// leaks are the forms in which the value may not come back.
func leaks(user string) []string {
	var all []string
	for _, f := range forms(canary) {
		all = append(all, f.reveal())
	}
	return append(all, base64.StdEncoding.EncodeToString([]byte(user+canary)))
}

func TestNothingPrintsAValue(t *testing.T) {
	v := NewValue(canary)
	s := Secret{Name: "TOKEN", Value: v, Hosts: []string{"a.test"}}
	policy, _ := ParsePolicy(TypeAllowlist, []string{"a.test"}, Bundles{})
	w, err := newWallet([]Secret{s}, policy)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&all, verb+verb+verb+"\n", v, s, w)
	}
	text, _ := json.Marshal(map[string]any{"v": v, "s": s})
	all.Write(text)
	slog.New(slog.NewTextHandler(&all, nil)).Info("x", "v", v, "s", s, "w", w)
	slog.New(slog.NewJSONHandler(&all, nil)).Info("x", "v", v, "s", s)
	bad := []Secret{{Name: "T", Value: NewValue(canary + "\n"), Hosts: []string{"a.test"}}, {Name: "T", Value: v, Hosts: []string{"b.test"}}, {Name: "0", Value: v}}
	for _, b := range bad {
		_, err := newWallet([]Secret{b}, policy)
		fmt.Fprintf(&all, "%v %+v\n", err, err)
	}
	if strings.Contains(all.String(), "canary") {
		t.Errorf("it is in %s", all.String())
	}
}

func TestSecretsThatAreRefused(t *testing.T) {
	policy, _ := ParsePolicy(TypeAllowlist, []string{"a.test", "*.b.test", "tcp://db.test:5432"}, Bundles{})
	ok := NewValue(canary)
	for name, s := range map[string][]Secret{
		"no host":                    {{Name: "T", Value: ok}},
		"a host that is not allowed": {{Name: "T", Value: ok, Hosts: []string{"c.test"}}},
		"more than is allowed":       {{Name: "T", Value: ok, Hosts: []string{"*.a.test"}}},
		"any host":                   {{Name: "T", Value: ok, Hosts: []string{"*"}}},
		"a port":                     {{Name: "T", Value: ok, Hosts: []string{"a.test:443"}}},
		"an address":                 {{Name: "T", Value: ok, Hosts: []string{"127.0.0.1"}}},
		"a host of raw bytes":        {{Name: "T", Value: ok, Hosts: []string{"db.test"}}},
		"no name":                    {{Value: ok, Hosts: []string{"a.test"}}},
		"a bad name":                 {{Name: "A=B", Value: ok, Hosts: []string{"a.test"}}},
		"no value":                   {{Name: "T", Hosts: []string{"a.test"}}},
		"a long value":               {{Name: "T", Value: NewValue(strings.Repeat("x", maxValue+1)), Hosts: []string{"a.test"}}},
		"a short value":              {{Name: "T", Value: NewValue("abc"), Hosts: []string{"a.test"}}},
		"two lines":                  {{Name: "T", Value: NewValue("abcd\r\nX: 1"), Hosts: []string{"a.test"}}},
		"a strange placeholder":      {{Name: "T", Value: ok, Hosts: []string{"a.test"}, Placeholder: "GET"}},
		"two values for a host":      {{Name: "T", Value: ok, Hosts: []string{"a.test"}}, {Name: "T", Value: NewValue("other"), Hosts: []string{"a.test"}}},
	} {
		_, err := newWallet(s, policy)
		if f, _ := fault.As(err); err == nil || f.Code != codeRejected || strings.Contains(f.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := newWallet([]Secret{{Name: "T", Value: NewValue(strings.Repeat("x", maxValue)), Hosts: []string{"a.test"}}}, policy); err != nil || maxValue != 64<<10 {
		t.Errorf("64 KiB: %v", err)
	}
	w, err := newWallet([]Secret{{Name: "T", Value: ok, Hosts: []string{"a.test"}}, {Name: "T", Value: NewValue("other"), Hosts: []string{"x.b.test"}}}, policy)
	if err != nil || w.entries[0].placeholder != w.entries[1].placeholder {
		t.Errorf("one variable, a value a host: %v", err)
	}
}

// A key of the box's authority, if it were ever stolen, signs for the hosts of secrets and for none besides.
func TestTheAuthorityIsConstrained(t *testing.T) {
	now := time.Now()
	rules, _ := ParseRules([]string{"a.test", "*.b.test"})
	a, err := newAuthority(rules, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	for host, want := range map[string]bool{"a.test": true, "x.b.test": true, "c.test": false, "eva.test": false} {
		config, err := a.server(host)
		if err != nil {
			t.Fatal(err)
		}
		leaf, _ := x509.ParseCertificate(config.Certificates[0].Certificate[0])
		_, err = leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: now})
		if (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
	if a.cert.NotAfter.After(now.Add(time.Hour + time.Minute)) {
		t.Errorf("it lives until %v", a.cert.NotAfter)
	}
	block, rest := pem.Decode(a.pem())
	if block == nil || block.Type != "CERTIFICATE" || len(rest) != 0 {
		t.Errorf("%q", a.pem())
	}
}

// A box that outlived its proxy goes on trusting the next one.
func TestAnAuthorityIsKept(t *testing.T) {
	first := newRig(t, withSecret("a.test"), "a.test", "b.test")
	kept, err := first.proxy.Keep()
	if err != nil {
		t.Fatal(err)
	}
	placeholder := first.proxy.Placeholders()["TOKEN"]
	next := newRig(t, func(r *rig, o *Options) {
		o.Kept = kept
		o.Secrets = []Secret{{Name: "TOKEN", Value: NewValue(canary), Hosts: []string{"a.test"}, Placeholder: placeholder}}
	}, "a.test")
	got := make(chan http.Header, 1)
	next.tls(sees(got), "a.test")
	c := next.client("http")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(first.proxy.Certificate())
	c.Transport.(*http.Transport).TLSClientConfig.RootCAs = pool
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://a.test/", nil)
	req.Header.Set("Authorization", placeholder)
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if h := <-got; h.Get("Authorization") != canary {
		t.Errorf("the host saw %q", h.Get("Authorization"))
	}
	policy, _ := ParsePolicy(TypeAllowlist, []string{"a.test", "b.test"}, Bundles{})
	ceiling, _ := ParseCeiling("", []string{"*"}, Bundles{})
	for name, o := range map[string]Options{
		"for other hosts": {Kept: kept, Secrets: []Secret{{Name: "TOKEN", Value: NewValue(canary), Hosts: []string{"b.test"}}}},
		"nonsense":        {Kept: NewValue("nonsense"), Secrets: []Secret{{Name: "TOKEN", Value: NewValue(canary), Hosts: []string{"a.test"}}}},
		"without its key": {Kept: NewValue(string(first.proxy.Certificate())), Secrets: []Secret{{Name: "TOKEN", Value: NewValue(canary), Hosts: []string{"a.test"}}}},
	} {
		o.Policy, o.Ceiling = policy, ceiling
		if _, err := New(o); err == nil {
			t.Errorf("%s: it is used", name)
		}
	}
}

func TestVariables(t *testing.T) {
	lines := Environment{Proxy: "127.0.0.1:3128", Bundle: "/run/ca.pem", TrustStore: "/run/ca.jks",
		Placeholders: map[string]string{"TOKEN": "hsp_1", "HTTPS_PROXY": "hsp_2"}}.Variables()
	got := map[string]string{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, "=")
		if _, double := got[name]; double {
			t.Errorf("%s stands twice", name)
		}
		got[name] = value
	}
	for name, want := range map[string]string{"HTTPS_PROXY": "http://127.0.0.1:3128", "http_proxy": "http://127.0.0.1:3128", "ALL_PROXY": "socks5h://127.0.0.1:3128",
		"NO_PROXY": "localhost,127.0.0.1,::1", "SSL_CERT_FILE": "/run/ca.pem", "TOKEN": "hsp_1", "NODE_EXTRA_CA_CERTS": "/run/ca.pem"} {
		if got[name] != want {
			t.Errorf("%s=%s", name, got[name])
		}
	}
	if !strings.Contains(got["JAVA_TOOL_OPTIONS"], "-Dhttps.proxyPort=3128") || !strings.Contains(got["JAVA_TOOL_OPTIONS"], "trustStore=/run/ca.jks") {
		t.Errorf("JAVA_TOOL_OPTIONS=%s", got["JAVA_TOOL_OPTIONS"])
	}
	for _, l := range (Environment{Proxy: "127.0.0.1:3128", Closed: true}).Variables() {
		if strings.HasPrefix(l, "JAVA_TOOL_OPTIONS=") {
			t.Errorf("a closed proxy makes every Java program print: %s", l)
		}
	}
	if !slices.IsSorted(lines) {
		t.Errorf("unsorted: %q", lines)
	}
}
