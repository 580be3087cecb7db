package egress

import (
	"maps"
	"net"
	"slices"
	"strings"
)

// Environment is what a box's variables are made of.
type Environment struct {
	Proxy        string            // host:port of the listener as the box sees it
	Bundle       string            // path in the box of a file in PEM: the system's roots and the proxy's certificate; "" for none
	TrustStore   string            // path in the box of the same as a Java key store; "" for none
	Placeholders map[string]string // of [Proxy.Placeholders]
	Closed       bool              // nothing is let through: what makes a tool print a line of its own is left out
}

// proxyVariables lead tools to the proxy. Each row says who reads it.
var proxyVariables = []struct{ name, readers string }{
	{"HTTP_PROXY", "most, for http; curl reads only the lower case"},
	{"HTTPS_PROXY", "most, for https"},
	{"http_proxy", "curl, wget, apt, git"},
	{"https_proxy", "curl, wget, apt, git"},
	{"npm_config_proxy", "npm, pnpm"},
	{"npm_config_https_proxy", "npm, pnpm"},
	{"YARN_HTTP_PROXY", "yarn from 2 on"},
	{"YARN_HTTPS_PROXY", "yarn from 2 on"},
	{"PIP_PROXY", "pip"},
	{"CARGO_HTTP_PROXY", "cargo"},
	{"grpc_proxy", "gRPC in C"},
}

// bundleVariables lead tools to the roots. Each row says who reads it.
var bundleVariables = []struct{ name, readers string }{
	{"SSL_CERT_FILE", "OpenSSL, Go, uv, Ruby, wget with OpenSSL"},
	{"CURL_CA_BUNDLE", "curl"},
	{"REQUESTS_CA_BUNDLE", "Python's requests"},
	{"PIP_CERT", "pip"},
	{"NODE_EXTRA_CA_CERTS", "node"},
	{"npm_config_cafile", "npm"},
	{"YARN_HTTPS_CA_FILE_PATH", "yarn from 2 on"},
	{"GIT_SSL_CAINFO", "git"},
	{"CARGO_HTTP_CAINFO", "cargo"},
	{"AWS_CA_BUNDLE", "the AWS tools"},
	{"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "gcloud"},
	{"DENO_CERT", "deno"},
	{"NIX_SSL_CERT_FILE", "nix"},
	{"BUNDLE_SSL_CA_CERT", "bundler"},
	{"PERL_LWP_SSL_CA_FILE", "Perl's LWP"},
	{"HEX_CACERTS_PATH", "mix"},
	{"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "gRPC in C"},
	{"CONDA_SSL_VERIFY", "conda"},
}

// fewRetries make a package tool that meets a closed door say so within seconds. Their own settings retry for a minute.
var fewRetries = [][2]string{
	{"PIP_RETRIES", "1"},
	{"CARGO_NET_RETRY", "1"},
	{"npm_config_fetch_retry_mintimeout", "200"},
	{"npm_config_fetch_retry_maxtimeout", "1000"},
}

// local are the box's own servers; they are reached without the proxy.
const local = "localhost,127.0.0.1,::1"

// Variables returns NAME=value lines, sorted, without doubles. A placeholder never replaces one of our own.
func (e Environment) Variables() []string {
	set := map[string]string{}
	maps.Copy(set, e.Placeholders)
	for _, v := range proxyVariables {
		set[v.name] = "http://" + e.Proxy
	}
	for _, name := range []string{"ALL_PROXY", "all_proxy"} {
		set[name] = "socks5h://" + e.Proxy // h: the proxy resolves
	}
	for _, name := range []string{"NO_PROXY", "no_proxy", "npm_config_noproxy"} {
		set[name] = local
	}
	set["NODE_USE_ENV_PROXY"] = "1" // node 24 and later heed the variables then
	for _, r := range fewRetries {
		set[r[0]] = r[1]
	}
	if e.Bundle != "" {
		for _, v := range bundleVariables {
			set[v.name] = e.Bundle
		}
	}
	if !e.Closed {
		set["JAVA_TOOL_OPTIONS"] = e.java() // the virtual machine tells of it on stderr
	}
	lines := make([]string, 0, len(set))
	for name, value := range set {
		lines = append(lines, name+"="+value)
	}
	slices.Sort(lines)
	return lines
}

// java returns options of the virtual machine, which heeds no proxy variable.
func (e Environment) java() string {
	host, port, err := net.SplitHostPort(e.Proxy)
	if err != nil {
		host, port = e.Proxy, "80"
	}
	var options strings.Builder
	for _, scheme := range []string{"http", "https"} {
		options.WriteString("-D" + scheme + ".proxyHost=" + host + " -D" + scheme + ".proxyPort=" + port + " ")
	}
	options.WriteString("-Dhttp.nonProxyHosts=localhost|127.*|[::1]")
	if e.TrustStore != "" {
		options.WriteString(" -Djavax.net.ssl.trustStore=" + e.TrustStore + " -Djavax.net.ssl.trustStoreType=JKS -Djavax.net.ssl.trustStorePassword=" + storePassword)
	}
	return options.String()
}
