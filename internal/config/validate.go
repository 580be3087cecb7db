package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
)

// laterShells are runtimes that the configuration's documentation names and that this version does not have.
var laterShells = []string{"microsandbox", "opensandbox", "oci"}

// providerName is what may stand before the slash of "provider/model".
var providerName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)
})

// headerName is an HTTP header's name.
var headerName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
})

// validate checks every value; the first that cannot be is the error.
func (l *Loaded) validate() error {
	for _, check := range []func() (string, *fault.Error){l.checkServer, l.checkStorage, l.checkFeatures, l.checkProviders, l.checkTelemetry, l.checkRest} {
		if key, err := check(); err != nil {
			return l.wrong(key, err)
		}
	}
	return nil
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...)
}

func (l *Loaded) checkServer() (string, *fault.Error) {
	s := l.Config.Server
	if err := CheckListen(s.Listen); err != nil {
		return "server.listen", err
	}
	if s.MaxBodyBytes < 1024 {
		return "server.max_body_bytes", invalid("%d bytes are too few for any request", s.MaxBodyBytes).WithTry("1024 or more; the default is %d", Default().Server.MaxBodyBytes)
	}
	for _, host := range s.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/@ ") {
			return "server.allowed_hosts", invalid("%q is not a host name", host).WithTry(`a bare name, such as "shell.example.org"`)
		}
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		return "server.tls.cert", invalid("a certificate and its key come together").WithTry("set both server.tls.cert and server.tls.key")
	}
	return "", nil
}

// CheckListen says what is wrong with a listening address, or nil.
func CheckListen(address string) *fault.Error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return invalid("%q is not an address with a port", address).WithTry("127.0.0.1:7070")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return invalid("%q is not a port", port).WithTry("a number from 0 to 65535; 0 takes a free one")
	}
	if _, err := netip.ParseAddr(host); host != "" && host != "localhost" && err != nil {
		return invalid("%q is not an address of this machine", host).WithTry("an IP address, or localhost")
	}
	return nil
}

// oneOf checks a word against a list.
func oneOf(value string, words ...string) *fault.Error {
	if slices.Contains(words, value) {
		return nil
	}
	return invalid("%q is not known", value).WithTry("one of: %s", strings.Join(words, ", "))
}

func (l *Loaded) checkFeatures() (string, *fault.Error) {
	f := l.Config.Features
	if slices.Contains(laterShells, f.Shell.Type) {
		return "features.shell.type", invalid("the runtime %q is not in this version", f.Shell.Type).WithTry("jail, client_passthrough, passthrough_openai or none")
	}
	if err := oneOf(f.Shell.Type, ShellJail, ShellClient, ShellVendor, ShellNone); err != nil {
		return "features.shell.type", err
	}
	if err := oneOf(f.Shell.DefaultEnvironment, EnvironmentAuto, EnvironmentLocal); err != nil {
		return "features.shell.default_environment", err
	}
	if key, err := f.Shell.Approval.check(); err != nil {
		return key, err
	}
	if err := oneOf(f.Responses.Compaction.DefaultStrategy, StrategyTruncate, StrategyLLM); err != nil {
		return "features.responses.compaction.default_strategy", err
	}
	limits := f.ServerTools.ShellLimits
	for _, n := range []struct {
		key              string
		value, low, high int
	}{
		{"features.server_tools.max_iterations", f.ServerTools.MaxIterations, 1, 1000},
		{"features.server_tools.shell_limits.command_timeout_secs", limits.CommandTimeoutSecs, 1, 7 * 24 * 3600},
		{"features.server_tools.shell_limits.default_command_timeout_secs", limits.DefaultCommandTimeoutSecs, 1, 7 * 24 * 3600},
		{"features.server_tools.shell_limits.max_output_chars", limits.MaxOutputChars, 100, 1 << 20},
		{"features.server_tools.shell_limits.default_mem_limit_mb", limits.DefaultMemLimitMB, 0, 1 << 24},
		{"features.server_tools.shell_limits.max_mem_limit_mb", limits.MaxMemLimitMB, 0, 1 << 24},
		{limitsKey + "input_file_url_timeout_secs", limits.InputFileURLTimeoutSecs, 1, 60},
		{"features.containers.default_idle_ttl_secs", f.Containers.DefaultIdleTTLSecs, 1, 1 << 30},
		{"features.containers.max_idle_ttl_secs", f.Containers.MaxIdleTTLSecs, 1, 1 << 30},
		{"features.responses.retention_secs", f.Responses.RetentionSecs, 0, 1 << 31},
		{"features.responses.background_workers", f.Responses.BackgroundWorkers, 1, 100_000},
		{"features.responses.compaction.default_threshold_tokens", f.Responses.Compaction.DefaultThresholdTokens, 1, 1 << 30},
		{"features.responses.compaction.keep_recent_items", f.Responses.Compaction.KeepRecentItems, 1, 10_000},
	} {
		if n.value < n.low || n.value > n.high {
			return n.key, invalid("%d is out of bounds", n.value).WithTry("a number from %d to %d", n.low, n.high)
		}
	}
	if key, err := limits.checkEgress(); err != nil {
		return key, err
	}
	if f.Responses.MaxBytes < 0 {
		return "features.responses.max_bytes", invalid("%d is out of bounds", f.Responses.MaxBytes).WithTry("a number of bytes, or 0 for no bound")
	}
	if key, err := f.checkLimits(); err != nil {
		return key, err
	}
	if limits.MaxMemLimitMB > 0 && limits.DefaultMemLimitMB > limits.MaxMemLimitMB {
		return "features.server_tools.shell_limits.default_mem_limit_mb",
			invalid("the default of %d MB is above the ceiling of %d MB", limits.DefaultMemLimitMB, limits.MaxMemLimitMB).WithTry("raise max_mem_limit_mb")
	}
	if f.Containers.DefaultIdleTTLSecs > f.Containers.MaxIdleTTLSecs {
		return "features.containers.default_idle_ttl_secs",
			invalid("the default of %d s is above the ceiling of %d s", f.Containers.DefaultIdleTTLSecs, f.Containers.MaxIdleTTLSecs).WithTry("raise max_idle_ttl_secs")
	}
	return "", nil
}

// checkURL wants the root of an HTTP API.
func checkURL(text string) *fault.Error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return invalid("a chat provider needs the root of its API").WithTry(`base_url = "http://127.0.0.1:8080/v1"`)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return invalid("this is not an http or https address").WithTry(`base_url = "http://127.0.0.1:8080/v1"`)
	case u.User != nil:
		return invalid("an address must not carry a password").WithTry("put the key in api_key")
	case u.RawQuery != "" || u.Fragment != "":
		return invalid("the root of an API has no query").WithTry("leave out what follows the path")
	}
	return nil
}

func (l *Loaded) checkRest() (string, *fault.Error) {
	for name, target := range l.Config.Models.Aliases {
		if target == "" {
			return "models.aliases." + name, invalid("an alias needs a model").WithTry(`%s = "provider/model"`, name)
		}
	}
	for name, line := range l.Config.Models.Fallbacks {
		_, alias := l.Config.Models.Aliases[name]
		if alias || len(line) == 0 || len(line) > 8 || slices.Contains(line, "") {
			return "models.fallbacks." + name, invalid("this wants 1 to 8 models, under a name that is no alias").WithTry(`%s = ["provider/model", "other/model"]`, name)
		}
	}
	if err := oneOf(l.Config.Log.Level, "debug", "info", "warn", "error"); err != nil {
		return "log.level", err
	}
	if err := oneOf(l.Config.Log.Format, "auto", "text", "json"); err != nil {
		return "log.format", err
	}
	return "", nil
}
